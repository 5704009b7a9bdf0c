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
pub mod python;

use keep::Near;
use rayon::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

/// Rows of a tile and queries of a chunk: the square that packs the least per product, and whose
/// products (1 MiB) are still read from a cache.
const TILE: usize = 512;
const CHUNK: usize = 512;
/// Unit roundoff of float32.
const ROUND: f64 = 1.0 / (1u32 << 24) as f64;
/// Prepared vectors at least this long are out of float32's safe range: never judged by it.
const WILD: f64 = (1u64 << 40) as f64;
/// More than anything that underflow can take from a sum of products of safe vectors.
const UNDERFLOW: f64 = 1.0 / (1u128 << 90) as f64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    L2,
    Cosine,
    Ip,
}

/// Why a scan cannot go on.
#[derive(Debug, PartialEq)]
pub enum Fault {
    ZeroVector(i64),
    NotFinite(i64),
    TooManyTies(usize),
}

/// What a search is: fixed before the first row.
pub struct Plan {
    pub metric: Metric,
    pub k: usize,
    /// d components
    pub centre: Vec<f32>,
    /// a power of two
    pub scale: f64,
    /// relative tolerance of a tie with the k-th distance
    pub tie: f64,
    /// uncertainty of a float64 distance, in units of |q||x| (ip) or 1 (cosine)
    pub noise: f64,
    /// hits that all queries together may hold
    pub most_held: usize,
}

/// One query, with what turns keys into distances and back.
struct Query {
    norm: f64,
    /// |prepared q|²
    square: f64,
    /// key units per distance unit (ip), or the scale s
    scale: f64,
    /// q·c (ip), and s t |q||c|
    offset: f64,
    offset_bound: f64,
    /// γ|q|: times a row's length, the error of its product; NaN when wild
    error: f32,
    filter: Option<usize>,
}

impl Plan {
    fn dim(&self) -> usize {
        self.centre.len()
    }

    /// Bound of float64's own relative rounding in sums of d terms.
    fn fine(&self) -> f64 {
        (self.dim() + 64) as f64 * f64::EPSILON
    }

    /// Least distance still accepted beside a k-th distance.
    fn limit(&self, kth: f64) -> f64 {
        kth + self.tie * kth.abs()
    }

    /// A key that no row within the limit of a k-th distance `kth` exceeds.
    fn admit(&self, q: &Query, kth: f64) -> f32 {
        let limit = self.limit(kth);
        if limit == f64::INFINITY {
            return f32::INFINITY;
        }
        let s = q.scale;
        let (a, b, spare) = match self.metric {
            Metric::L2 => (0.5 * s * s * limit * limit, -0.5 * q.square, 0.0),
            Metric::Cosine => (
                s * s * limit,
                -0.5 * q.square,
                s * s * (self.noise + self.fine()),
            ),
            Metric::Ip => (s * limit, s * q.offset, self.fine() * q.offset_bound),
        };
        round_up(a + b + spare + self.fine() * (a.abs() + b.abs()))
    }

    /// The distance that belongs to a key.
    fn distance(&self, q: &Query, key: f64) -> f64 {
        let s = q.scale;
        match self.metric {
            Metric::L2 => (2.0 * key + q.square).max(0.0).sqrt() / s,
            Metric::Cosine => (key + 0.5 * q.square) / (s * s),
            Metric::Ip => key / s - q.offset,
        }
    }

    fn query(&self, q: &[f32], prepared: &mut [f32], filter: Option<usize>) -> Query {
        let norm = exact::norm(q);
        let (scale, offset) = match self.metric {
            Metric::Ip => {
                let own = power_of_two_below(norm);
                for (p, x) in prepared.iter_mut().zip(q) {
                    *p = (f64::from(*x) / own) as f32;
                }
                (self.scale / own, exact::dot(q, &self.centre))
            }
            _ => {
                self.prepare(q, norm, prepared);
                (self.scale, 0.0)
            }
        };
        // From float64 components, as the keys' definition has it, not from the rounded ones.
        let square = match self.metric {
            Metric::Ip => 0.0,
            metric => {
                let unit = if metric == Metric::Cosine { norm } else { 1.0 };
                let terms = q.iter().zip(&self.centre);
                terms
                    .map(|(x, c)| ((f64::from(*x) / unit - f64::from(*c)) * scale).powi(2))
                    .sum()
            }
        };
        let length = exact::norm(prepared);
        let d = (self.dim() + 16) as f64 * ROUND;
        let error = if length < WILD {
            round_up(d / (1.0 - d) * 1.001 * length)
        } else {
            f32::NAN
        };
        let offset_bound = scale * norm * exact::norm(&self.centre);
        Query {
            norm,
            square,
            scale,
            offset,
            offset_bound,
            error,
            filter,
        }
    }

    #[inline(always)]
    fn prepare(&self, x: &[f32], norm: f64, prepared: &mut [f32]) {
        let unit = if self.metric == Metric::Cosine {
            norm
        } else {
            1.0
        };
        for ((p, x), c) in prepared.iter_mut().zip(x).zip(&self.centre) {
            *p = ((f64::from(*x) / unit - f64::from(*c)) * self.scale) as f32;
        }
    }
}

/// A block of rows, prepared: see the module's table. Kept from block to block, since fresh pages
/// cost more than what is written to them.
#[derive(Default)]
struct Block {
    ready: Vec<f32>,
    about: Vec<About>,
    /// lower bound of |x|²/2 (0 under ip), and |x| or NaN when wild: apart, for the sieve
    low: Vec<f32>,
    reach: Vec<f32>,
}

#[derive(Clone, Default)]
struct About {
    norm: f64,
    /// half the width of a key's interval, but for the product's own error
    width: f32,
}

/// A search under way.
pub struct Search {
    plan: Plan,
    queries: Vec<Query>,
    near: Vec<Near>,
    given: Vec<f32>,
    prepared: Vec<f32>,
    longest: f64,
    held: AtomicI64,
    spare: Block,
}

/// What a search found; see `vectrial.datasets.model.Truth`.
pub struct Found {
    pub ids: Vec<i64>,
    pub distances: Vec<f64>,
    pub available: Vec<i64>,
    pub offsets: Vec<i64>,
    pub accept: Vec<i64>,
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
            spare: Block::default(),
        })
    }

    /// Look at rows `vectors` (b × d) named `ids`; `allowed` is filters × b.
    pub fn scan(
        &mut self,
        vectors: &[f32],
        ids: &[i64],
        allowed: Option<&[bool]>,
    ) -> Result<(), Fault> {
        let mut block = std::mem::take(&mut self.spare);
        self.fill(&mut block, vectors, ids)?;
        let share = self.near.len().div_ceil(rayon::current_num_threads());
        let chunk = share.clamp(1, CHUNK);
        let mut near = std::mem::take(&mut self.near);
        let this = &*self;
        let done = near
            .par_chunks_mut(chunk)
            .enumerate()
            .try_for_each(|(i, near)| {
                let work = Work {
                    search: this,
                    block: &block,
                    vectors,
                    ids,
                    allowed,
                };
                work.chunk(i * chunk, near)
            });
        self.near = near;
        self.spare = block;
        done
    }

    fn fill(&self, block: &mut Block, vectors: &[f32], ids: &[i64]) -> Result<(), Fault> {
        let (plan, d, n) = (&self.plan, self.plan.dim(), ids.len());
        block.ready.resize(n * d, 0.0);
        block.about.resize(n, About::default());
        block.low.resize(n, 0.0);
        block.reach.resize(n, 0.0);
        let arch = pulp::Arch::new();
        let rows = block.ready.par_chunks_mut(d).zip(&mut block.about);
        let rows = rows.zip(&mut block.low).zip(&mut block.reach);
        rows.zip(vectors.par_chunks(d))
            .zip(ids)
            .with_min_len(256)
            .try_for_each(|(((((ready, about), low), reach), x), id)| {
                arch.dispatch(
                    #[inline(always)]
                    || {
                        let norm = exact::norm(x);
                        if !norm.is_finite() {
                            return Err(Fault::NotFinite(*id));
                        }
                        if plan.metric == Metric::Cosine && norm == 0.0 {
                            return Err(Fault::ZeroVector(*id));
                        }
                        plan.prepare(x, norm, ready);
                        let length = exact::norm(ready);
                        let square = length * length;
                        // The row's rounding to float32, that of the key's own terms, and what
                        // float64 itself leaves uncertain.
                        let width =
                            4.0 * ROUND * square + UNDERFLOW + self.fine_width(norm, length);
                        let half = if plan.metric == Metric::Ip {
                            0.0
                        } else {
                            0.5 * square
                        };
                        *about = About {
                            norm,
                            width: round_up(width),
                        };
                        *low = -round_up(width - half);
                        *reach = if length < WILD {
                            round_up(length)
                        } else {
                            f32::NAN
                        };
                        Ok(())
                    },
                )
            })
    }

    fn fine_width(&self, norm: f64, length: f64) -> f64 {
        let (plan, s) = (&self.plan, self.plan.scale);
        match plan.metric {
            Metric::L2 => 0.0,
            // Components of x/|x| are rounded at 2⁻⁵³ before the centre is taken off.
            Metric::Cosine => 8.0 * f64::EPSILON * s * (length + self.longest),
            // A prepared query under ip is shorter than 2.
            Metric::Ip => 2.0 * s * norm * (plan.noise + plan.fine()),
        }
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

/// One chunk of queries against one block of rows.
struct Work<'a> {
    search: &'a Search,
    block: &'a Block,
    vectors: &'a [f32],
    ids: &'a [i64],
    allowed: Option<&'a [bool]>,
}

impl Work<'_> {
    fn chunk(&self, first: usize, near: &mut [Near]) -> Result<(), Fault> {
        let (d, m, n) = (self.search.plan.dim(), near.len(), self.ids.len());
        let queries = &self.search.prepared[first * d..(first + m) * d];
        let mut products = vec![0.0f32; m * TILE];
        let arch = pulp::Arch::new();
        for start in (0..n).step_by(TILE) {
            let tile = start..n.min(start + TILE);
            let rows = &self.block.ready[start * d..tile.end * d];
            multiply(&mut products, queries, rows, d);
            for (i, near) in near.iter_mut().enumerate() {
                let row = &products[i * TILE..i * TILE + tile.len()];
                arch.dispatch(
                    #[inline(always)]
                    || self.sieve(first + i, start, row, near),
                );
                if near.wants_tightening() {
                    self.tighten(first + i, near, false)?;
                }
            }
        }
        for (i, near) in near.iter_mut().enumerate() {
            self.tighten(first + i, near, true)?;
        }
        Ok(())
    }

    /// Keep the rows of a tile whose interval begins within what `near` admits.
    #[inline(always)]
    fn sieve(&self, query: usize, start: usize, products: &[f32], near: &mut Near) {
        const LANES: usize = 32;
        let (error, admit) = (self.search.queries[query].error, near.admit);
        let rows = start..start + products.len();
        let low = self.block.low[rows.clone()].chunks(LANES);
        let reach = self.block.reach[rows].chunks(LANES);
        for (at, ((products, low), reach)) in products.chunks(LANES).zip(low).zip(reach).enumerate()
        {
            let terms = products.iter().zip(low).zip(reach);
            // Not `lower <= admit`: a NaN, from a wild vector, must be kept. And no early end,
            // which would keep the loop from being vectorised.
            #[allow(clippy::neg_cmp_op_on_partial_ord)]
            let any = terms.fold(false, |any, ((p, l), r)| any | !(l - p - error * r > admit));
            if any {
                self.keep(query, start + at * LANES, products, near);
            }
        }
    }

    #[inline(never)]
    fn keep(&self, query: usize, start: usize, products: &[f32], near: &mut Near) {
        let q = &self.search.queries[query];
        let allowed = match (self.allowed, q.filter) {
            (Some(allowed), Some(filter)) => Some(&allowed[filter * self.ids.len()..]),
            _ => None,
        };
        for (row, product) in (start..).zip(products) {
            let reach = self.block.reach[row];
            let lower = self.block.low[row] - product - q.error * reach;
            if lower > near.admit || allowed.is_some_and(|allowed| !allowed[row]) {
                continue;
            }
            if lower.is_nan() {
                near.push(f32::NEG_INFINITY, f32::INFINITY, row);
            } else {
                let error = f64::from(q.error) * f64::from(reach);
                let width = 2.0 * (error + f64::from(self.block.about[row].width));
                near.push(lower, round_up(f64::from(lower) + width), row);
            }
        }
    }

    /// Drop what the candidates' own upper bounds rule out; at the end of a block, or when the
    /// bounds are too wide to tell candidates apart, settle them in float64.
    fn tighten(&self, query: usize, near: &mut Near, settle: bool) -> Result<(), Fault> {
        let (plan, q) = (&self.search.plan, &self.search.queries[query]);
        if let Some(upper) = near.kth_upper(plan.k) {
            let kth = plan.distance(q, f64::from(upper));
            near.narrow(plan.admit(q, kth));
        }
        if !settle && !near.is_crowded(plan.k) {
            return Ok(());
        }
        let d = plan.dim();
        let given = &self.search.given[query * d..(query + 1) * d];
        let arch = pulp::Arch::new();
        let (before, fresh) = (near.held(), near.take_fresh());
        near.settle(
            plan,
            fresh.into_iter().map(|row| {
                let x = &self.vectors[row * d..(row + 1) * d];
                let norm = self.block.about[row].norm;
                let distance = arch.dispatch(
                    #[inline(always)]
                    || exact::distance(plan.metric, given, x, q.norm, norm),
                );
                let noise = match plan.metric {
                    Metric::L2 => 0.0,
                    Metric::Cosine => plan.noise,
                    Metric::Ip => plan.noise * q.norm * norm,
                };
                keep::Hit {
                    distance,
                    least: distance - noise,
                    id: self.ids[row],
                }
            }),
        );
        if let Some(kth) = near.kth() {
            near.narrow(plan.admit(q, kth));
        }
        let grown = near.held() as i64 - before as i64;
        let held = self.search.held.fetch_add(grown, Ordering::Relaxed) + grown;
        if grown > 0 && held > plan.most_held as i64 {
            return Err(Fault::TooManyTies(held as usize));
        }
        Ok(())
    }
}

/// products (m × TILE) = queries (m × d) · rows (n × d) transposed.
fn multiply(products: &mut [f32], queries: &[f32], rows: &[f32], d: usize) {
    let (m, n, d_stride) = (queries.len() / d, rows.len() / d, d as isize);
    assert!(m * TILE <= products.len() && n <= TILE);
    // SAFETY: the assertion and the divisions above give every index (i < m, j < n, l < d) its
    // place: products[i * TILE + j], queries[i * d + l], rows[j * d + l].
    unsafe {
        gemm::gemm(
            m,
            n,
            d,
            products.as_mut_ptr(),
            1,
            TILE as isize,
            false,
            queries.as_ptr(),
            1,
            d_stride,
            rows.as_ptr(),
            d_stride,
            1,
            0.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// The least float32 that is not below `value`.
fn round_up(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) < value {
        near.next_up()
    } else {
        near
    }
}

/// A power of two within a factor of two below `value`; 1 for zero.
fn power_of_two_below(value: f64) -> f64 {
    if value == 0.0 {
        return 1.0;
    }
    value.log2().floor().exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_up_is_never_below(value in any::<f64>().prop_filter("number", |v| !v.is_nan())) {
            let up = round_up(value);
            prop_assert!(f64::from(up) >= value);
            prop_assert!(value < f64::from(f32::MIN) || f64::from(up.next_down()) < value);
        }

        #[test]
        fn a_key_within_the_limit_is_admitted(
            kth in 0.0..4.0f64, share in 0.0..1.0f64, metric in 0..3usize, scale in -20..20i32,
        ) {
            let metric = [Metric::L2, Metric::Cosine, Metric::Ip][metric];
            let plan = Plan {
                metric, k: 1, centre: vec![0.25, -0.5], scale: f64::from(scale).exp2(),
                tie: 1e-6, noise: 0.0, most_held: 1,
            };
            let query = plan.query(&[3.0, 1.0], &mut [0.0; 2], None);
            let distance = plan.limit(kth) * share;
            let key = match metric {
                Metric::L2 => 0.5 * ((query.scale * distance).powi(2) - query.square),
                Metric::Cosine => query.scale * query.scale * distance - 0.5 * query.square,
                Metric::Ip => query.scale * (distance + query.offset),
            };
            prop_assert!((key as f32).next_down() <= plan.admit(&query, kth));
            prop_assert!((plan.distance(&query, key) - distance).abs() < 1e-6 * (1.0 + distance));
        }
    }
}
