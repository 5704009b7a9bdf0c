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
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};

/// Rows of a tile and queries of a chunk: the square that packs the least per product, and whose
/// products (1 MiB) are still read from a cache.
const TILE: usize = 512;
const CHUNK: usize = 512;
/// Rows that are prepared at a time: many tiles, and no more than a cache or two.
const STRIP: usize = 8192;
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
        // A product costs a fraction of a quotient; its further rounding is in `fine_width`.
        let to_unit = match self.metric {
            Metric::Cosine => 1.0 / norm,
            _ => 1.0,
        };
        for ((p, x), c) in prepared.iter_mut().zip(x).zip(&self.centre) {
            *p = ((f64::from(*x) * to_unit - f64::from(*c)) * self.scale) as f32;
        }
    }
}

/// A strip of a block's rows, prepared: see the module's table. Kept from strip to strip, since
/// fresh pages cost more than what is written to them.
#[derive(Default)]
struct Strip {
    ready: Vec<f32>,
    /// half the width of a key's interval, but for the product's own error
    width: Vec<f32>,
    /// lower bound of |x|²/2 (0 under ip), and |x| or NaN when wild: apart, for the sieve
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
    plan: Plan,
    queries: Vec<Query>,
    near: Vec<Near>,
    given: Vec<f32>,
    prepared: Vec<f32>,
    longest: f64,
    held: AtomicI64,
    spare: Strip,
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

/// Rows that the sieve looks at together, and the bit of each.
const LANES: usize = 32;
const BITS: [u32; LANES] = {
    let mut bits = [1; LANES];
    let mut lane = 1;
    while lane < LANES {
        bits[lane] = bits[lane - 1] << 1;
        lane += 1;
    }
    bits
};

/// Keeping the rows of a tile whose interval begins within what `near` admits.
struct Sieve<'a, 'b> {
    work: &'a Work<'a>,
    query: usize,
    start: usize,
    products: &'a [f32],
    near: &'b mut Near,
}

impl pulp::NullaryFnOnce for Sieve<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (work, start) = (self.work, self.start);
        let (error, admit) = (work.search.queries[self.query].error, self.near.admit);
        let rows = start..start + self.products.len();
        let low = work.strip.low[rows.clone()].chunks(LANES);
        let reach = work.strip.reach[rows].chunks(LANES);
        let tile = self.products.chunks(LANES).zip(low).zip(reach);
        for (at, ((products, low), reach)) in tile.enumerate() {
            let terms = products.iter().zip(low).zip(reach).zip(&BITS);
            // Not `lower <= admit`: a NaN, from a wild vector, must be kept. And no early end,
            // which would keep the loop from being vectorised.
            #[allow(clippy::neg_cmp_op_on_partial_ord)]
            let kept = terms.fold(0, |kept, (((p, l), r), bit)| {
                kept | if l - p - error * r > admit { 0 } else { *bit }
            });
            if kept != 0 {
                work.keep(self.query, start + at * LANES, products, kept, self.near);
            }
        }
    }
}

/// Queries against one strip of a block of rows.
struct Work<'a> {
    search: &'a Search,
    strip: &'a Strip,
    rows: &'a Rows<'a>,
    /// the strip's first row within the block
    first: usize,
}

impl Work<'_> {
    fn chunk(&self, first: usize, near: &mut [Near]) -> Result<(), Fault> {
        let (d, m, n) = (self.search.plan.dim(), near.len(), self.strip.low.len());
        let queries = &self.search.prepared[first * d..(first + m) * d];
        let mut products = vec![0.0f32; m * TILE];
        let arch = pulp::Arch::new();
        for start in (0..n).step_by(TILE) {
            let tile = start..n.min(start + TILE);
            let rows = &self.strip.ready[start * d..tile.end * d];
            multiply(&mut products, queries, rows, d);
            for (i, near) in near.iter_mut().enumerate() {
                let row = &products[i * TILE..i * TILE + tile.len()];
                arch.dispatch(Sieve {
                    work: self,
                    query: first + i,
                    start,
                    products: row,
                    near,
                });
                if near.wants_tightening() {
                    self.tighten(first + i, near, false)?;
                }
            }
        }
        Ok(())
    }

    /// Take in the rows from `start` on that are named by the bits of `kept`.
    #[inline(never)]
    fn keep(&self, query: usize, start: usize, products: &[f32], mut kept: u32, near: &mut Near) {
        let q = &self.search.queries[query];
        let allowed = match (self.rows.allowed, q.filter) {
            (Some(allowed), Some(filter)) => Some(&allowed[filter * self.rows.ids.len()..]),
            _ => None,
        };
        while kept != 0 {
            let lane = kept.trailing_zeros() as usize;
            kept &= kept - 1;
            let (at, row) = (start + lane, self.first + start + lane);
            if allowed.is_some_and(|allowed| !allowed[row]) {
                continue;
            }
            let reach = self.strip.reach[at];
            let lower = self.strip.low[at] - products[lane] - q.error * reach;
            if lower.is_nan() {
                near.push(f32::NEG_INFINITY, f32::INFINITY, row);
            } else {
                let error = f64::from(q.error) * f64::from(reach);
                let width = 2.0 * (error + f64::from(self.strip.width[at]));
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
            fresh.iter().enumerate().map(|(i, &row)| {
                if let Some(next) = fresh.get(i + 1) {
                    prefetch(&self.rows.vectors[next * d..(next + 1) * d]);
                }
                let x = &self.rows.vectors[row * d..(row + 1) * d];
                let norm = self.strip.norms[row];
                let distance = arch.dispatch(exact::Distance {
                    metric: plan.metric,
                    q: given,
                    x,
                    q_norm: q.norm,
                    x_norm: norm,
                });
                let noise = match plan.metric {
                    Metric::L2 => 0.0,
                    Metric::Cosine => plan.noise,
                    Metric::Ip => plan.noise * q.norm * norm,
                };
                keep::Hit {
                    distance,
                    least: distance - noise,
                    id: self.rows.ids[row],
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

/// Have a row brought near while another is worked on: rows that are settled lie far apart, where
/// no processor guesses the next.
fn prefetch(row: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(16) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: a hint, which no address can make fault; this one is of a slice's.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
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
