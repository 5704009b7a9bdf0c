//! The record of one class of operations: what every lane writes to while it measures.
//!
//! One recorder belongs to one worker, so nothing here is shared or locked; the workers' records
//! are merged when they are done, and the result is what one recorder of all samples would hold.
//! All times are nanoseconds of one monotonic clock.

use std::sync::Arc;

use crate::failures::Failures;
use crate::histogram::Latencies;
use crate::judge::{has_duplicate, Judge};
use crate::misuse::Misuse;
use crate::packed::{packed, Packed};
use crate::windows::{WindowRow, Windows};

/// Which of a recorder's histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Intended start to answer, of what succeeded.
    Latency,
    /// Send to answer, of what succeeded.
    Service,
    /// Intended start to failure.
    Error,
}

#[derive(Clone, Debug)]
pub struct Recorder {
    judge: Option<Arc<Judge>>,
    started: Option<i64>,
    finished: Option<i64>,
    last_done: i64,
    latency: Latencies,
    /// None while every request was sent when it was due, as in a closed loop: then it is the same
    /// as the latency, and one histogram is touched in place of two.
    service: Option<Latencies>,
    error: Latencies,
    windows: Windows,
    failures: Failures,
    answers: Answers,
    scratch: Vec<i64>,
}

/// What the answers, as opposed to other operations, were worth.
#[derive(Clone, Debug, Default)]
struct Answers {
    count: u64,
    short: u64,
    duplicate: u64,
    /// (hits, answers) of each query.
    by_query: Vec<(u64, u64)>,
    /// Answers by (whole, part) of their recall: exact, whatever the denominators.
    by_recall: Vec<Vec<u64>>,
}

packed!(Answers {
    count,
    short,
    duplicate,
    by_query,
    by_recall
});

/// Recall over the answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recall {
    pub mean: f64,
    pub p05: f64,
    pub min: f64,
}

/// The figures of a record; None where nothing was recorded that could tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub count: u64,
    pub errors: u64,
    pub saturated: u64,
    pub short_answers: Option<u64>,
    pub duplicate_answers: Option<u64>,
    pub qps: Option<f64>,
    pub latency_mean_ns: Option<f64>,
    pub latency_min_ns: Option<u64>,
    pub latency_max_ns: Option<u64>,
    pub recall: Option<Recall>,
}

impl Recorder {
    pub fn new(judge: Option<Arc<Judge>>, window_ns: u64) -> Result<Self, Misuse> {
        let queries = judge.as_ref().map_or(0, |judge| judge.queries());
        Ok(Self {
            judge,
            started: None,
            finished: None,
            last_done: i64::MIN,
            latency: Latencies::default(),
            service: None,
            error: Latencies::default(),
            windows: Windows::new(window_ns)?,
            failures: Failures::default(),
            answers: Answers {
                by_query: vec![(0, 0); queries],
                ..Answers::default()
            },
            scratch: Vec::new(),
        })
    }

    /// Begin: windows count from here. Recorders to be merged start at the same instant.
    pub fn start(&mut self, at: i64) -> Result<(), Misuse> {
        if self.started.is_some() {
            return Err(Misuse("the recorder was started before".into()));
        }
        self.started = Some(at);
        Ok(())
    }

    /// A search's answer, best id first.
    pub fn answer(
        &mut self,
        query: usize,
        intended: i64,
        sent: i64,
        done: i64,
        ids: &[i64],
    ) -> Result<(), Misuse> {
        let times = self.times(intended, sent, done)?;
        let recall = match &self.judge {
            Some(judge) => {
                let verdict = judge.judge(query, ids, &mut self.scratch)?;
                self.answers.short += u64::from(verdict.short);
                self.answers.duplicate += u64::from(verdict.duplicate);
                let fraction = verdict.fraction(ids.len());
                self.answers.judged(query, fraction);
                Some(fraction)
            }
            None => {
                let twice = has_duplicate(ids, &mut self.scratch);
                self.answers.duplicate += u64::from(twice);
                None
            }
        };
        self.answers.count += 1;
        self.succeeded(times, recall);
        Ok(())
    }

    /// A finished operation that has no answer to judge.
    pub fn operation(&mut self, intended: i64, sent: i64, done: i64) -> Result<(), Misuse> {
        let times = self.times(intended, sent, done)?;
        self.succeeded(times, None);
        Ok(())
    }

    /// A failed operation: counted and timed in a histogram of its own.
    pub fn error(
        &mut self,
        intended: i64,
        sent: i64,
        done: i64,
        kind: &str,
        message: &str,
    ) -> Result<(), Misuse> {
        let times = self.times(intended, sent, done)?;
        self.last_done = self.last_done.max(done);
        self.error.record(times.latency_ns);
        self.windows.failure(times.window);
        self.failures.record(done, kind, message);
        Ok(())
    }

    /// Everything but the judge, as bytes that [`Recorder::unpack`] reads.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = vec![];
        self.started.put(&mut out);
        self.finished.put(&mut out);
        self.last_done.put(&mut out);
        self.latency.put(&mut out);
        self.service.put(&mut out);
        self.error.put(&mut out);
        self.windows.put(&mut out);
        self.failures.put(&mut out);
        self.answers.put(&mut out);
        out
    }

    /// A recorder that was packed, maybe in another process; `judge` is equal to the one it had.
    pub fn unpack(mut bytes: &[u8], judge: Option<Arc<Judge>>) -> Result<Self, Misuse> {
        let bytes = &mut bytes;
        let out = Self {
            judge,
            started: Packed::take(bytes)?,
            finished: Packed::take(bytes)?,
            last_done: Packed::take(bytes)?,
            latency: Packed::take(bytes)?,
            service: Packed::take(bytes)?,
            error: Packed::take(bytes)?,
            windows: Packed::take(bytes)?,
            failures: Packed::take(bytes)?,
            answers: Packed::take(bytes)?,
            scratch: Vec::new(),
        };
        let queries = out.judge.as_ref().map_or(0, |judge| judge.queries());
        if !bytes.is_empty() || out.answers.by_query.len() != queries {
            return Err(Misuse("the record is of another truth, or damaged".into()));
        }
        Ok(out)
    }

    /// How many samples there are so far, failed ones too.
    pub fn samples(&self) -> u64 {
        self.latency.count() + self.error.count()
    }

    /// How many of them failed.
    pub fn errors(&self) -> u64 {
        self.error.count()
    }

    /// The end of the phase: what qps divides by.
    pub fn finish(&mut self, at: i64) -> Result<(), Misuse> {
        let Some(started) = self.started else {
            return Err(Misuse("the recorder was not started".into()));
        };
        if at < started || at < self.last_done {
            return Err(Misuse(
                "a phase ends after its start and its last sample".into(),
            ));
        }
        self.finished = Some(at);
        Ok(())
    }

    /// Take in another worker's record, as if one recorder had seen everything.
    pub fn merge(&mut self, other: &Self) -> Result<(), Misuse> {
        let same_judge = match (&self.judge, &other.judge) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs) || ours == theirs,
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        if !same_judge {
            return Err(Misuse(
                "the recorders were judged by different truths".into(),
            ));
        }
        if self.windows.width_ns() != other.windows.width_ns() {
            return Err(Misuse(
                "the recorders have windows of different width".into(),
            ));
        }
        if let (Some(ours), Some(theirs)) = (self.started, other.started) {
            if ours != theirs {
                return Err(Misuse("the recorders started at different instants".into()));
            }
        }
        self.started = self.started.or(other.started);
        self.finished = self.finished.max(other.finished);
        self.last_done = self.last_done.max(other.last_done);
        if self.service.is_some() || other.service.is_some() {
            let theirs = other.service.as_ref().unwrap_or(&other.latency);
            self.service
                .get_or_insert_with(|| self.latency.clone())
                .merge(theirs);
        }
        self.latency.merge(&other.latency);
        self.error.merge(&other.error);
        self.windows.merge(&other.windows);
        self.failures.merge(&other.failures);
        self.answers.merge(&other.answers);
        Ok(())
    }

    pub fn summary(&self) -> Summary {
        let count = self.latency.count();
        let seconds = match (self.started, self.finished) {
            (Some(start), Some(end)) if end > start => Some(end.abs_diff(start) as f64 / 1e9),
            _ => None,
        };
        let answered = self.answers.count > 0;
        Summary {
            count,
            errors: self.error.count(),
            saturated: self.latency.saturated() + self.error.saturated(),
            short_answers: (answered && self.judge.is_some()).then_some(self.answers.short),
            duplicate_answers: answered.then_some(self.answers.duplicate),
            qps: seconds.map(|seconds| count as f64 / seconds),
            latency_mean_ns: self.latency.mean_ns(),
            latency_min_ns: self.latency.min_ns(),
            latency_max_ns: self.latency.max_ns(),
            recall: self.answers.recall(),
        }
    }

    pub fn histogram(&self, kind: Kind) -> &Latencies {
        match kind {
            Kind::Latency => &self.latency,
            Kind::Service => self.service.as_ref().unwrap_or(&self.latency),
            Kind::Error => &self.error,
        }
    }

    /// What happened in each window, to the end of the phase where that is known.
    pub fn windows(&mut self) -> Vec<WindowRow> {
        let end = match (self.started, self.finished) {
            (Some(start), Some(end)) => Some(end.abs_diff(start)),
            _ => None,
        };
        self.windows.rows(end)
    }

    /// One window that is over, alone.
    pub fn window(&self, index: u64) -> Option<Windows> {
        self.windows.alone(index)
    }

    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Of each query: the sum of its answers' recalls, and how many there were.
    pub fn query_recall(&self) -> Vec<(f64, u64)> {
        let Some(judge) = &self.judge else {
            return vec![];
        };
        let of = |(query, (hits, answers)): (usize, &(u64, u64))| {
            let whole = judge.available(query).unwrap_or(1).max(1);
            (*hits as f64 / f64::from(whole), *answers)
        };
        self.answers.by_query.iter().enumerate().map(of).collect()
    }

    fn times(&self, intended: i64, sent: i64, done: i64) -> Result<Times, Misuse> {
        let Some(started) = self.started else {
            return Err(Misuse("the recorder was not started".into()));
        };
        if !(started <= intended && intended <= sent && sent <= done) {
            return Err(Misuse(format!(
                "times run backwards: started {started}, intended {intended}, sent {sent}, \
                 done {done}"
            )));
        }
        if self.finished.is_some() {
            return Err(Misuse("the recorder was finished before".into()));
        }
        Ok(Times {
            latency_ns: done.abs_diff(intended),
            service_ns: done.abs_diff(sent),
            window: self.windows.index(done.abs_diff(started))?,
            done,
        })
    }

    fn succeeded(&mut self, times: Times, recall: Option<(u32, u32)>) {
        self.last_done = self.last_done.max(times.done);
        if times.latency_ns != times.service_ns || self.service.is_some() {
            self.service
                .get_or_insert_with(|| self.latency.clone())
                .record(times.service_ns);
        }
        self.latency.record(times.latency_ns);
        self.windows.success(times.window, times.latency_ns, recall);
    }
}

struct Times {
    latency_ns: u64,
    service_ns: u64,
    window: u64,
    done: i64,
}

impl Answers {
    fn judged(&mut self, query: usize, (part, whole): (u32, u32)) {
        let (hits, answers) = &mut self.by_query[query];
        *hits += u64::from(part);
        *answers += 1;
        self.row(whole as usize)[part as usize] += 1;
    }

    /// The counts of answers of which `whole` was to be found, by what was.
    fn row(&mut self, whole: usize) -> &mut Vec<u64> {
        if self.by_recall.len() <= whole {
            self.by_recall.resize_with(whole + 1, Vec::new);
        }
        let row = &mut self.by_recall[whole];
        if row.is_empty() {
            row.resize(whole + 1, 0);
        }
        row
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.short += other.short;
        self.duplicate += other.duplicate;
        for (ours, theirs) in self.by_query.iter_mut().zip(&other.by_query) {
            ours.0 += theirs.0;
            ours.1 += theirs.1;
        }
        for (whole, row) in other
            .by_recall
            .iter()
            .enumerate()
            .filter(|(_, row)| !row.is_empty())
        {
            for (ours, theirs) in self.row(whole).iter_mut().zip(row) {
                *ours += theirs;
            }
        }
    }

    fn recall(&self) -> Option<Recall> {
        let mut by_value: Vec<(f64, u64)> = Vec::new();
        let mut sum = 0.0;
        for (whole, row) in self.by_recall.iter().enumerate() {
            let hits: u64 = row
                .iter()
                .enumerate()
                .map(|(part, n)| part as u64 * n)
                .sum();
            sum += hits as f64 / whole.max(1) as f64;
            let seen = row.iter().enumerate().filter(|(_, answers)| **answers > 0);
            by_value.extend(seen.map(|(part, n)| (part as f64 / whole.max(1) as f64, *n)));
        }
        by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
        let answers: u64 = by_value.iter().map(|(_, n)| n).sum();
        let rank = answers.div_ceil(20); // nearest rank of the 5th percentile
        let mut below = 0;
        let p05 = by_value.iter().find(|(_, n)| {
            below += n;
            below >= rank
        });
        Some(Recall {
            mean: sum / answers as f64,
            p05: p05?.0,
            min: by_value.first()?.0,
        })
    }
}

#[cfg(test)]
mod tests {
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
            (0usize..3, prop::collection::vec(0i64..10, 0..5))
                .prop_map(|(q, i)| Sample::Answer(q, i)),
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
    fn misuse_is_refused_and_leaves_no_trace() {
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
}
