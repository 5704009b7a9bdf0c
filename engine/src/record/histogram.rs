//! Latencies in HDR histograms: nanoseconds, three significant digits, up to 100 s.

use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::invalid_argument::InvalidArgument;

/// The greatest latency that is told apart; what lasts longer is kept as this, and counted.
pub const HIGHEST_NS: u64 = 100_000_000_000;

const DIGITS: u8 = 3;
const V2_COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();
const V2_HEADER_BYTES: usize = 40;
/// No honest record comes near; keeps sums over foreign bytes far from overflow.
const MOST_SAMPLES: u64 = 1 << 53;

/// A histogram of nanoseconds, with the figures that buckets would blur kept exactly.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latencies {
    #[serde(with = "hdr_v2")]
    hdr: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    saturated: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            hdr: empty(DIGITS),
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            saturated: 0,
        }
    }
}

impl Latencies {
    pub fn record(&mut self, ns: u64) {
        self.hdr.saturating_record(ns.min(HIGHEST_NS));
        self.saturated += u64::from(ns > HIGHEST_NS);
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn merge(&mut self, other: &Self) {
        add(&mut self.hdr, &other.hdr);
        self.saturated += other.saturated;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn count(&self) -> u64 {
        self.hdr.len()
    }

    /// How many samples lasted longer than [`HIGHEST_NS`].
    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// Exact sum in ns, of true durations also where they saturate.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Exact mean in ns, of true durations also where they saturate; None when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// Exact least value in ns; None when empty.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min_ns)
    }

    /// Exact greatest value in ns; None when empty.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_ns)
    }

    /// The value in ns at a quantile in [0, 1], within the three digits; None when empty.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        // A bucket answers with its upper bound, which may lie above everything recorded.
        (self.count() > 0).then(|| {
            self.hdr
                .value_at_quantile(quantile)
                .clamp(self.min_ns.min(HIGHEST_NS), self.max_ns)
        })
    }

    /// The V2 encoding, as every HDR library reads it.
    pub fn encode(&self) -> Vec<u8> {
        encode(&self.hdr)
    }
}

/// An empty histogram of ns up to [`HIGHEST_NS`] with `digits` significant digits.
pub(crate) fn empty(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_NS, digits)
        .expect("the bounds are constants that the library accepts")
}

/// A dense histogram as its V2 encoding, in serde's terms.
mod hdr_v2 {
    use hdrhistogram::Histogram;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(hdr: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
        super::encode(hdr).serialize(to)
    }

    /// One of the layout that all latencies have.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
        let read = super::decode(&Vec::<u8>::deserialize(from)?).map_err(D::Error::custom)?;
        let mut out = super::empty(super::DIGITS);
        if (read.sigfig(), read.high()) != (out.sigfig(), out.high()) {
            return Err(D::Error::custom("a histogram has other bounds or digits"));
        }
        super::add(&mut out, &read);
        Ok(out)
    }
}

/// Add a histogram of the same layout.
pub(crate) fn add(into: &mut Histogram<u64>, other: &Histogram<u64>) {
    into.add(other)
        .expect("histograms of one layout always add up");
}

pub(crate) fn encode(hdr: &Histogram<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    V2Serializer::new()
        .serialize(hdr, &mut out)
        .expect("writing to memory does not fail");
    out
}

/// A histogram from its V2 encoding, whoever wrote it. Its size is bounded by the layout that is
/// accepted, not by what the bytes claim.
pub fn decode(bytes: &[u8]) -> Result<Histogram<u64>, InvalidArgument> {
    let broken =
        |what: &str| InvalidArgument(format!("not an HDR histogram in the V2 encoding: {what}"));
    if bytes.len() < V2_HEADER_BYTES || bytes[..4] != V2_COOKIE {
        return Err(broken("its first bytes are others"));
    }
    let word = |at: usize| {
        bytes[at..]
            .iter()
            .take(8)
            .fold(0, |n, b| n << 8 | u64::from(*b))
    };
    if word(4) >> 32 != (bytes.len() - V2_HEADER_BYTES) as u64 {
        return Err(broken("its length differs from what it says"));
    }
    let (digits, low, high) = (word(12) >> 32, word(16), word(24));
    if !(1..=4).contains(&digits) || low == 0 || high > 1 << 50 {
        return Err(broken("its bounds are out of reason"));
    }
    check_counts(&bytes[V2_HEADER_BYTES..]).map_err(broken)?;
    Deserializer::new()
        .deserialize(&mut &bytes[..])
        .map_err(|error| broken(&error.to_string()))
}

/// Read the counts once without keeping them: the library trusts sums that can overflow.
fn check_counts(bytes: &[u8]) -> Result<(), &'static str> {
    let (mut total, mut at) = (0u64, 0);
    while at < bytes.len() {
        let (mut value, mut length) = (0u64, 0);
        loop {
            let byte = *bytes.get(at + length).ok_or("it ends within a number")?;
            let last = length == 8; // the ninth byte carries eight bits
            let bits = if last { byte } else { byte & 0x7f };
            value |= u64::from(bits) << (7 * length);
            length += 1;
            if last || byte < 0x80 {
                break;
            }
        }
        at += length;
        let magnitude = (value >> 1) + (value & 1);
        // Odd is negative: a run of empty buckets, of which no layout has as many as this.
        if value & 1 == 1 && magnitude > 1 << 24 {
            return Err("it skips more buckets than exist");
        }
        if value & 1 == 0 {
            total = total.saturating_add(magnitude);
        }
        if total > MOST_SAMPLES {
            return Err("it counts more samples than can be");
        }
    }
    Ok(())
}

/// One histogram, encoded, of all samples of the encoded parts.
pub fn merge_encoded<'a>(
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, InvalidArgument> {
    let mut whole = empty(DIGITS);
    for part in parts {
        whole.add(decode(part)?).map_err(|error| {
            InvalidArgument(format!("a histogram reaches beyond 100 s: {error}"))
        })?;
    }
    Ok(encode(&whole))
}

/// The non-empty buckets as (upper bound in ns, count).
pub fn buckets(hdr: &Histogram<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
    hdr.iter_recorded().map(|step| {
        (
            hdr.highest_equivalent(step.value_iterated_to()),
            step.count_at_value(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(samples: &[u64]) -> Latencies {
        let mut out = Latencies::default();
        samples.iter().for_each(|ns| out.record(*ns));
        out
    }

    #[test]
    fn what_lasts_longer_than_100_s_saturates_and_is_counted() {
        let seen = of(&[1, HIGHEST_NS, HIGHEST_NS + 1, u64::MAX]);
        assert_eq!((seen.count(), seen.saturated()), (4, 2));
        assert_eq!(seen.max_ns(), Some(u64::MAX));
        let p = seen.quantile_ns(1.0).unwrap();
        assert!((HIGHEST_NS..HIGHEST_NS + HIGHEST_NS / 1000).contains(&p));
    }

    #[test]
    fn nothing_recorded_has_no_figures() {
        let none = Latencies::default();
        assert_eq!((none.mean_ns(), none.quantile_ns(0.5)), (None, None));
    }

    proptest! {
        #[test]
        fn quantiles_are_exact_to_three_digits(
            mut samples in prop::collection::vec(0u64..HIGHEST_NS, 1..300),
            quantile in 0.0f64..=1.0,
        ) {
            let seen = of(&samples).quantile_ns(quantile).unwrap();
            samples.sort_unstable();
            let rank = (quantile * samples.len() as f64).ceil().max(1.0) as usize;
            let exact = samples[rank - 1];
            // The quantile 0 is the lower bound of its bucket, every other one the upper.
            prop_assert!(seen.abs_diff(exact) * 1000 <= exact, "{seen} for {exact}");
        }

        #[test]
        fn encoding_and_merging_lose_nothing(
            parts in prop::collection::vec(prop::collection::vec(0u64..2 * HIGHEST_NS, 0..50), 0..5)
        ) {
            let encoded: Vec<_> = parts.iter().map(|part| of(part).encode()).collect();
            let merged = merge_encoded(encoded.iter().map(Vec::as_slice)).unwrap();
            prop_assert_eq!(&merged, &of(&parts.concat()).encode());
            let total: u64 = buckets(&decode(&merged).unwrap()).map(|(_, count)| count).sum();
            prop_assert_eq!(total, parts.concat().len() as u64);
        }

        #[test]
        fn foreign_bytes_are_refused_or_read_but_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            digits in 0u8..7, high in any::<u64>(), honest in any::<bool>(),
        ) {
            if honest && bytes.len() >= V2_HEADER_BYTES {
                let payload = (bytes.len() - V2_HEADER_BYTES) as u32;
                bytes[..4].copy_from_slice(&V2_COOKIE);
                bytes[4..8].copy_from_slice(&payload.to_be_bytes());
                bytes[8..16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, digits]);
                bytes[16..24].copy_from_slice(&1u64.to_be_bytes());
                bytes[24..32].copy_from_slice(&(high >> 14).to_be_bytes());
                bytes[32..40].copy_from_slice(&1f64.to_be_bytes());
            }
            if let Ok(hdr) = decode(&bytes) {
                let total: u64 = buckets(&hdr).map(|(_, count)| count).sum();
                prop_assert_eq!(total, hdr.len());
                hdr.value_at_quantile(0.5);
            }
        }
    }
}
