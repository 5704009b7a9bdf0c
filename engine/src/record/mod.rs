//! What a phase records: latencies, windows of time, failures and recall.

pub mod failures;
pub mod histogram;
pub mod recall;
pub mod recorder;
pub mod windows;
