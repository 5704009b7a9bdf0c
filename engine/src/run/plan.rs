//! What a run is asked to do: plain data.

use std::sync::Arc;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::Task;
use crate::record::recall::Judge;
use crate::run::arrival::Arrival;

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
