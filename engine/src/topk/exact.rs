//! Distances in float64, to the last bit those of `vectrial.distance.distances`.

use super::Metric;

/// Sum of `term(start..start + n)` in the order of numpy's pairwise summation along a row:
/// eight running sums up to 128 terms, halves above. (numpy/core/src/umath/loops_utils.h.src
/// describes the order; the same order gives the same rounding.)
#[inline(always)]
fn pairwise<F: Fn(usize) -> f64 + Copy>(start: usize, n: usize, term: F) -> f64 {
    if n > 128 {
        return halves(start, n, term);
    }
    straight(start, n, term)
}

fn halves<F: Fn(usize) -> f64 + Copy>(start: usize, n: usize, term: F) -> f64 {
    if n <= 128 {
        return straight(start, n, term);
    }
    let half = n / 2 - n / 2 % 8;
    halves(start, half, term) + halves(start + half, n - half, term)
}

#[inline(always)]
fn straight<F: Fn(usize) -> f64 + Copy>(start: usize, n: usize, term: F) -> f64 {
    if n < 8 {
        return (start..start + n).fold(0.0, |sum, i| sum + term(i));
    }
    let mut sums: [f64; 8] = std::array::from_fn(|lane| term(start + lane));
    let whole = n - n % 8;
    for at in (8..whole).step_by(8) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += term(start + at + lane);
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let total = ((a + b) + (c + d)) + ((e + f) + (g + h));
    (start + whole..start + n).fold(total, |sum, i| sum + term(i))
}

/// Euclidean length.
#[inline(always)]
pub fn norm(x: &[f32]) -> f64 {
    pairwise(0, x.len(), |i| f64::from(x[i]) * f64::from(x[i])).sqrt()
}

/// Inner product of two rows of equal length.
#[inline(always)]
pub fn dot(q: &[f32], x: &[f32]) -> f64 {
    let q = &q[..x.len()];
    pairwise(0, x.len(), |i| f64::from(x[i]) * f64::from(q[i]))
}

/// The distance from `q` to `x`, given the lengths of both (used by cosine alone).
#[inline(always)]
pub fn distance(metric: Metric, q: &[f32], x: &[f32], q_norm: f64, x_norm: f64) -> f64 {
    match metric {
        Metric::L2 => {
            let q = &q[..x.len()];
            pairwise(0, x.len(), |i| {
                let difference = f64::from(x[i]) - f64::from(q[i]);
                difference * difference
            })
            .sqrt()
        }
        Metric::Cosine => 1.0 - dot(q, x) / (x_norm * q_norm),
        Metric::Ip => -dot(q, x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_is_summed_once() {
        for n in (0..300).chain([1000, 1537, 4096]) {
            let sum = pairwise(0, n, |i| (i + 1) as f64);
            assert_eq!(sum, (n * (n + 1) / 2) as f64, "{n} terms");
        }
    }
}
