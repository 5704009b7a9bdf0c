//! What a run is asked to do, and what it has seen: plain data.

use std::sync::Arc;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::Task;
use crate::record::histogram::Latencies;
use crate::record::recall::Judge;
use crate::record::recorder::Recorder;
use crate::run::answer_log::AnswerLog;
use crate::run::arrival::Arrival;
use crate::run::backlog::{Backlog, QUARTERS};
use crate::run::class_record::ClassRecord;
use crate::run::request_log::RequestLog;
use crate::run::request_order::Cursor;

/// Requests of one kind, recorded apart from others.
#[derive(Clone, Debug)]
pub struct Class {
    pub name: String,
    /// What to ask; given up when it has been encoded.
    pub task: Task,
    /// Exact answers of the same queries; without it there is no recall.
    pub judge: Option<Arc<Judge>>,
    /// Each request is sent once, in order, and the class ends with the last (rows to insert);
    /// else they are walked over in an order of the seed, again and again.
    pub once: bool,
    /// Keep the first so many rows of every answer, and the instants of every request.
    pub keep: Option<usize>,
}

/// What sets the pace of a source of requests.
#[derive(Clone, Debug)]
pub enum Pace {
    /// So many clients, each sending its next request when it has an answer.
    Closed { clients: usize },
    /// A schedule that does not wait for answers, with at most so many in flight.
    Open { arrival: Arrival, in_flight: usize },
}

/// Where requests come from: a pace, and the classes drawn from, with their shares.
#[derive(Clone, Debug)]
pub struct Source {
    pub pace: Pace,
    /// (class, weight): which class a request is of is drawn by these weights.
    pub mix: Vec<(usize, f64)>,
    /// It ends after so many requests.
    pub count: Option<u64>,
    /// Of a closed loop: it ends with the first whole pass over its requests after so long (each
    /// thread with its part of a pass), so that every request weighs the same.
    pub passes_ns: Option<i64>,
    /// The stage does not wait for it: it runs until all others are done.
    pub background: bool,
}

/// Connections of an open source where each carries one request at a time, unless a plan says
/// otherwise. All are open before the clock starts, so that no connecting falls into a sample;
/// as many as servers allow as they come (PostgreSQL 100) beside whoever else is connected; and by
/// Little's law enough for 12,800 requests a second of 5 ms each. More in flight at once wait, and
/// are told of as the bound that was met.
pub const OWN_CONNECTIONS: usize = 64;

/// When a stage ends: when the first of these is reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit {
    pub duration_ns: Option<i64>,
    /// Requests of each source (in the measured stage every source has its own).
    pub count: Option<u64>,
}

/// One of several machines that send a load together, each with as many threads: they split it as if
/// all the threads were one machine's.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub machine: usize,
    pub machines: usize,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub classes: Vec<Class>,
    pub sources: Vec<Source>,
    /// Skipped when it has no limit. Classes that are sent once have no warm-up.
    pub warmup: Limit,
    pub limit: Limit,
    pub threads: usize,
    pub share: Share,
    /// Cores that the threads are pinned to, in order; empty: wherever the system puts them.
    pub cores: Vec<usize>,
    /// Connections of all machines, where requests share them; else of each open source, whose
    /// clients have one each. Every thread has at least one. None: one per thread where requests share
    /// them, else [`OWN_CONNECTIONS`].
    pub connections: Option<usize>,
    /// There are other nodes to turn to: after a request that was not answered in time nothing
    /// more is sent on a shared connection, and the next one goes to the next node.
    pub failover: bool,
    /// A request not answered by then has failed.
    pub timeout_ns: i64,
    /// How long to wait for answers after the last request was sent.
    pub drain_ns: i64,
    pub seed: u64,
    /// Wait for the next arrival in a yield loop, which takes a core of its own.
    pub dedicated: bool,
    pub window_ns: u64,
}

impl Plan {
    /// Refuse what cannot be run.
    pub fn check(&self) -> Result<(), InvalidArgument> {
        let fault = |what: &str| Err(InvalidArgument(what.into()));
        if self.classes.is_empty() || self.sources.is_empty() {
            return fault("a plan has at least one class and one source");
        }
        if self.share.machine >= self.share.machines {
            return fault("a machine has a number below that of the machines");
        }
        if self.threads == 0 || self.connections == Some(0) {
            return fault("there is at least one thread and one connection");
        }
        if !self.cores.is_empty() && self.cores.len() < self.threads {
            return fault("there are fewer cores than threads");
        }
        if self.timeout_ns <= 0 || self.drain_ns < 0 {
            return fault("a timeout is longer than nothing");
        }
        for source in &self.sources {
            self.check_source(source)?;
        }
        let ends = |source: &Source| !source.background && (self.is_once(source) || source.ends());
        if self.limit.duration_ns.is_none() && !self.sources.iter().any(ends) {
            return fault("the run would never end: give a duration or a count");
        }
        Ok(())
    }

    fn check_source(&self, source: &Source) -> Result<(), InvalidArgument> {
        let fault = |what: &str| Err(InvalidArgument(what.into()));
        let known = |(class, weight): &(usize, f64)| *class < self.classes.len() && *weight > 0.0;
        if source.mix.is_empty() || !source.mix.iter().all(known) {
            return fault("a source has classes that exist, with weights above 0");
        }
        match &source.pace {
            Pace::Closed { clients: 0 } | Pace::Open { in_flight: 0, .. } => {
                fault("nobody would send: at least 1 client, and 1 in flight")
            }
            Pace::Open {
                arrival: Arrival::Constant { rate } | Arrival::Poisson { rate },
                ..
            } if !(*rate > 0.0 && *rate <= 1e8) => fault("a rate lies above 0, up to 1e8 a second"),
            Pace::Open {
                arrival: Arrival::Trace { offsets },
                ..
            } if offsets.windows(2).any(|two| two[0] > two[1])
                || offsets.iter().any(|o| *o < 0) =>
            {
                fault("the offsets of a trace ascend from 0")
            }
            _ => Ok(()),
        }
    }

    /// The number of a thread among those of all machines.
    pub fn number_of(&self, thread: usize) -> usize {
        self.share.machine * self.threads + thread
    }

    /// How many threads all machines have.
    pub fn all_threads(&self) -> usize {
        self.share.machines * self.threads
    }

    /// How many threads send a class, the first of all: each has a client. Every request of the
    /// class is one of theirs.
    pub fn threads_that_send(&self, class: usize) -> usize {
        let sends = |source: &&Source| source.mix.iter().any(|(of, _)| *of == class);
        let sources = self.sources.iter().filter(sends);
        let threads = sources.map(|source| self.threads_of(source));
        threads.max().unwrap_or(1)
    }

    /// How many threads have a loop of a source: the first of all.
    pub fn threads_of(&self, source: &Source) -> usize {
        match source.pace {
            Pace::Closed { clients } => clients.min(self.all_threads()),
            Pace::Open { .. } => self.all_threads(),
        }
    }

    /// One of its classes is sent once.
    pub fn is_once(&self, source: &Source) -> bool {
        source
            .mix
            .iter()
            .any(|(class, _)| self.classes[*class].once)
    }
}

impl Source {
    /// It comes to an end by itself.
    fn ends(&self) -> bool {
        let by_pace = match &self.pace {
            Pace::Closed { .. } => self.passes_ns.is_some(),
            Pace::Open { arrival, .. } => matches!(arrival, Arrival::Trace { .. }),
        };
        by_pace || self.count.is_some()
    }
}

/// How many of `all` one of several threads takes.
pub fn part(all: usize, threads: usize, thread: usize) -> usize {
    all / threads + usize::from(thread < all % threads)
}

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
