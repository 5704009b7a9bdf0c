//! Requests in flight, counted.

use std::cell::Cell;

/// Requests in flight: now, at most, and integrated over time.
#[derive(Default)]
pub struct InFlight {
    pub now: Cell<u64>,
    pub peak: Cell<u64>,
    pub area: Cell<i128>,
    pub at: Cell<i64>,
}

impl InFlight {
    pub fn change(&self, at: i64, now: u64) {
        let passed = i128::from(at - self.at.get()) * i128::from(self.now.get());
        self.area.set(self.area.get() + passed);
        self.at.set(at);
        self.now.set(now);
        self.peak.set(self.peak.get().max(now));
    }
}
