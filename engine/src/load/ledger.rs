//! What one thread writes down of one class.

use crate::histogram::Latencies;
use crate::load::kept::Kept;
use crate::load::plan::Class;
use crate::misuse::Misuse;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::recorder::Recorder;

pub struct Ledger {
    pub recorder: Recorder,
    pub lag: Latencies,
    pub issued: u64,
    pub rows: u64,
    pub kept: Option<Kept>,
}

/// The instants of one request.
#[derive(Clone, Copy)]
pub struct Times {
    pub intended: i64,
    pub sent: i64,
    pub done: i64,
}

impl Ledger {
    pub fn new(class: &Class, window_ns: u64, start: i64) -> Result<Self, Misuse> {
        let mut recorder = Recorder::new(class.judge.clone(), window_ns)?;
        recorder.start(start)?;
        Ok(Self {
            recorder,
            lag: Latencies::default(),
            issued: 0,
            rows: 0,
            kept: class.keep.map(Kept::new),
        })
    }

    pub fn finish(
        &mut self,
        index: usize,
        request: &Prepared,
        at: Times,
        outcome: Result<(), Failure>,
        answer: &Answer,
    ) -> Result<(), Misuse> {
        let recorder = &mut self.recorder;
        match outcome {
            Err(failure) => recorder.error(
                at.intended,
                at.sent,
                at.done,
                &failure.class,
                &failure.message,
            ),
            Ok(()) => {
                self.rows += u64::from(request.rows);
                match request.operation {
                    Operation::Search => {
                        if let Some(kept) = &mut self.kept {
                            kept.push(index, answer);
                        }
                        recorder.answer(index, at.intended, at.sent, at.done, &answer.ids)
                    }
                    _ => recorder.operation(at.intended, at.sent, at.done),
                }
            }
        }
    }

    pub fn merge(&mut self, other: Self) -> Result<(), Misuse> {
        self.recorder.merge(&other.recorder)?;
        self.lag.merge(&other.lag);
        self.issued += other.issued;
        self.rows += other.rows;
        if let (Some(ours), Some(theirs)) = (&mut self.kept, other.kept) {
            ours.merge(theirs);
        }
        Ok(())
    }
}
