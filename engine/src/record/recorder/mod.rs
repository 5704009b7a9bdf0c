//! The record of one class of operations: what every lane writes to while it measures.
//!
//! One recorder belongs to one client, so nothing here is shared or locked; the clients' records
//! are merged when they are done, and the result is what one recorder of all samples would hold.
//! All times are nanoseconds of one monotonic clock.

mod answers;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::invalid_argument::InvalidArgument;
use crate::record::failures::Failures;
use crate::record::histogram::Latencies;
use crate::record::recall::{has_duplicate, Judge};
use crate::record::windows::{WindowRow, Windows};
use answers::Answers;
pub use answers::Recall;

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

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorder {
    #[serde(skip)]
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
    #[serde(skip)]
    scratch: Vec<i64>,
}

/// The figures of a record; None where nothing was recorded that could tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub count: u64,
    pub errors: u64,
    pub saturated: u64,
    pub incomplete_results: Option<u64>,
    pub duplicate_answers: Option<u64>,
    pub qps: Option<f64>,
    pub latency_mean_ns: Option<f64>,
    pub latency_min_ns: Option<u64>,
    pub latency_max_ns: Option<u64>,
    pub recall: Option<Recall>,
}

impl Recorder {
    pub fn new(judge: Option<Arc<Judge>>, window_ns: u64) -> Result<Self, InvalidArgument> {
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
            answers: Answers::of(queries),
            scratch: Vec::new(),
        })
    }

    /// Begin: windows count from here. Recorders to be merged start at the same instant.
    pub fn start(&mut self, at: i64) -> Result<(), InvalidArgument> {
        if self.started.is_some() {
            return Err(InvalidArgument("the recorder was started before".into()));
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
    ) -> Result<(), InvalidArgument> {
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
    pub fn operation(
        &mut self,
        intended: i64,
        sent: i64,
        done: i64,
    ) -> Result<(), InvalidArgument> {
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
    ) -> Result<(), InvalidArgument> {
        let times = self.times(intended, sent, done)?;
        self.last_done = self.last_done.max(done);
        self.error.record(times.latency_ns);
        self.windows.failure(times.window);
        self.failures.record(done, kind, message);
        Ok(())
    }

    /// Everything but the judge, as bytes that [`Recorder::unpack`] of the same build reads.
    pub fn pack(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("writing to memory does not fail")
    }

    /// A recorder that was packed, maybe in another process; `judge` is equal to the one it had.
    pub fn unpack(bytes: &[u8], judge: Option<Arc<Judge>>) -> Result<Self, InvalidArgument> {
        let (mut out, rest): (Self, &[u8]) = postcard::take_from_bytes(bytes).map_err(|error| {
            InvalidArgument(format!("these bytes are not a packed record: {error}"))
        })?;
        let queries = judge.as_ref().map_or(0, |judge| judge.queries());
        if !rest.is_empty() || out.answers.by_query.len() != queries {
            return Err(InvalidArgument(
                "the record is of another truth, or damaged".into(),
            ));
        }
        out.judge = judge;
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
    pub fn finish(&mut self, at: i64) -> Result<(), InvalidArgument> {
        let Some(started) = self.started else {
            return Err(InvalidArgument("the recorder was not started".into()));
        };
        if at < started || at < self.last_done {
            return Err(InvalidArgument(
                "a phase ends after its start and its last sample".into(),
            ));
        }
        self.finished = Some(at);
        Ok(())
    }

    /// Take in another client's record, as if one recorder had seen everything.
    pub fn merge(&mut self, other: &Self) -> Result<(), InvalidArgument> {
        let same_judge = match (&self.judge, &other.judge) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs) || ours == theirs,
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        if !same_judge {
            return Err(InvalidArgument(
                "the recorders were judged by different truths".into(),
            ));
        }
        if self.windows.width_ns() != other.windows.width_ns() {
            return Err(InvalidArgument(
                "the recorders have windows of different width".into(),
            ));
        }
        if let (Some(ours), Some(theirs)) = (self.started, other.started) {
            if ours != theirs {
                return Err(InvalidArgument(
                    "the recorders started at different instants".into(),
                ));
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

    /// When it began.
    pub fn started(&self) -> Option<i64> {
        self.started
    }

    /// Move every instant by so many ns: to the clock of another machine, whose records are merged
    /// with this one.
    pub fn shift(&mut self, by_ns: i64) {
        for at in [&mut self.started, &mut self.finished]
            .into_iter()
            .flatten()
        {
            *at += by_ns;
        }
        if self.last_done != i64::MIN {
            self.last_done += by_ns;
        }
        self.failures.shift(by_ns);
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
            incomplete_results: (answered && self.judge.is_some()).then_some(self.answers.short),
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

    fn times(&self, intended: i64, sent: i64, done: i64) -> Result<Times, InvalidArgument> {
        let Some(started) = self.started else {
            return Err(InvalidArgument("the recorder was not started".into()));
        };
        if !(started <= intended && intended <= sent && sent <= done) {
            return Err(InvalidArgument(format!(
                "times run backwards: started {started}, intended {intended}, sent {sent}, \
                 done {done}"
            )));
        }
        if self.finished.is_some() {
            return Err(InvalidArgument("the recorder was finished before".into()));
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

#[cfg(test)]
mod tests;
