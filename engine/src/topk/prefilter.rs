//! Queries against rows: products in float32, and a prefilter that drops no neighbour.

use super::keep::{self, Near};
use super::plan::{round_up, Metric};
use super::{exact, Fault, Rows, Search, Strip};
use std::sync::atomic::Ordering;

/// Rows of a tile and queries of a chunk: the square that packs the least per product, and whose
/// products (1 MiB) are still read from a cache.
const TILE: usize = 512;
pub const CHUNK: usize = 512;
/// Rows that the prefilter looks at together, and the bit of each.
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
struct Prefilter<'a, 'b> {
    work: &'a Work<'a>,
    query: usize,
    start: usize,
    products: &'a [f32],
    near: &'b mut Near,
}

impl pulp::NullaryFnOnce for Prefilter<'_, '_> {
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
pub struct Work<'a> {
    pub search: &'a Search,
    pub strip: &'a Strip,
    pub rows: &'a Rows<'a>,
    /// the strip's first row within the block
    pub first: usize,
}

impl Work<'_> {
    pub fn chunk(&self, first: usize, near: &mut [Near]) -> Result<(), Fault> {
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
                arch.dispatch(Prefilter {
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
    pub fn tighten(&self, query: usize, near: &mut Near, settle: bool) -> Result<(), Fault> {
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
                let noise = plan.floor
                    + match plan.metric {
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
        // The kernel writes columns: the products' columns are ours of rows.
        gemm_f32::gemm::f32::get_gemm_fn()(
            n,
            m,
            d,
            products.as_mut_ptr(),
            TILE as isize,
            1,
            false,
            rows.as_ptr(),
            1,
            d_stride,
            queries.as_ptr(),
            d_stride,
            1,
            0.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm_common::Parallelism::None,
        );
    }
}
