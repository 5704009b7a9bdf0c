//! Exact nearest neighbours, block by block, at the speed of float32 arithmetic.
//!
//! A block of rows is multiplied with the queries in float32. Each product stands for an
//! interval that surely holds the true value; a row whose interval lies wholly beyond what can
//! still be among the k nearest or their ties is dropped, and everything else is evaluated in
//! float64 while its block is at hand. Rounding can therefore cost time, never a neighbour.
//!
//! The quantity compared is the *key*, an affine image of the distance, of prepared vectors:
//!
//! | metric | x prepared as       | q prepared as       | key                | distance           |
//! |--------|---------------------|---------------------|--------------------|--------------------|
//! | L2     | s (x - c)           | s (q - c)           | \|x\|²/2 - q·x     | √(2 key + \|q\|²)/s |
//! | cosine | s (x/\|x\| - c)     | s (q/\|q\| - c)     | \|x\|²/2 - q·x     | (key + \|q\|²/2)/s² |
//! | ip     | s (x - c)           | t q                 | -q·x               | key/(s t) - q·c    |
//!
//! with a centre c that keeps cancellation small and powers of two s, t that keep float32 in
//! range. Neither changes the answer. The error of a float32 inner product of d terms, in any
//! order, is at most γ|q||x|, γ = du/(1 - du), u = 2⁻²⁴ (Higham, Accuracy and Stability of
//! Numerical Algorithms, 2nd ed., section 3.1).

pub mod exact;
mod keep;
mod plan;
mod prefilter;

pub use plan::{Metric, Plan};

use keep::{Hit, Near};
use plan::{round_up, Query, ROUND, WILD};
use prefilter::{Work, CHUNK};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::AtomicI64;

/// Rows that are prepared at a time: many tiles, and no more than a cache or two.
const STRIP: usize = 8192;
/// More than anything that underflow can take from a sum of products of safe vectors.
const UNDERFLOW: f64 = 1.0 / (1u128 << 90) as f64;

/// Why a scan cannot go on.
#[derive(Debug, PartialEq)]
pub enum Fault {
    ZeroVector(i64),
    NotFinite(i64),
    TooManyTies(usize),
}

/// A strip of a block's rows, prepared: see the module's table. Kept from strip to strip, since
/// fresh pages cost more than what is written to them.
#[derive(Default)]
struct Strip {
    ready: Vec<f32>,
    /// half the width of a key's interval, but for the product's own error
    width: Vec<f32>,
    /// lower bound of |x|²/2 (0 under ip), and |x| or NaN when wild: apart, for the prefilter
    low: Vec<f32>,
    reach: Vec<f32>,
    /// lengths as given, of this strip's rows and of those before it in the block
    norms: Vec<f64>,
}

/// A block of rows, as given.
struct Rows<'a> {
    vectors: &'a [f32],
    ids: &'a [i64],
    allowed: Option<&'a [bool]>,
}

/// A search under way.
pub struct Search {
    pub plan: Plan,
    queries: Vec<Query>,
    near: Vec<Near>,
    given: Vec<f32>,
    prepared: Vec<f32>,
    longest: f64,
    held: AtomicI64,
    spare: Strip,
}

/// What a search found; see `vectrial.model.dataset.Truth`.
pub struct Found {
    pub ids: Vec<i64>,
    pub distances: Vec<f64>,
    pub available: Vec<i64>,
    pub offsets: Vec<i64>,
    pub accept: Vec<i64>,
}

/// For each query a run of hits, which begins at its offset: the k nearest rows of a search, and
/// all that ties with the last of them. A search over other rows needs to know no more of these.
pub struct Hits {
    /// one more than there are queries
    pub offsets: Vec<i64>,
    pub ids: Vec<i64>,
    pub distances: Vec<f64>,
    /// the distances less their uncertainty
    pub least: Vec<f64>,
}

impl Search {
    /// `queries` are q × d; `filters` names for each the filter it is under, below zero for none.
    pub fn new(plan: Plan, queries: Vec<f32>, filters: &[i64]) -> Result<Self, Fault> {
        let d = plan.dim();
        let mut prepared = vec![0.0; queries.len()];
        let mut made = Vec::with_capacity(filters.len());
        let mut longest = 0.0f64;
        for (i, (q, p)) in queries.chunks(d).zip(prepared.chunks_mut(d)).enumerate() {
            let query = plan.query(q, p, usize::try_from(filters[i]).ok());
            if !query.norm.is_finite() {
                return Err(Fault::NotFinite(i as i64));
            }
            if plan.metric == Metric::Cosine && query.norm == 0.0 {
                return Err(Fault::ZeroVector(i as i64));
            }
            let length = exact::norm(p);
            if length < WILD {
                longest = longest.max(length);
            }
            made.push(query);
        }
        let near = made.iter().map(|_| Near::default()).collect();
        let held = AtomicI64::new(0);
        Ok(Self {
            plan,
            queries: made,
            near,
            given: queries,
            prepared,
            longest,
            held,
            spare: Strip::default(),
        })
    }

    /// Look at rows `vectors` (b × d) named `ids`; `allowed` is filters × b.
    pub fn scan(
        &mut self,
        vectors: &[f32],
        ids: &[i64],
        allowed: Option<&[bool]>,
    ) -> Result<(), Fault> {
        let mut strip = std::mem::take(&mut self.spare);
        let mut near = std::mem::take(&mut self.near);
        let rows = Rows {
            vectors,
            ids,
            allowed,
        };
        let done = self.block(&mut strip, &mut near, &rows);
        self.near = near;
        self.spare = strip;
        done
    }

    /// Strip by strip, so that what was prepared is still in a cache when it is read; settled
    /// once, at the end, when the candidates are fewest.
    fn block(&self, strip: &mut Strip, near: &mut [Near], rows: &Rows) -> Result<(), Fault> {
        let chunk = near.len().div_ceil(rayon::current_num_threads());
        let chunk = chunk.clamp(1, CHUNK);
        let n = rows.ids.len();
        strip.norms.clear();
        for first in (0..n).step_by(STRIP) {
            self.fill(strip, rows, first..n.min(first + STRIP))?;
            let work = Work {
                search: self,
                strip,
                rows,
                first,
            };
            near.par_chunks_mut(chunk)
                .enumerate()
                .try_for_each(|(i, near)| work.chunk(i * chunk, near))?;
        }
        let work = Work {
            search: self,
            strip,
            rows,
            first: 0,
        };
        near.par_iter_mut()
            .enumerate()
            .with_min_len(16)
            .try_for_each(|(i, near)| work.tighten(i, near, true))
    }

    fn fill(&self, strip: &mut Strip, rows: &Rows, range: Range<usize>) -> Result<(), Fault> {
        let (plan, d, n) = (&self.plan, self.plan.dim(), range.len());
        strip.ready.resize(n * d, 0.0);
        strip.width.resize(n, 0.0);
        strip.low.resize(n, 0.0);
        strip.reach.resize(n, 0.0);
        strip.norms.resize(range.end, 0.0);
        let arch = pulp::Arch::new();
        let written = strip.ready.par_chunks_mut(d).zip(&mut strip.width);
        let written = written.zip(&mut strip.low).zip(&mut strip.reach);
        written
            .zip(&mut strip.norms[range.start..])
            .zip(rows.vectors[range.start * d..range.end * d].par_chunks(d))
            .zip(&rows.ids[range])
            .with_min_len(256)
            .try_for_each(|((((((ready, width), low), reach), given_norm), x), id)| {
                let row = arch.dispatch(Prepare {
                    search: self,
                    x,
                    ready,
                });
                if !row.norm.is_finite() {
                    return Err(Fault::NotFinite(*id));
                }
                if plan.metric == Metric::Cosine && row.norm == 0.0 {
                    return Err(Fault::ZeroVector(*id));
                }
                *given_norm = row.norm;
                *width = round_up(row.width);
                *low = -round_up(row.width - row.half);
                *reach = if row.length < WILD {
                    round_up(row.length)
                } else {
                    f32::NAN
                };
                Ok(())
            })
    }

    fn fine_width(&self, norm: f64, length: f64) -> f64 {
        let (plan, s) = (&self.plan, self.plan.scale);
        match plan.metric {
            Metric::L2 => 0.0,
            // Components of x/|x| are rounded three times at 2⁻⁵³ before the centre is taken off.
            Metric::Cosine => 8.0 * f64::EPSILON * s * (length + self.longest),
            // A prepared query under ip is shorter than 2.
            Metric::Ip => 2.0 * s * norm * (plan.noise + plan.fine()),
        }
    }

    /// What it has found until now.
    pub fn hits(&self) -> Hits {
        let mut hits = Hits {
            offsets: vec![0],
            ids: Vec::new(),
            distances: Vec::new(),
            least: Vec::new(),
        };
        for near in &self.near {
            for hit in near.hits() {
                hits.ids.push(hit.id);
                hits.distances.push(hit.distance);
                hits.least.push(hit.least);
            }
            hits.offsets.push(hits.ids.len() as i64);
        }
        hits
    }

    /// Take in the hits of a search of the same queries over other rows.
    pub fn merge(&mut self, hits: &Hits) -> Result<(), Fault> {
        let mut held = 0;
        for (near, run) in self.near.iter_mut().zip(hits.offsets.windows(2)) {
            let run = run[0] as usize..run[1] as usize;
            near.settle(
                &self.plan,
                run.map(|i| Hit {
                    distance: hits.distances[i],
                    least: hits.least[i],
                    id: hits.ids[i],
                }),
            );
            held += near.held();
        }
        *self.held.get_mut() = held as i64;
        if held > self.plan.most_held {
            return Err(Fault::TooManyTies(held));
        }
        Ok(())
    }

    /// The answer over everything that was scanned.
    pub fn finish(self) -> Found {
        let (k, q) = (self.plan.k, self.near.len());
        let mut found = Found {
            ids: vec![-1; q * k],
            distances: vec![f64::INFINITY; q * k],
            available: vec![0; q],
            offsets: vec![0; q + 1],
            accept: Vec::with_capacity(self.held.into_inner() as usize),
        };
        for (i, near) in self.near.into_iter().enumerate() {
            let (best, ties) = near.finish();
            for (j, hit) in best.iter().enumerate() {
                found.ids[i * k + j] = hit.id;
                found.distances[i * k + j] = hit.distance;
            }
            found.available[i] = best.len() as i64;
            let from = found.accept.len();
            found
                .accept
                .extend(best.iter().chain(&ties).map(|hit| hit.id));
            found.accept[from..].sort_unstable();
            found.offsets[i + 1] = found.accept.len() as i64;
        }
        found
    }
}

/// Preparing one row: a type of its own, see `exact::Straight`.
struct Prepare<'a> {
    search: &'a Search,
    x: &'a [f32],
    ready: &'a mut [f32],
}

struct Prepared {
    /// of the row as given, and as prepared
    norm: f64,
    length: f64,
    /// half the prepared row's square (0 under ip), and half the width of its key's interval
    half: f64,
    width: f64,
}

impl pulp::NullaryFnOnce for Prepare<'_> {
    type Output = Prepared;

    #[inline(always)]
    fn call(self) -> Prepared {
        let plan = &self.search.plan;
        let norm = exact::norm(self.x);
        plan.prepare(self.x, norm, self.ready);
        let length = exact::norm(self.ready);
        let square = length * length;
        let half = match plan.metric {
            Metric::Ip => 0.0,
            _ => 0.5 * square,
        };
        // The row's rounding to float32, that of the key's own terms, and what float64 itself
        // leaves uncertain.
        let width = 4.0 * ROUND * square + UNDERFLOW + self.search.fine_width(norm, length);
        Prepared {
            norm,
            length,
            half,
            width,
        }
    }
}
