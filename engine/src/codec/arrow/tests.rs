use std::sync::Arc;

use arrow_array::types::{Float32Type, Int8Type};
use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeListArray, Float32Array, Float64Array, Int64Array,
    RecordBatch, StringArray, StringViewArray,
};
use proptest::prelude::*;

use super::*;
use crate::codec::DecodeError;

/// Rows of ids and scores, among columns that nobody reads.
fn rows(ids: &[i64], scores: ArrayRef, texts: &[String]) -> RecordBatch {
    let vectors = ids.iter().map(|_| Some([Some(0.5); 3]));
    let kinds: DictionaryArray<Int8Type> = ids.iter().map(|_| "kind").collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("text", Arc::new(StringArray::from_iter_values(texts))),
        ("id", Arc::new(Int64Array::from(ids.to_vec()))),
        (
            "vector",
            Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 3)),
        ),
        ("kind", Arc::new(kinds)),
        ("score", scores),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn read(reader: &mut Rows, bytes: &[u8]) -> Result<(Vec<i64>, Vec<f32>), DecodeError> {
    let (mut ids, mut scores) = (vec![], vec![]);
    reader.stream(bytes, &mut ids, &mut scores)?;
    Ok((ids, scores))
}

#[test]
fn a_column_whose_buffers_cannot_be_counted_is_refused() {
    let views: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
    let batch = RecordBatch::try_from_iter([("text", views)]).unwrap();
    let refused = read(&mut Rows::default(), &stream(&batch).unwrap());
    assert_eq!(
        refused,
        Err(DecodeError("a column has a type that is not read here"))
    );
}

#[test]
fn a_schema_with_more_columns_than_are_counted_is_refused() {
    let of = |columns: usize| {
        let column = |at: usize| -> (String, ArrayRef) {
            (at.to_string(), Arc::new(Int64Array::from(vec![1])))
        };
        RecordBatch::try_from_iter((0..columns).map(column)).unwrap()
    };
    assert!(read(&mut Rows::default(), &stream(&of(100)).unwrap()).is_ok());
    let refused = read(&mut Rows::default(), &stream(&of(20_000)).unwrap());
    assert_eq!(
        refused,
        Err(DecodeError("an Arrow message is no valid FlatBuffer"))
    );
}

proptest! {
    #[test]
    fn ids_and_scores_are_read_wherever_they_stand(
        all: Vec<(i64, f32, String)>, single: bool,
    ) {
        let ids: Vec<i64> = all.iter().map(|row| row.0).collect();
        let scores: Vec<f32> = all.iter().map(|row| row.1).collect();
        let texts: Vec<String> = all.iter().map(|row| row.2.clone()).collect();
        let column: ArrayRef = match single {
            true => Arc::new(Float32Array::from(scores.clone())),
            false => Arc::new(Float64Array::from_iter_values(scores.iter().map(|x| f64::from(*x)))),
        };
        let bytes = stream(&rows(&ids, column, &texts)).unwrap();
        let mut reader = Rows::default();
        // The second time the same schema is known.
        for _ in 0..2 {
            let (seen, near) = read(&mut reader, &bytes).unwrap();
            prop_assert_eq!(&seen, &ids);
            prop_assert!(near.iter().zip(&scores).all(|(a, b)| a == b || a.is_nan()));
            prop_assert_eq!(near.len(), scores.len());
        }
        // What is cut off is refused, but for the mark of the end.
        prop_assert!(read(&mut reader, &bytes[..bytes.len() - 9]).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>, changes: Vec<(u16, u8)>) {
        let mut reader = Rows::default();
        let _ = read(&mut reader, &bytes);
        let _ = reader.message(&bytes, &bytes, &mut vec![], &mut vec![]);
        let scores: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 0.25]));
        let mut whole = stream(&rows(&[1, 2], scores, &["a".into(), "b".into()])).unwrap();
        for (at, to) in changes {
            let at = usize::from(at) % whole.len();
            whole[at] = to;
        }
        let _ = read(&mut reader, &whole);
    }
}
