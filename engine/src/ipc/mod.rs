//! Arrow's IPC messages by hand: a schema and batches of rows written, ids and scores read.
//!
//! The format: <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>.
//! Only what requests hold is written, and only the columns `id` and `score` are read, straight
//! from their buffers: a library for all of Arrow would cost more to compile than the rest of the
//! engine's wire protocols together, and more per answer.

mod read;
mod write;

pub use read::{framed, Rows};
pub use write::{batch, schema, Cells, Column};

/// Kinds of messages.
const SCHEMA: u8 = 1;
const BATCH: u8 = 3;
/// Fields of `Message`.
const VERSION: usize = 0;
const KIND: usize = 1;
const HEADER: usize = 2;
const BODY_LENGTH: usize = 3;
/// Fields of `Field` that are read.
const NAME: usize = 0;
const NULLABLE: usize = 1;
const TYPE_KIND: usize = 2;
const TYPE: usize = 3;
const DICTIONARY: usize = 4;
const CHILDREN: usize = 5;
/// Kinds of types, as the union `Type` numbers them.
mod kind {
    pub const NULL: u8 = 1;
    pub const INT: u8 = 2;
    pub const FLOAT: u8 = 3;
    pub const BINARY: u8 = 4;
    pub const TEXT: u8 = 5;
    pub const BOOL: u8 = 6;
    pub const LIST: u8 = 12;
    pub const STRUCT: u8 = 13;
    pub const FIXED_BINARY: u8 = 15;
    pub const FIXED_LIST: u8 = 16;
    pub const MAP: u8 = 17;
    pub const LARGE_BINARY: u8 = 19;
    pub const LARGE_TEXT: u8 = 20;
    pub const LARGE_LIST: u8 = 21;
}
/// Values of the enum `Precision`.
const SINGLE: i16 = 1;
const DOUBLE: i16 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Answer;
    use proptest::prelude::*;

    fn columns<'a>(ids: &'a [i64], scores: &'a [f64], texts: &'a [String]) -> Vec<Column<'a>> {
        let column = |name, cells| Column {
            name,
            cells,
            valid: &[],
            nullable: false,
        };
        vec![
            column("text", Cells::Text(texts)),
            column("id", Cells::Int(ids)),
            column(
                "vector",
                Cells::Vector {
                    values: &[],
                    dim: 3,
                },
            ),
            column("score", Cells::Float(scores)),
        ]
    }

    fn stream(columns: &[Column<'_>]) -> Vec<u8> {
        let (header, body) = batch(columns);
        let mut out = vec![];
        for (header, body) in [(schema(columns, &[("a", "b")]), vec![]), (header, body)] {
            out.extend([0xff; 4]);
            out.extend((header.len() as u32).to_le_bytes());
            out.extend(header);
            out.extend(body);
        }
        out
    }

    proptest! {
        #[test]
        fn ids_and_scores_are_read_wherever_they_stand(rows: Vec<(i64, f32, String)>) {
            let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
            let scores: Vec<f64> = rows.iter().map(|row| row.1.into()).collect();
            let texts: Vec<String> = rows.iter().map(|row| row.2.clone()).collect();
            let bytes = stream(&columns(&ids, &scores, &texts));
            let mut answer = Answer::default();
            let mut reader = Rows::default();
            reader.stream(&bytes, &mut answer).unwrap();
            prop_assert_eq!(&answer.ids, &ids);
            prop_assert!(answer.scores.iter().zip(&scores).all(|(a, b)| f64::from(*a) == *b || a.is_nan()));
            // The same schema once more is known, and what is cut off is refused.
            reader.stream(&bytes, &mut answer).unwrap();
            prop_assert_eq!(answer.ids.len(), 2 * ids.len());
            prop_assert!(reader.stream(&bytes[..bytes.len() - 1], &mut answer).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, changes: Vec<(u16, u8)>) {
            let mut reader = Rows::default();
            let _ = reader.stream(&bytes, &mut Answer::default());
            let _ = reader.message(&bytes, &bytes, &mut Answer::default());
            let mut whole = stream(&columns(&[1, 2], &[0.5, 0.25], &["a".into(), "b".into()]));
            for (at, to) in changes {
                let at = usize::from(at) % whole.len();
                whole[at] = to;
            }
            let _ = reader.stream(&whole, &mut Answer::default());
        }
    }
}
