//! Whether an open loop's server keeps up: what was due and what was done, by quarters of its time.

pub const QUARTERS: usize = 4;

/// Counts of arrivals of one thread. What is done after the end is in no quarter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backlog {
    start: i64,
    length: i64,
    /// Due in each quarter, sent or not.
    pub due: [u64; QUARTERS],
    /// Of those, answered or failed in each quarter.
    pub done: [u64; QUARTERS],
}

impl Backlog {
    /// Of a stage that begins at `start` and lasts `length` ns.
    pub fn new(start: i64, length: i64) -> Self {
        Self {
            start,
            length,
            ..Self::default()
        }
    }

    pub fn due(&mut self, at: i64) {
        if let Some(quarter) = self.quarter(at) {
            self.due[quarter] += 1;
        }
    }

    pub fn done(&mut self, at: i64) {
        if let Some(quarter) = self.quarter(at) {
            self.done[quarter] += 1;
        }
    }

    fn quarter(&self, at: i64) -> Option<usize> {
        let passed = i128::from(at) - i128::from(self.start);
        let quarter = (passed * QUARTERS as i128).div_euclid(i128::from(self.length.max(1)));
        usize::try_from(quarter).ok().filter(|q| *q < QUARTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_is_counted_in_its_quarter() {
        let mut seen = Backlog::new(1_000, 40);
        for at in [999, 1_000, 1_009, 1_010, 1_039, 1_040, i64::MAX] {
            seen.due(at);
        }
        assert_eq!(seen.due, [2, 1, 0, 1]);
        seen.done(1_025);
        assert_eq!(seen.done, [0, 0, 1, 0]);
    }
}
