//! One recorder of all samples is what many merged ones are.

use super::*;
use proptest::prelude::*;

const START: i64 = 1_000;
const WINDOW: u64 = 1_000_000;

#[derive(Clone, Debug)]
enum Sample {
    Answer(usize, Vec<i64>),
    Operation,
    Error(u8, u8),
}

/// (offset of intended, wait before the send, service time, what)
type Step = (u32, u16, u64, Sample);

fn judge() -> Arc<Judge> {
    let accept = vec![1, 2, 3, 4, 5, 1, 9];
    Arc::new(Judge::new(3, &[0, 5, 7, 7], accept, &[3, 2, 0]).unwrap())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sample = prop_oneof![
        (0usize..3, prop::collection::vec(0i64..10, 0..5)).prop_map(|(q, i)| Sample::Answer(q, i)),
        Just(Sample::Operation),
        (0u8..3, 0u8..12).prop_map(|(kind, text)| Sample::Error(kind, text)),
    ];
    let service = prop_oneof![0u64..5_000_000, 99_999_999_000u64..100_000_000_010];
    prop::collection::vec((0u32..9_000_000, any::<u16>(), service, sample), 0..60)
}

fn feed(recorder: &mut Recorder, (offset, wait, service, what): &Step) {
    let intended = START + i64::from(*offset);
    let sent = intended + i64::from(*wait);
    let done = sent + *service as i64;
    match what {
        Sample::Answer(query, ids) => recorder.answer(*query, intended, sent, done, ids),
        Sample::Operation => recorder.operation(intended, sent, done),
        Sample::Error(kind, text) => {
            let (kind, text) = (format!("kind {kind}"), format!("text {text}"));
            recorder.error(intended, sent, done, &kind, &text)
        }
    }
    .unwrap();
}

proptest! {
    #[test]
    fn a_packed_record_is_the_same_record(steps in steps()) {
        let mut before = of(&steps, i64::MAX >> 1);
        let mut after = Recorder::unpack(&before.pack(), Some(judge())).unwrap();
        prop_assert_eq!(before.summary(), after.summary());
        prop_assert_eq!(before.query_recall(), after.query_recall());
        prop_assert_eq!(before.pack(), after.pack());
        prop_assert_eq!(before.windows.rows(Some(1)), after.windows.rows(Some(1)));
        prop_assert!(before.failures().rows().eq(after.failures().rows()));
    }

    #[test]
    fn no_bytes_make_a_packed_record_panic(
        steps in steps(), at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = of(&steps, i64::MAX >> 1).pack();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Recorder::unpack(&bytes, Some(judge()));
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Recorder::unpack(&bytes, Some(judge())).is_err());
    }
}

fn of(steps: &[Step], end: i64) -> Recorder {
    // Long operations would make as many windows: widen them, as a caller would have to.
    let mut out = Recorder::new(Some(judge()), WINDOW * 100).unwrap();
    out.start(START).unwrap();
    steps.iter().for_each(|step| feed(&mut out, step));
    out.finish(end).unwrap();
    out
}

fn all_of(recorder: &mut Recorder) -> impl PartialEq + std::fmt::Debug {
    let hdr = |kind| recorder.histogram(kind).encode();
    let encoded = [hdr(Kind::Latency), hdr(Kind::Service), hdr(Kind::Error)];
    let failures: Vec<_> = recorder
        .failures()
        .rows()
        .map(|(kind, n, texts)| (kind.to_owned(), n, texts.join("\n")))
        .collect();
    let (summary, recall) = (recorder.summary(), recorder.query_recall());
    (encoded, failures, summary, recall, recorder.windows())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merged_parts_are_one_recorder_of_everything(
        parts in prop::collection::vec(steps(), 1..4)
    ) {
        let end = 200_000_000_000;
        let mut merged = of(&parts[0], end);
        for part in &parts[1..] {
            merged.merge(&of(part, end)).unwrap();
        }
        let mut whole = of(&parts.concat(), end);
        prop_assert_eq!(all_of(&mut merged), all_of(&mut whole));
    }

    #[test]
    fn every_sample_is_counted_once(steps in steps()) {
        let mut seen = of(&steps, 200_000_000_000);
        let summary = seen.summary();
        let errors = steps.iter().filter(|s| matches!(s.3, Sample::Error(..))).count() as u64;
        prop_assert_eq!(summary.count + summary.errors, steps.len() as u64);
        prop_assert_eq!(summary.errors, errors);
        let rows = seen.windows();
        prop_assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), summary.count);
        prop_assert_eq!(rows.iter().map(|row| row.errors).sum::<u64>(), errors);
        prop_assert_eq!(seen.failures().rows().map(|row| row.1).sum::<u64>(), errors);
        let answers = steps.iter().filter(|s| matches!(s.3, Sample::Answer(..))).count() as u64;
        let by_query = seen.query_recall();
        prop_assert_eq!(by_query.iter().map(|q| q.1).sum::<u64>(), answers);
        if let Some(recall) = summary.recall {
            let sum: f64 = by_query.iter().map(|q| q.0).sum();
            prop_assert!((recall.mean - sum / answers as f64).abs() < 1e-12);
            prop_assert!(recall.min <= recall.p05 && recall.min <= recall.mean);
        }
    }
}

#[test]
fn an_invalid_argument_is_refused_and_leaves_no_trace() {
    let mut seen = Recorder::new(Some(judge()), WINDOW).unwrap();
    assert!(seen.operation(1, 1, 1).is_err(), "not started");
    assert!(seen.finish(1).is_err(), "not started");
    seen.start(10).unwrap();
    assert!(seen.start(10).is_err(), "started twice");
    assert!(seen.answer(3, 11, 11, 12, &[]).is_err(), "no such query");
    assert!(seen.answer(0, 11, 11, 10, &[]).is_err(), "done before sent");
    assert!(
        seen.answer(0, 12, 11, 12, &[]).is_err(),
        "sent before intended"
    );
    assert!(seen.answer(0, 9, 11, 12, &[]).is_err(), "before the start");
    assert!(
        seen.operation(10, 10, i64::MAX).is_err(),
        "too many windows"
    );
    assert_eq!(seen.summary().count, 0);
    seen.operation(10, 10, 20).unwrap();
    assert!(seen.finish(19).is_err(), "ends before its last sample");
    seen.finish(20).unwrap();
    assert!(seen.operation(10, 10, 20).is_err(), "finished");
    assert!(Recorder::new(None, 0).is_err());
    let other = Recorder::new(None, WINDOW).unwrap();
    assert!(seen.merge(&other).is_err(), "another judge");
    let mut late = Recorder::new(Some(judge()), WINDOW).unwrap();
    late.start(11).unwrap();
    assert!(seen.merge(&late).is_err(), "another start");
    assert_eq!(seen.summary().qps, Some(1e8));
}

#[test]
fn windows_without_samples_are_there_too() {
    let mut seen = Recorder::new(None, 10).unwrap();
    seen.start(0).unwrap();
    seen.operation(0, 0, 1).unwrap();
    seen.operation(0, 25, 29).unwrap();
    seen.operation(0, 0, 5).unwrap(); // a straggler opens its window again
    seen.finish(50).unwrap();
    let rows = seen.windows();
    let counts: Vec<_> = rows.iter().map(|row| (row.second, row.count)).collect();
    assert_eq!(counts, [(0, 2), (1, 0), (2, 1), (3, 0), (4, 0)]);
    assert_eq!((rows[0].p50_ns, rows[0].max_ns), (Some(1), Some(5)));
    assert_eq!((rows[1].p50_ns, rows[1].recall), (None, None));
}
