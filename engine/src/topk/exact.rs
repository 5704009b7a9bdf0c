//! Distances in float64, to the last bit those of `vectrial.model.metric.distances`.

use super::Metric;

/// Terms whose running sums are kept side by side.
const LANES: usize = 8;
/// As many terms at most are summed straight.
const STRAIGHT: usize = 128;

/// Sum of `term(x, y)` over two rows of equal length, in the order of numpy's pairwise summation
/// along a row: eight running sums up to 128 terms, halves above.
/// (numpy/core/src/umath/loops_utils.h.src describes the order; the same order gives the same
/// rounding.)
#[inline(always)]
fn pairwise<F: Fn(f64, f64) -> f64 + Copy>(x: &[f32], y: &[f32], term: F) -> f64 {
    if x.len() > STRAIGHT {
        return halves(x, y, term);
    }
    straight(x, y, term)
}

fn halves<F: Fn(f64, f64) -> f64 + Copy>(x: &[f32], y: &[f32], term: F) -> f64 {
    let n = x.len();
    if n <= STRAIGHT {
        // A recursive function is not inlined where the caller chose its instructions.
        return pulp::Arch::new().dispatch(Straight { x, y, term });
    }
    let half = n / 2 - n / 2 % LANES;
    let (x, y) = (x.split_at(half), y.split_at(half));
    halves(x.0, y.0, term) + halves(x.1, y.1, term)
}

/// A type of its own where a closure would do: what the compiler makes of a closure is called, not
/// inlined, and so never gets the wide instructions.
struct Straight<'a, F> {
    x: &'a [f32],
    y: &'a [f32],
    term: F,
}

impl<F: Fn(f64, f64) -> f64 + Copy> pulp::NullaryFnOnce for Straight<'_, F> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        straight(self.x, self.y, self.term)
    }
}

/// Written without an index, whose check would keep the loops from being vectorised.
#[inline(always)]
fn straight<F: Fn(f64, f64) -> f64 + Copy>(x: &[f32], y: &[f32], term: F) -> f64 {
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest = xs.remainder().iter().zip(ys.remainder());
    // Running sums begin at -0, which leaves every first term as it is.
    let mut sums = [-0.0f64; LANES];
    for (x, y) in xs.zip(ys) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += term(f64::from(*x), f64::from(*y));
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let total = match x.len() {
        0..LANES => 0.0,
        _ => ((a + b) + (c + d)) + ((e + f) + (g + h)),
    };
    rest.fold(total, |sum, (x, y)| {
        sum + term(f64::from(*x), f64::from(*y))
    })
}

/// Euclidean length.
#[inline(always)]
pub fn norm(x: &[f32]) -> f64 {
    pairwise(x, x, |x, y| x * y).sqrt()
}

/// Inner product of two rows of equal length.
#[inline(always)]
pub fn dot(q: &[f32], x: &[f32]) -> f64 {
    pairwise(x, q, |x, q| x * q)
}

/// From one vector to another, given the lengths of both (used by cosine alone).
pub struct Distance<'a> {
    pub metric: Metric,
    pub q: &'a [f32],
    pub x: &'a [f32],
    pub q_norm: f64,
    pub x_norm: f64,
}

impl pulp::NullaryFnOnce for Distance<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let (q, x) = (self.q, self.x);
        match self.metric {
            Metric::L2 => pairwise(x, q, |x, q| (x - q) * (x - q)).sqrt(),
            Metric::Cosine => 1.0 - dot(q, x) / (self.x_norm * self.q_norm),
            Metric::Ip => -dot(q, x),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_is_summed_once() {
        for n in (0..300).chain([1000, 1537, 4096]) {
            let row: Vec<f32> = (1..=n).map(|i| i as f32).collect();
            let sum = pairwise(&row, &row, |x, _| x);
            assert_eq!(sum, (n * (n + 1) / 2) as f64, "{n} terms");
        }
    }
}
