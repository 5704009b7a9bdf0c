//! The record of one class on one thread.

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::record::histogram::Latencies;
use crate::record::recorder::Recorder;
use crate::run::answer_log::AnswerLog;
use crate::run::plan::Class;
use crate::run::request_log::{RequestLog, Times};

/// What one thread has recorded of one class.
pub struct ClassRecord {
    pub recorder: Recorder,
    pub lag: Latencies,
    pub issued: u64,
    pub rows: u64,
    pub answers: Option<AnswerLog>,
    pub requests: Option<RequestLog>,
}

impl ClassRecord {
    pub fn new(class: &Class, window_ns: u64, start: i64) -> Result<Self, InvalidArgument> {
        let mut recorder = Recorder::new(class.judge.clone(), window_ns)?;
        recorder.start(start)?;
        Ok(Self {
            recorder,
            lag: Latencies::default(),
            issued: 0,
            rows: 0,
            answers: class.keep.map(AnswerLog::new),
            requests: class.keep.map(|_| RequestLog::default()),
        })
    }

    pub fn finish(
        &mut self,
        index: usize,
        request: &Prepared,
        at: Times,
        outcome: Result<(), Failure>,
        answer: &Answer,
    ) -> Result<(), InvalidArgument> {
        if let Some(log) = &mut self.requests {
            log.push(index, at, outcome.is_ok());
        }
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
                        if let Some(log) = &mut self.answers {
                            log.push(index, answer);
                        }
                        recorder.answer(index, at.intended, at.sent, at.done, &answer.ids)
                    }
                    _ => recorder.operation(at.intended, at.sent, at.done),
                }
            }
        }
    }

    pub fn merge(&mut self, other: Self) -> Result<(), InvalidArgument> {
        self.recorder.merge(&other.recorder)?;
        self.lag.merge(&other.lag);
        self.issued += other.issued;
        self.rows += other.rows;
        if let (Some(ours), Some(theirs)) = (&mut self.answers, other.answers) {
            ours.merge(theirs);
        }
        if let (Some(ours), Some(theirs)) = (&mut self.requests, other.requests) {
            ours.merge(theirs);
        }
        Ok(())
    }
}
