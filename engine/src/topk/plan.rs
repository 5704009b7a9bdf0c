//! What is searched for, and the arithmetic of keys: see the table in `topk`.

use super::exact;

/// Unit roundoff of float32.
pub const ROUND: f64 = 1.0 / (1u32 << 24) as f64;
/// Prepared vectors at least this long are out of float32's safe range: never judged by it.
pub const WILD: f64 = (1u64 << 40) as f64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    L2,
    Cosine,
    Ip,
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
    /// what a distance may exceed the limit by and still tie: in units of |q||x| (ip), of 1
    /// (cosine; 0 for L2), and in its own
    pub noise: f64,
    pub floor: f64,
    /// hits that all queries together may hold
    pub most_held: usize,
}

/// One query, with what turns keys into distances and back.
pub struct Query {
    pub norm: f64,
    /// |prepared q|²
    pub square: f64,
    /// key units per distance unit (ip), or the scale s
    pub scale: f64,
    /// q·c (ip), and s t |q||c|
    pub offset: f64,
    pub offset_bound: f64,
    /// γ|q|: times a row's length, the error of its product; NaN when wild
    pub error: f32,
    pub filter: Option<usize>,
}

impl Plan {
    pub fn dim(&self) -> usize {
        self.centre.len()
    }

    /// Bound of float64's own relative rounding in sums of d terms.
    pub fn fine(&self) -> f64 {
        (self.dim() + 64) as f64 * f64::EPSILON
    }

    /// Least distance still accepted beside a k-th distance.
    pub fn limit(&self, kth: f64) -> f64 {
        kth + self.tie * kth.abs()
    }

    /// A key that no row within the limit of a k-th distance `kth` exceeds.
    pub fn admit(&self, q: &Query, kth: f64) -> f32 {
        let limit = self.limit(kth) + self.floor;
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
    pub fn distance(&self, q: &Query, key: f64) -> f64 {
        let s = q.scale;
        match self.metric {
            Metric::L2 => (2.0 * key + q.square).max(0.0).sqrt() / s,
            Metric::Cosine => (key + 0.5 * q.square) / (s * s),
            Metric::Ip => key / s - q.offset,
        }
    }

    pub fn query(&self, q: &[f32], prepared: &mut [f32], filter: Option<usize>) -> Query {
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
    pub fn prepare(&self, x: &[f32], norm: f64, prepared: &mut [f32]) {
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

/// The least float32 that is not below `value`.
pub fn round_up(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) < value {
        near.next_up()
    } else {
        near
    }
}

/// A power of two within a factor of two below `value`; 1 for zero.
pub fn power_of_two_below(value: f64) -> f64 {
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
                tie: 1e-6, noise: 0.0, floor: 0.0, most_held: 1,
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
