//! What the null server does wrong when it is told to, for every family.

use std::cell::Cell;
use std::time::Duration;

use serde::Deserialize;

use crate::invalid_argument::InvalidArgument;

/// What can happen to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// An error in the protocol's own words.
    Status,
    /// The request is torn down, and the connection stays where the protocol can tell.
    Reset,
    /// The connection is closed in the midst of it.
    Break,
    /// It ends before its end.
    Truncate,
    /// Its bytes make no sense.
    Garbage,
    /// It comes late.
    Late,
    /// It never comes.
    Never,
    /// It names rows twice.
    Twice,
}

impl std::str::FromStr for Fault {
    type Err = InvalidArgument;

    fn from_str(name: &str) -> Result<Self, InvalidArgument> {
        serde_json::from_value(name.into())
            .map_err(|_| InvalidArgument(format!("'{name}' is no fault")))
    }
}

/// Which faults, and how often.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// (fault, every so many requests): the first that is due happens.
    pub rules: Vec<(Fault, u64)>,
    /// How late a late answer is.
    pub late: Duration,
    /// (every, for): the whole server stands still, as in a pause of its garbage collector.
    pub stall: Option<(Duration, Duration)>,
}

/// Counts requests, and says which go wrong.
#[derive(Debug)]
pub struct Injector {
    faults: Faults,
    requests: Cell<u64>,
}

impl Injector {
    pub fn new(faults: Faults) -> Self {
        let requests = Cell::new(0);
        Self { faults, requests }
    }

    /// What goes wrong with the next request, after the delay of a late answer.
    pub async fn next(&self) -> Option<Fault> {
        let number = self.requests.get() + 1;
        self.requests.set(number);
        let due = |(_, every): &&(Fault, u64)| number.is_multiple_of(*every);
        let fault = self.faults.rules.iter().find(due)?.0;
        match fault {
            Fault::Late => tokio::time::sleep(self.faults.late).await,
            Fault::Never => std::future::pending().await,
            _ => {}
        }
        Some(fault)
    }

    /// Stand still again and again, for ever: nothing else runs on this thread meanwhile.
    pub async fn stall(&self) {
        let Some((every, length)) = self.faults.stall else {
            return;
        };
        loop {
            tokio::time::sleep(every.saturating_sub(length)).await;
            std::thread::sleep(length);
        }
    }
}
