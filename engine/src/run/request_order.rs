//! Which request is sent next.

use crate::random::{derive, Random};

/// Walks over the requests of a class: one thread of several, each taking every n-th step.
#[derive(Clone, Debug)]
pub struct Cursor {
    requests: usize,
    once: bool,
    seed: u64,
    next: usize,
    stride: usize,
    pass: usize,
    offset: usize,
    step: usize,
}

impl Cursor {
    pub fn new(requests: usize, once: bool, seed: u64, thread: usize, threads: usize) -> Self {
        let mut cursor = Self {
            requests,
            once,
            seed,
            next: thread,
            stride: threads,
            pass: 0,
            offset: 0,
            step: 1,
        };
        cursor.shuffle();
        cursor
    }

    /// The next step is the first in a pass after the first.
    pub fn begins_pass(&self) -> bool {
        self.next / self.requests != self.pass
    }

    /// The index of the next request; None when each was sent once and that is all.
    pub fn advance(&mut self) -> Option<usize> {
        let at = self.next;
        self.next += self.stride;
        if self.once {
            return (at < self.requests).then_some(at);
        }
        let (pass, within) = (at / self.requests, at % self.requests);
        if pass != self.pass {
            self.pass = pass;
            self.shuffle();
        }
        // The product of two numbers below 2^32 or so; a ring is never longer.
        Some((self.offset + within * self.step) % self.requests)
    }

    /// An order of the next pass: steps of a width that reaches every request once. It needs no
    /// memory and no pause, unlike shuffling a list.
    fn shuffle(&mut self) {
        let mut random = Random::new(derive(self.seed, self.pass as u64));
        self.offset = random.below(self.requests);
        self.step = loop {
            let step = 1 + random.below(self.requests);
            if gcd(step, self.requests) == 1 {
                break step;
            }
        };
    }
}

fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// Draws classes by their weights.
#[derive(Clone, Debug)]
pub struct Mix {
    /// (class, weights up to and with it).
    upto: Vec<(usize, f64)>,
    random: Random,
}

impl Mix {
    pub fn new(weights: &[(usize, f64)], seed: u64) -> Self {
        let mut sum = 0.0;
        let add = |(class, weight): &(usize, f64)| {
            sum += weight;
            (*class, sum)
        };
        Self {
            upto: weights.iter().map(add).collect(),
            random: Random::new(seed),
        }
    }

    pub fn draw(&mut self) -> usize {
        let (last, sum) = self.upto[self.upto.len() - 1];
        if self.upto.len() == 1 {
            return last;
        }
        let at = self.random.unit() * sum;
        let hit = self.upto.iter().find(|(_, upto)| at <= *upto);
        hit.map_or(last, |(class, _)| *class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_pass_has_every_request_once(requests in 1usize..300, threads in 1usize..4, seed: u64) {
            let mut cursors: Vec<_> = (0..threads)
                .map(|thread| Cursor::new(requests, false, seed, thread, threads))
                .collect();
            for _ in 0..3 {
                let mut seen: Vec<_> = (0..requests).map(|_| {
                    let one = cursors[0].advance().unwrap();
                    cursors.rotate_left(1);
                    one
                }).collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..requests).collect::<Vec<_>>());
            }
        }

        #[test]
        fn the_parts_of_a_pass_end_together(requests in 1usize..300, threads in 1usize..4) {
            let mut sent = vec![0; requests];
            for thread in 0..threads {
                let mut cursor = Cursor::new(requests, false, 7, thread, threads);
                // A thread without a part in the first pass has nothing to wait for.
                while !cursor.begins_pass() {
                    sent[cursor.advance().unwrap()] += 1;
                }
            }
            prop_assert!(sent.iter().all(|times| *times == 1));
        }

        #[test]
        fn what_is_sent_once_is_sent_once(requests in 1usize..100, threads in 1usize..4) {
            let mut seen: Vec<usize> = (0..threads).flat_map(|thread| {
                let mut cursor = Cursor::new(requests, true, 0, thread, threads);
                std::iter::from_fn(move || cursor.advance())
            }).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..requests).collect::<Vec<_>>());
        }
    }

    #[test]
    fn classes_are_drawn_by_their_weights() {
        let mut mix = Mix::new(&[(4, 1.0), (2, 3.0)], 1);
        let fours = (0..100_000).filter(|_| mix.draw() == 4).count();
        assert!(fours.abs_diff(25_000) < 700, "{fours}");
    }
}
