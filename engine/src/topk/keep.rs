//! What one query keeps: candidates known by float32 bounds, and hits known exactly.

use super::Plan;

/// A row of the current block whose key lies in [lower, upper].
struct Candidate {
    lower: f32,
    upper: f32,
    row: u32,
}

/// A row with its distance; `least` is that less its uncertainty.
#[derive(Clone, Copy)]
pub struct Hit {
    pub distance: f64,
    pub least: f64,
    pub id: i64,
}

impl Hit {
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then(self.id.cmp(&other.id))
    }
}

pub struct Near {
    /// keys above this are of no more interest
    pub admit: f32,
    fresh: Vec<Candidate>,
    tighten_at: usize,
    /// the k nearest so far, in no order, and what ties with the last of them
    best: Vec<Hit>,
    ties: Vec<Hit>,
    kth: Option<f64>,
}

impl Default for Near {
    fn default() -> Self {
        let (fresh, best, ties) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            admit: f32::INFINITY,
            fresh,
            tighten_at: 64,
            best,
            ties,
            kth: None,
        }
    }
}

impl Near {
    pub fn push(&mut self, lower: f32, upper: f32, row: usize) {
        self.fresh.push(Candidate {
            lower,
            upper,
            row: row as u32,
        });
    }

    pub fn wants_tightening(&self) -> bool {
        self.fresh.len() >= self.tighten_at
    }

    /// Bounds are too wide to choose by when far more than k candidates are left.
    pub fn is_crowded(&self, k: usize) -> bool {
        self.fresh.len() > 2 * k + 1024
    }

    /// The k-th least upper bound of the candidates, if there are as many.
    pub fn kth_upper(&mut self, k: usize) -> Option<f32> {
        if self.fresh.len() < k {
            return None;
        }
        let by_upper = |a: &Candidate, b: &Candidate| a.upper.total_cmp(&b.upper);
        Some(self.fresh.select_nth_unstable_by(k - 1, by_upper).1.upper)
    }

    /// Admit no more than `admit`, and let go of the candidates beyond it.
    pub fn narrow(&mut self, admit: f32) {
        self.admit = self.admit.min(admit);
        let admit = self.admit;
        self.fresh.retain(|candidate| candidate.lower <= admit);
        // Doubling keeps the cost of tightening proportional to what was pushed.
        self.tighten_at = 2 * self.fresh.len() + 64;
    }

    /// The rows of all candidates, ascending; none are left.
    pub fn take_fresh(&mut self) -> Vec<usize> {
        let mut rows: Vec<usize> = self.fresh.drain(..).map(|c| c.row as usize).collect();
        rows.sort_unstable();
        self.tighten_at = 64;
        rows
    }

    /// Take in exact hits.
    pub fn settle(&mut self, plan: &Plan, hits: impl Iterator<Item = Hit>) {
        self.best.extend(hits);
        if self.best.len() < plan.k {
            return;
        }
        let kth = self
            .best
            .select_nth_unstable_by(plan.k - 1, Hit::order)
            .1
            .distance;
        let limit = plan.limit(kth);
        if self.kth.is_none_or(|before| kth < before) {
            self.ties.retain(|hit| hit.least <= limit);
        }
        self.kth = Some(kth);
        self.ties
            .extend(self.best.drain(plan.k..).filter(|hit| hit.least <= limit));
    }

    pub fn kth(&self) -> Option<f64> {
        self.kth
    }

    pub fn held(&self) -> usize {
        self.best.len() + self.ties.len()
    }

    /// What is held, in no order.
    pub fn hits(&self) -> impl Iterator<Item = &Hit> {
        self.best.iter().chain(&self.ties)
    }

    /// The k nearest in order, and all that ties with the last of them.
    pub fn finish(mut self) -> (Vec<Hit>, Vec<Hit>) {
        self.best.sort_unstable_by(Hit::order);
        (self.best, self.ties)
    }
}
