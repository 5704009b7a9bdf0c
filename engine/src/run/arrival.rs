//! When requests are due: schedules that a seed reproduces, whatever the number of threads.

use std::sync::Arc;

use crate::random::Random;

/// How requests arrive.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// Evenly, so many a second.
    Constant { rate: f64 },
    /// At random with that mean rate: gaps are exponential.
    Poisson { rate: f64 },
    /// At these offsets from the start in ns, ascending.
    Trace { offsets: Arc<[i64]> },
}

/// The offsets from the start in ns, one after the other.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrival: Arrival,
    random: Random,
    next: u64,
    at_ns: f64,
}

impl Schedule {
    pub fn new(arrival: Arrival, seed: u64) -> Self {
        Self {
            arrival,
            random: Random::new(seed),
            next: 0,
            at_ns: 0.0,
        }
    }
}

impl Iterator for Schedule {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let number = self.next;
        self.next += 1;
        match &self.arrival {
            Arrival::Constant { rate } => Some((number as f64 * 1e9 / rate) as i64),
            Arrival::Poisson { rate } => {
                self.at_ns -= self.random.unit().ln() * 1e9 / rate;
                Some(self.at_ns as i64)
            }
            Arrival::Trace { offsets } => offsets.get(number as usize).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn poisson(rate: f64, seed: u64) -> Schedule {
        Schedule::new(Arrival::Poisson { rate }, seed)
    }

    proptest! {
        #[test]
        fn a_seed_gives_one_schedule_that_never_runs_back(rate in 0.1f64..1e6, seed: u64) {
            let once: Vec<_> = poisson(rate, seed).take(200).collect();
            prop_assert!(once.windows(2).all(|pair| pair[0] <= pair[1]) && once[0] >= 0);
            prop_assert_eq!(&once, &poisson(rate, seed).take(200).collect::<Vec<_>>());
            prop_assert_ne!(once, poisson(rate, seed ^ 1).take(200).collect::<Vec<_>>());
        }

        #[test]
        fn even_arrivals_keep_their_rate_for_an_hour(rate in 0.1f64..50_000.0) {
            let number = (rate * 3600.0) as u64;
            let mut schedule = Schedule::new(Arrival::Constant { rate }, 0);
            schedule.next = number;
            let at = schedule.next().unwrap() as f64 / 1e9;
            prop_assert!((at * rate - number as f64).abs() < 1e-3);
        }

        #[test]
        fn a_trace_is_followed_and_ends(mut offsets in prop::collection::vec(0i64..1 << 40, 0..50)) {
            offsets.sort_unstable();
            let schedule = Schedule::new(Arrival::Trace { offsets: offsets.clone().into() }, 0);
            prop_assert_eq!(schedule.collect::<Vec<_>>(), offsets);
        }
    }

    /// Gaps are exponential (Kolmogorov-Smirnov at 1e-6) and do not depend on one another.
    #[test]
    fn random_arrivals_are_poisson() {
        const N: usize = 100_000;
        let rate = 1000.0;
        let at: Vec<i64> = poisson(rate, 7).take(N).collect();
        let gap = |i: usize| (at[i] - if i == 0 { 0 } else { at[i - 1] }) as f64 / 1e9;
        let mut uniform: Vec<f64> = (0..N).map(|i| 1.0 - (-gap(i) * rate).exp()).collect();
        let product: f64 = uniform
            .windows(2)
            .map(|p| (p[0] - 0.5) * (p[1] - 0.5))
            .sum();
        let correlation = product / (N as f64 / 12.0);
        assert!(correlation.abs() < 5.0 / (N as f64).sqrt(), "{correlation}");
        uniform.sort_by(f64::total_cmp);
        let apart = |(i, u): (usize, &f64)| (u - (i as f64 + 0.5) / N as f64).abs();
        let distance = uniform.iter().enumerate().map(apart).fold(0.0, f64::max);
        assert!(distance * (N as f64).sqrt() < 2.7, "{distance}");
    }
}
