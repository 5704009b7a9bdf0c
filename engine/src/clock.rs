//! Instants and processor time, as Python sees them.

use rustix::time::{clock_gettime, ClockId};

/// Nanoseconds of CLOCK_MONOTONIC: `time.perf_counter_ns` of Python.
pub fn now_ns() -> i64 {
    nanoseconds(ClockId::Monotonic)
}

/// Processor time that the calling thread has used.
pub fn thread_cpu_ns() -> i64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
