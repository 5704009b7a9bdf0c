//! Tie-aware recall: a returned id is right when its true distance is within the tie tolerance of
//! the k-th, so the judge holds every such id, not only k of them.

use crate::invalid_argument::InvalidArgument;

/// Up to so many ids are compared pair by pair to find one that comes twice; more are sorted.
const PAIRWISE: usize = 32;
/// Up to so many accepted ids are scanned, which is quicker than bisecting them.
const SCANNED: usize = 16;

/// The exact answers of all queries; immutable and shared by the recorders of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge {
    k: usize,
    offsets: Vec<usize>,
    accept: Vec<i64>,
    available: Vec<u32>,
}

/// What there is to say about one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Distinct accepted ids among the first k.
    pub hits: u32,
    /// How many there are to find: min(k, rows that match).
    pub available: u32,
    /// Fewer rows came back than there are.
    pub short: bool,
    /// An id came twice, at any place of the answer.
    pub duplicate: bool,
}

impl Verdict {
    /// (part, whole) of recall. With nothing to find, returning nothing is right (1 of 1) and
    /// anything else is wrong (0 of 1).
    pub fn fraction(&self, returned: usize) -> (u32, u32) {
        match self.available {
            0 => (u32::from(returned == 0), 1),
            available => (self.hits, available),
        }
    }
}

impl Judge {
    /// From the fields of the ground truth.
    ///
    /// `offsets` has one entry more than there are queries; `accept[offsets[i]..offsets[i + 1]]`
    /// ascends and holds at least `available[i]` ids, and no more where that is less than k.
    pub fn new(
        k: usize,
        offsets: &[i64],
        accept: Vec<i64>,
        available: &[i64],
    ) -> Result<Self, InvalidArgument> {
        let fault = |what: String| Err(InvalidArgument(what));
        if k == 0 || k > u32::MAX as usize {
            return fault(format!("k is at least 1, and {k} is not usable"));
        }
        if offsets.len() != available.len() + 1 {
            return fault(format!(
                "{} queries need {} offsets, not {}",
                available.len(),
                available.len() + 1,
                offsets.len()
            ));
        }
        if offsets[0] != 0 || offsets[available.len()] != accept.len() as i64 {
            return fault("offsets begin at 0 and end at the number of accepted ids".into());
        }
        if offsets.windows(2).any(|pair| pair[0] > pair[1]) {
            return fault("offsets must not descend".into());
        }
        let offsets: Vec<usize> = offsets.iter().map(|at| *at as usize).collect();
        for (query, (bounds, have)) in offsets.windows(2).zip(available).enumerate() {
            let ids = &accept[bounds[0]..bounds[1]];
            if ids.windows(2).any(|pair| pair[0] >= pair[1]) {
                return fault(format!("the accepted ids of query {query} do not ascend"));
            }
            let there = ids.len() as i64;
            if !(0..=k as i64).contains(have) || there < *have {
                return fault(format!(
                    "query {query}: {have} available, with k={k} and {there} accepted ids"
                ));
            }
            if *have < k as i64 && there > *have {
                return fault(format!(
                    "query {query}: {there} accepted ids though only {have} rows match"
                ));
            }
        }
        let available = available.iter().map(|have| *have as u32).collect();
        Ok(Self {
            k,
            offsets,
            accept,
            available,
        })
    }

    pub fn queries(&self) -> usize {
        self.available.len()
    }

    /// How many there are to find for a query, or what to say when there is no such query.
    pub fn available(&self, query: usize) -> Result<u32, InvalidArgument> {
        self.available.get(query).copied().ok_or_else(|| {
            InvalidArgument(format!(
                "query {query} of {} does not exist",
                self.queries()
            ))
        })
    }

    /// Judge the answer `ids`, best first, to a query. `scratch` is reused between calls.
    pub fn judge(
        &self,
        query: usize,
        ids: &[i64],
        scratch: &mut Vec<i64>,
    ) -> Result<Verdict, InvalidArgument> {
        let available = self.available(query)?;
        let accept = &self.accept[self.offsets[query]..self.offsets[query + 1]];
        let first = &ids[..ids.len().min(self.k)];
        let duplicate = has_duplicate(ids, scratch);
        let hits = if duplicate {
            scratch.clear();
            scratch.extend_from_slice(first);
            scratch.sort_unstable();
            scratch.dedup();
            hits(scratch, accept)
        } else {
            hits(first, accept)
        };
        Ok(Verdict {
            hits,
            available,
            short: ids.len() < available as usize,
            duplicate,
        })
    }
}

/// How many of `ids`, which are distinct, are accepted.
fn hits(ids: &[i64], accept: &[i64]) -> u32 {
    let found = if accept.len() <= SCANNED {
        // No early exit: comparing all of them is what the compiler turns into SIMD.
        let among = |id: &i64| accept.iter().fold(false, |seen, one| seen | (one == id));
        ids.iter().filter(|id| among(id)).count()
    } else {
        ids.iter()
            .filter(|id| accept.binary_search(id).is_ok())
            .count()
    };
    found as u32
}

/// Whether an id comes twice, at any place.
pub fn has_duplicate(ids: &[i64], scratch: &mut Vec<i64>) -> bool {
    if ids.len() <= PAIRWISE {
        let mut seen = false;
        for (at, id) in ids.iter().enumerate() {
            seen |= ids[..at].iter().fold(false, |seen, one| seen | (one == id));
        }
        return seen;
    }
    scratch.clear();
    scratch.extend_from_slice(ids);
    scratch.sort_unstable();
    scratch.windows(2).any(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeSet, HashSet};

    fn one(k: usize, accept: &[i64], available: i64) -> Judge {
        Judge::new(k, &[0, accept.len() as i64], accept.to_vec(), &[available]).unwrap()
    }

    #[test]
    fn nothing_to_find_is_right_only_when_nothing_is_returned() {
        let judge = one(3, &[], 0);
        let say = |ids: &[i64]| {
            judge
                .judge(0, ids, &mut vec![])
                .unwrap()
                .fraction(ids.len())
        };
        assert_eq!((say(&[]), say(&[7])), ((1, 1), (0, 1)));
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let new = |k, offsets: &[i64], accept: &[i64], available: &[i64]| {
            Judge::new(k, offsets, accept.to_vec(), available).is_err()
        };
        assert!(new(0, &[0, 1], &[1], &[1]));
        assert!(new(0, &[0, 0], &[], &[0]));
        assert!(new(1, &[0], &[], &[1]));
        assert!(new(1, &[1, 1], &[4], &[1]));
        assert!(new(1, &[1, 2], &[4, 5], &[1]));
        assert!(new(1, &[0, 2, 1, 3], &[1, 2, 3], &[1, 1, 1]));
        assert!(new(2, &[0, 2], &[2, 2], &[2]));
        assert!(new(2, &[0, 2], &[3, 2], &[2]));
        assert!(new(2, &[0, 1], &[1], &[2]));
        assert!(new(3, &[0, 2], &[1, 2], &[1]));
        assert!(new(1, &[0, -1, 2], &[1, 2], &[1, 1]));
        assert!(new(1, &[], &[], &[]));
        assert!(new(1, &[0, 2], &[1, 2], &[2]));
        assert!(new(1, &[0, 1], &[1, 2], &[1]));
    }

    /// Ids of an answer: any, all distinct, or with one that comes twice. Of many ids drawn at
    /// random some always come twice.
    fn answers() -> impl Strategy<Value = Vec<i64>> {
        let ids: Vec<i64> = (-1..90).collect();
        let distinct = || prop::sample::subsequence(ids.clone(), 1..70).prop_shuffle();
        prop_oneof![
            prop::collection::vec(-1i64..90, 0..70),
            distinct(),
            distinct().prop_map(|mut ids| {
                ids.extend(ids.iter().max().copied());
                ids
            }),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_sets(
            k in 1usize..60,
            queries in prop::collection::vec(
                (prop::collection::btree_set(0i64..80, 0..70), answers()),
                1..5,
            ),
        ) {
            let (mut offsets, mut accepted, mut available) = (vec![0], vec![], vec![]);
            for (accept, _) in &queries {
                accepted.extend(accept);
                offsets.push(accepted.len() as i64);
                available.push(accept.len().min(k) as i64);
            }
            let judge = Judge::new(k, &offsets, accepted, &available).unwrap();
            let mut scratch = vec![];
            prop_assert_eq!(judge.queries(), queries.len());
            prop_assert!(judge.judge(queries.len(), &[], &mut scratch).is_err());
            for (query, (accept, ids)) in queries.iter().enumerate() {
                let available = accept.len().min(k);
                let seen = judge.judge(query, ids, &mut scratch).unwrap();
                let first: BTreeSet<i64> = ids.iter().take(k).copied().collect();
                prop_assert_eq!(seen.hits as usize, first.intersection(accept).count());
                prop_assert_eq!(seen.available as usize, available);
                prop_assert_eq!(seen.short, ids.len() < available);
                let distinct: HashSet<_> = ids.iter().collect();
                prop_assert_eq!(seen.duplicate, distinct.len() < ids.len());
                let (part, whole) = seen.fraction(ids.len());
                let found = if available == 0 {
                    (u32::from(ids.is_empty()), 1)
                } else {
                    (seen.hits, seen.available)
                };
                prop_assert_eq!((part, whole), found);
            }
        }
    }
}
