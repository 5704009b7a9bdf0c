//! What happened in each second: bounded in memory, and merged without loss.
//!
//! The window in which samples arrive is a dense histogram; one that is over is kept in the
//! varint encoding (some hundred bytes), from which it comes back when a straggler or another
//! client's window has to be added. Two significant digits are enough to draw a line over time.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::invalid_argument::InvalidArgument;
use crate::record::histogram::{add, decode, empty, encode, HIGHEST_NS};

const DIGITS: u8 = 2;
/// A day of seconds and more: beyond this, times and window width do not belong together.
pub const MOST_WINDOWS: u64 = 100_000;
/// Recall is summed in whole units, so that the order of addition does not show.
const RECALL_ONE: u64 = 1 << 32;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Window {
    count: u64,
    errors: u64,
    max_ns: u64,
    judged: u64,
    recall: u64,
    packed: Vec<u8>,
}

/// One row of [`Windows::rows`]; None where nothing was seen that could tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowRow {
    pub second: u64,
    pub count: u64,
    pub errors: u64,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
    pub recall: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Sealed", try_from = "Sealed")]
pub struct Windows {
    width_ns: u64,
    all: BTreeMap<u64, Window>,
    open: Option<u64>,
    current: Window,
    dense: Histogram<u64>,
}

/// Windows of which none is open: what another process is sent.
#[derive(Serialize, Deserialize)]
struct Sealed {
    width_ns: u64,
    all: BTreeMap<u64, Window>,
}

impl From<Windows> for Sealed {
    fn from(mut windows: Windows) -> Self {
        windows.seal();
        Self {
            width_ns: windows.width_ns,
            all: windows.all,
        }
    }
}

impl TryFrom<Sealed> for Windows {
    type Error = InvalidArgument;

    fn try_from(sealed: Sealed) -> Result<Self, InvalidArgument> {
        let mut out = Self::new(sealed.width_ns)?;
        out.all = sealed.all;
        for window in out.all.values().filter(|one| !one.packed.is_empty()) {
            if decode(&window.packed)?.sigfig() != DIGITS {
                return Err(InvalidArgument(
                    "a window's histogram has other digits".into(),
                ));
            }
        }
        Ok(out)
    }
}

impl Windows {
    pub fn new(width_ns: u64) -> Result<Self, InvalidArgument> {
        if width_ns == 0 {
            return Err(InvalidArgument("a window is at least 1 ns wide".into()));
        }
        let (all, current, dense) = (BTreeMap::new(), Window::default(), empty(DIGITS));
        Ok(Self {
            width_ns,
            all,
            open: None,
            current,
            dense,
        })
    }

    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The window of something that was done so long after the start.
    pub fn index(&self, since_start_ns: u64) -> Result<u64, InvalidArgument> {
        let index = since_start_ns / self.width_ns;
        if index < MOST_WINDOWS {
            return Ok(index);
        }
        Err(InvalidArgument(format!(
            "{} s after the start is more than {MOST_WINDOWS} windows of {} ns",
            since_start_ns / 1_000_000_000,
            self.width_ns
        )))
    }

    pub fn success(&mut self, index: u64, latency_ns: u64, recall: Option<(u32, u32)>) {
        self.switch_to(index);
        self.dense.saturating_record(latency_ns.min(HIGHEST_NS));
        self.current.count += 1;
        self.current.max_ns = self.current.max_ns.max(latency_ns);
        if let Some((part, whole)) = recall {
            self.current.judged += 1;
            self.current.recall += u64::from(part) * RECALL_ONE / u64::from(whole);
        }
    }

    pub fn failure(&mut self, index: u64) {
        self.switch_to(index);
        self.current.errors += 1;
    }

    fn switch_to(&mut self, index: u64) {
        if self.open == Some(index) {
            return;
        }
        self.seal();
        if let Some(before) = self.all.remove(&index) {
            unpack(&before.packed, &mut self.dense);
            self.current = before;
        }
        self.open = Some(index);
    }

    /// Put the open window away, packed.
    fn seal(&mut self) {
        if let Some(index) = self.open.take() {
            let mut window = std::mem::take(&mut self.current);
            window.packed = pack(&self.dense);
            self.dense.reset();
            self.all.insert(index, window);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.seal();
        let mut other = other.clone();
        other.seal();
        for (index, theirs) in other.all {
            let Some(ours) = self.all.get_mut(&index) else {
                self.all.insert(index, theirs);
                continue;
            };
            ours.count += theirs.count;
            ours.errors += theirs.errors;
            ours.max_ns = ours.max_ns.max(theirs.max_ns);
            ours.judged += theirs.judged;
            ours.recall += theirs.recall;
            unpack(&ours.packed, &mut self.dense);
            unpack(&theirs.packed, &mut self.dense);
            ours.packed = pack(&self.dense);
            self.dense.reset();
        }
    }

    /// Every window from the first to the last with samples, or to `end_ns` after the start;
    /// those in which nothing ended are there too, with a count of 0.
    pub fn rows(&mut self, end_ns: Option<u64>) -> Vec<WindowRow> {
        self.seal();
        let ended = end_ns
            .map(|end| end.saturating_sub(1) / self.width_ns)
            .unwrap_or(0);
        let last = self.all.last_key_value().map(|(index, _)| *index);
        let last = match (last, end_ns) {
            (None, None) => return vec![],
            (seen, _) => seen.unwrap_or(0).max(ended.min(MOST_WINDOWS)),
        };
        (0..=last).map(|second| self.row(second)).collect()
    }

    /// One window that is over, alone: it may be merged with others' while these go on.
    pub fn alone(&self, index: u64) -> Option<Self> {
        let window = match self.open {
            // Nothing came since that would have put it away.
            Some(open) if open == index => Window {
                packed: pack(&self.dense),
                ..self.current.clone()
            },
            _ => self.all.get(&index)?.clone(),
        };
        let mut alone = Self::new(self.width_ns).ok()?;
        alone.all.insert(index, window);
        Some(alone)
    }

    /// The row of the last window.
    pub fn last_row(&mut self) -> Option<WindowRow> {
        self.seal();
        let (last, _) = self.all.last_key_value()?;
        Some(self.row(*last))
    }

    fn row(&self, second: u64) -> WindowRow {
        let mut row = WindowRow {
            second,
            ..WindowRow::default()
        };
        let Some(window) = self.all.get(&second) else {
            return row;
        };
        (row.count, row.errors) = (window.count, window.errors);
        if window.count > 0 {
            let mut hdr = empty(DIGITS);
            unpack(&window.packed, &mut hdr);
            // A bucket answers with its upper bound, which may lie above everything recorded.
            let at = |quantile| Some(hdr.value_at_quantile(quantile).min(window.max_ns));
            (row.p50_ns, row.p99_ns, row.max_ns) = (at(0.5), at(0.99), Some(window.max_ns));
        }
        if window.judged > 0 {
            let mean = window.recall as f64 / RECALL_ONE as f64 / window.judged as f64;
            // Each part was rounded down to a unit of 2^-32: nine digits are true.
            row.recall = Some((mean * 1e9).round() / 1e9);
        }
        row
    }
}

fn pack(dense: &Histogram<u64>) -> Vec<u8> {
    if dense.is_empty() {
        return vec![];
    }
    let mut out = encode(dense);
    out.shrink_to_fit();
    out
}

fn unpack(packed: &[u8], into: &mut Histogram<u64>) {
    if !packed.is_empty() {
        add(
            into,
            &decode(packed).expect("these bytes were written by `pack`"),
        );
    }
}
