//! Where the client runs, and how it waits for the next arrival.

use rustix::thread::{sched_setaffinity, CpuSet};
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    Timespec,
};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::unix::AsyncFd;

use crate::clock::now_ns;
use crate::invalid_argument::InvalidArgument;

/// Keep the calling thread on a core.
pub fn pin(core: usize) -> Result<(), InvalidArgument> {
    let refused = |what: String| InvalidArgument(format!("core {core} cannot be had: {what}"));
    if core >= CpuSet::MAX_CPU {
        return Err(refused("there are not so many".into()));
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(|error| refused(error.to_string()))
}

/// Before an instant by so much the timer of the runtime, whose ticks are milliseconds, is left.
const NEAR_NS: i64 = 2_000_000;

/// Wait until an instant that is near.
pub async fn until(instant: i64) {
    let far_ns = instant - now_ns() - NEAR_NS;
    if far_ns > 0 {
        tokio::time::sleep(Duration::from_nanos(far_ns as u64)).await;
    }
    while now_ns() < instant {
        tokio::task::yield_now().await;
    }
}

/// Waits for instants: in a timer of the kernel's, or in a loop that lets others run.
pub enum Waiter {
    Timer(AsyncFd<OwnedFd>),
    Dedicated,
}

impl Waiter {
    pub fn new(dedicated: bool) -> std::io::Result<Self> {
        if dedicated {
            return Ok(Self::Dedicated);
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: an OwnedFd names one descriptor, which is open until it is dropped, and nobody
        // else has this one: what is registered and deregistered is the same open file.
        let timer = unsafe { AsyncFd::register(timer)? };
        Ok(Self::Timer(timer))
    }

    /// Wait until the instant is reached.
    pub async fn until(&self, instant: i64) -> std::io::Result<()> {
        match self {
            Self::Dedicated => {
                while now_ns() < instant {
                    tokio::task::yield_now().await;
                }
            }
            Self::Timer(timer) => {
                let zero = Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                let at = Timespec {
                    tv_sec: instant / 1_000_000_000,
                    tv_nsec: instant % 1_000_000_000,
                };
                let setting = Itimerspec {
                    it_interval: zero,
                    it_value: at,
                };
                timerfd_settime(timer.get_ref(), TimerfdTimerFlags::ABSTIME, &setting)?;
                while now_ns() < instant {
                    let mut ready = timer.readable().await?;
                    // Setting the timer again takes the expiry back: nothing has to be read.
                    ready.clear_ready();
                }
            }
        }
        Ok(())
    }
}
