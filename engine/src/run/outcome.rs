//! What a run has seen: plain data, of each thread and of all together.

use crate::invalid_argument::InvalidArgument;
use crate::record::histogram::Latencies;
use crate::record::recorder::Recorder;
use crate::run::answer_log::AnswerLog;
use crate::run::backlog::{Backlog, QUARTERS};
use crate::run::class_record::ClassRecord;
use crate::run::plan::{Pace, Plan, Source};
use crate::run::request_log::RequestLog;
use crate::run::request_order::Cursor;

/// What one thread saw of a stage.
pub struct StageOutcome {
    pub records: Vec<ClassRecord>,
    pub started: i64,
    pub last_done: i64,
    /// From the start until each client of a closed loop had its last answer, added up.
    pub busy_ns: i64,
    /// Where the next turn goes on.
    pub cursors: Vec<Cursor>,
    pub cpu_ns: i64,
    pub unsent: u64,
    pub in_flight_limit_hits: u64,
    pub peak_in_flight: u64,
    pub in_flight_ns: i128,
    pub reconnects: u64,
    pub backlog: Option<Backlog>,
}

/// Everything about one class.
pub struct ClassOutcome {
    pub name: String,
    /// Finished: what qps divides by is the time of the stage.
    pub recorder: Recorder,
    /// From the intended to the actual send, of everything that was sent.
    pub lag: Latencies,
    pub issued: u64,
    /// Sent, and neither answered nor failed when the stage was ended.
    pub in_flight: u64,
    /// Rows of the requests that succeeded.
    pub rows: u64,
    pub answers: Option<AnswerLog>,
    pub requests: Option<RequestLog>,
    pub warmup: Recorder,
}

/// What a run has seen.
pub struct Outcome {
    pub classes: Vec<ClassOutcome>,
    pub started: i64,
    pub ended: i64,
    /// From the start until each client of a closed loop had its last answer, added up.
    pub busy_ns: i64,
    /// Processor time of the client threads in the measured stage.
    pub cpu_ns: i64,
    /// Arrivals that were due and not sent: the bound on requests in flight was met to the end.
    pub unsent: u64,
    /// Arrivals that had to wait because the bound, or what the server lets be in flight on the
    /// connections, was met; of a closed loop, the clients for whom there was no room.
    pub in_flight_limit_hits: u64,
    /// At most as many were in flight at once (the sum over threads).
    pub peak_in_flight: u64,
    /// Requests in flight, integrated over time: by Little's law their service times in all.
    pub in_flight_ns: i128,
    pub reconnects: u64,
    pub cancelled: bool,
    /// As the plan or the turn has it.
    pub duration_ns: Option<i64>,
    /// Of the open sources, at the end of each quarter of the time given: arrivals that were due
    /// and neither answered nor failed by then. None without a time, or without a schedule.
    pub backlog: Option<[u64; QUARTERS]>,
}

/// One outcome of what the threads saw, each of the stages in order, the last of which was given that
/// long.
pub fn merge(
    plan: &Plan,
    duration_ns: Option<i64>,
    seen: impl Iterator<Item = Vec<StageOutcome>>,
    cancelled: bool,
) -> Result<Outcome, InvalidArgument> {
    let (mut warmups, mut stages) = (vec![], vec![]);
    for mut stages_of_one in seen {
        stages.push(
            stages_of_one
                .pop()
                .ok_or(InvalidArgument("a stage is missing".into()))?,
        );
        warmups.extend(stages_of_one.pop());
    }
    let sum = |of: fn(&StageOutcome) -> u64| stages.iter().map(of).sum();
    let started = stages[0].started;
    let last_done = stages.iter().map(|stage| stage.last_done).max();
    let mut ended = last_done.unwrap_or(started).max(started);
    let by_schedule = |source: &Source| matches!(source.pace, Pace::Open { .. });
    if let (Some(duration), false) = (duration_ns, cancelled) {
        // What an open loop offers is offered until the end, also when the last answer is before.
        if plan.sources.iter().any(by_schedule) {
            ended = ended.max(started + duration);
        }
    }
    let mut outcome = Outcome {
        classes: vec![],
        started,
        ended,
        busy_ns: stages.iter().map(|stage| stage.busy_ns).sum(),
        cpu_ns: stages.iter().map(|stage| stage.cpu_ns).sum(),
        unsent: sum(|stage| stage.unsent),
        in_flight_limit_hits: sum(|stage| stage.in_flight_limit_hits),
        peak_in_flight: sum(|stage| stage.peak_in_flight),
        in_flight_ns: stages.iter().map(|stage| stage.in_flight_ns).sum(),
        reconnects: sum(|stage| stage.reconnects),
        cancelled,
        duration_ns,
        backlog: backlog(&stages),
    };
    let mut warm = by_class(warmups)?;
    for (class, record) in plan.classes.iter().zip(by_class(stages)?) {
        let mut recorder = record.recorder;
        let in_flight = record.issued - recorder.samples();
        recorder.finish(ended)?;
        outcome.classes.push(ClassOutcome {
            name: class.name.clone(),
            recorder,
            lag: record.lag,
            issued: record.issued,
            in_flight,
            rows: record.rows,
            answers: record.answers,
            requests: record.requests,
            warmup: match warm.is_empty() {
                true => Recorder::new(class.judge.clone(), plan.window_ns)?,
                false => warm.remove(0).recorder,
            },
        });
    }
    Ok(outcome)
}

/// What was left over at the end of each quarter.
fn backlog(stages: &[StageOutcome]) -> Option<[u64; QUARTERS]> {
    let mut whole = [0; QUARTERS];
    for stage in stages {
        let (mut due, mut done) = (0, 0);
        let seen = stage.backlog.as_ref()?;
        for (left, quarter) in whole.iter_mut().zip(0..) {
            due += seen.due[quarter];
            done += seen.done[quarter];
            *left += due - done;
        }
    }
    Some(whole)
}

/// The records of all threads, one for each class.
fn by_class(stages: Vec<StageOutcome>) -> Result<Vec<ClassRecord>, InvalidArgument> {
    let mut stages = stages.into_iter();
    let Some(first) = stages.next() else {
        return Ok(vec![]);
    };
    let mut whole = first.records;
    for stage in stages {
        for (ours, theirs) in whole.iter_mut().zip(stage.records) {
            ours.merge(theirs)?;
        }
    }
    Ok(whole)
}
