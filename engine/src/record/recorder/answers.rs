//! What answers were worth: how often they were short, repeated themselves, and their recall.

use serde::{Deserialize, Serialize};

/// What the answers, as opposed to other operations, were worth.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answers {
    pub count: u64,
    pub short: u64,
    pub duplicate: u64,
    /// (hits, answers) of each query.
    pub by_query: Vec<(u64, u64)>,
    /// Answers by (whole, part) of their recall: exact, whatever the denominators.
    by_recall: Vec<Vec<u64>>,
}

/// Recall over the answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recall {
    pub mean: f64,
    pub p05: f64,
    pub min: f64,
}

impl Answers {
    /// Of so many queries, none answered yet.
    pub fn of(queries: usize) -> Self {
        Self {
            by_query: vec![(0, 0); queries],
            ..Self::default()
        }
    }

    pub fn judged(&mut self, query: usize, (part, whole): (u32, u32)) {
        let (hits, answers) = &mut self.by_query[query];
        *hits += u64::from(part);
        *answers += 1;
        self.row(whole as usize)[part as usize] += 1;
    }

    /// The counts of answers of which `whole` was to be found, by what was.
    fn row(&mut self, whole: usize) -> &mut Vec<u64> {
        if self.by_recall.len() <= whole {
            self.by_recall.resize_with(whole + 1, Vec::new);
        }
        let row = &mut self.by_recall[whole];
        if row.is_empty() {
            row.resize(whole + 1, 0);
        }
        row
    }

    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.short += other.short;
        self.duplicate += other.duplicate;
        for (ours, theirs) in self.by_query.iter_mut().zip(&other.by_query) {
            ours.0 += theirs.0;
            ours.1 += theirs.1;
        }
        for (whole, row) in other
            .by_recall
            .iter()
            .enumerate()
            .filter(|(_, row)| !row.is_empty())
        {
            for (ours, theirs) in self.row(whole).iter_mut().zip(row) {
                *ours += theirs;
            }
        }
    }

    pub fn recall(&self) -> Option<Recall> {
        let mut by_value: Vec<(f64, u64)> = Vec::new();
        let mut sum = 0.0;
        for (whole, row) in self.by_recall.iter().enumerate() {
            let hits: u64 = row
                .iter()
                .enumerate()
                .map(|(part, n)| part as u64 * n)
                .sum();
            sum += hits as f64 / whole.max(1) as f64;
            let seen = row.iter().enumerate().filter(|(_, answers)| **answers > 0);
            by_value.extend(seen.map(|(part, n)| (part as f64 / whole.max(1) as f64, *n)));
        }
        by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
        let answers: u64 = by_value.iter().map(|(_, n)| n).sum();
        let rank = answers.div_ceil(20); // nearest rank of the 5th percentile
        let mut below = 0;
        let p05 = by_value.iter().find(|(_, n)| {
            below += n;
            below >= rank
        });
        Some(Recall {
            mean: sum / answers as f64,
            p05: p05?.0,
            min: by_value.first()?.0,
        })
    }
}
