//! A measured stage that is taken in turns: the run keeps its connections and its place in the order
//! of requests, and sends nothing until the caller gives it the next turn.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::clock::now_ns;
use crate::run::outcome::Outcome;
use crate::run::LEAD_NS;

/// Permission to send for a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// From 1.
    pub number: u64,
    pub begin_ns: i64,
    pub length_ns: i64,
    /// There is none after the one before.
    last: bool,
}

/// Where turns are given and what they have seen is handed in. Nobody polls: a thread without a turn
/// sleeps.
pub struct Turns {
    wanted: AtomicBool,
    turn: watch::Sender<Turn>,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    outcome: Option<Outcome>,
    over: bool,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            wanted: AtomicBool::new(false),
            turn: watch::Sender::new(Turn::default()),
            seen: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl Turns {
    /// Have the measured stage taken in turns. Said before the run.
    pub fn want(&self) {
        self.wanted.store(true, Relaxed);
    }

    pub fn are_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Give the run a turn from this instant on, or from now where it has passed, and wait for what it
    /// has seen in it. None: the run is over.
    pub fn take(&self, begin_ns: i64, length_ns: i64) -> Option<Outcome> {
        let mut seen = self.lock();
        self.turn.send_modify(|turn| {
            turn.number += 1;
            turn.begin_ns = begin_ns.max(now_ns() + LEAD_NS);
            turn.length_ns = length_ns;
        });
        loop {
            if seen.outcome.is_some() || seen.over {
                return seen.outcome.take();
            }
            seen = self
                .changed
                .wait(seen)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// There are no more turns: the run ends.
    pub fn end(&self) {
        self.turn.send_modify(|turn| turn.last = true);
    }

    /// The run has ended, however it did: nobody waits for it any more.
    pub fn over(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// What all threads have seen in a turn.
    pub fn hand_in(&self, outcome: Outcome) {
        self.lock().outcome = Some(outcome);
        self.changed.notify_all();
    }

    /// The turn of that number, when it has come; None when there are no more.
    pub async fn next(&self, number: u64) -> Option<Turn> {
        let mut turns = self.turn.subscribe();
        let come = |turn: &Turn| turn.last || turn.number >= number;
        let turn = *turns.wait_for(come).await.ok()?;
        (!turn.last).then_some(turn)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
