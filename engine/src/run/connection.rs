//! Connections that are replaced when they break, and the senders that use them.

use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{sleep, Instant, Sleep};

use crate::clock::now_ns;
use crate::protocol::{Answer, Connection, Failure, Prepared, Protocol, Target};

/// After a connection was refused, nobody tries again for so long; requests that are due
/// meanwhile fail for the same reason.
pub const BACKOFF_NS: i64 = 20_000_000;

/// One connection of a thread, and its successors.
pub struct ConnectionSlot<P: Protocol> {
    protocol: Arc<P>,
    to: Rc<Target>,
    current: RefCell<Option<P::Connection>>,
    generation: Cell<u64>,
    connecting: Mutex<()>,
    refused: RefCell<Option<(i64, Failure)>>,
    /// A request that was not answered in time ends a shared connection, too.
    failover: bool,
    /// Connections opened so far.
    pub opened: Cell<u64>,
}

impl<P: Protocol> ConnectionSlot<P> {
    pub fn new(protocol: Arc<P>, to: Rc<Target>, failover: bool) -> Self {
        Self {
            protocol,
            to,
            failover,
            current: RefCell::new(None),
            generation: Cell::new(0),
            connecting: Mutex::new(()),
            refused: RefCell::new(None),
            opened: Cell::new(0),
        }
    }

    /// A handle on an open connection, made anew where there is none, and its generation.
    pub async fn obtain(&self, timeout_ns: i64) -> Result<(P::Connection, u64), Failure> {
        let _one = self.connecting.lock().await;
        if let Some(handle) = self.handle() {
            return Ok((handle, self.generation.get()));
        }
        if let Some((at, failure)) = &*self.refused.borrow() {
            if now_ns() - at < BACKOFF_NS {
                return Err(failure.clone());
            }
        }
        let limit = Duration::from_nanos(timeout_ns as u64);
        let connected = match tokio::time::timeout(limit, self.protocol.connect(&self.to)).await {
            Ok(connected) => connected,
            Err(_) => Err(Failure::broken("timeout", "connecting took too long")),
        };
        match connected {
            Ok(connection) => {
                self.opened.set(self.opened.get() + 1);
                self.generation.set(self.generation.get() + 1);
                *self.refused.borrow_mut() = None;
                let handle = connection.share();
                let (keep, give) = match handle {
                    Some(handle) => (Some(connection), handle),
                    None => (None, connection),
                };
                *self.current.borrow_mut() = keep;
                Ok((give, self.generation.get()))
            }
            Err(failure) => {
                *self.refused.borrow_mut() = Some((now_ns(), failure.clone()));
                Err(failure)
            }
        }
    }

    /// Leave a connection of one's own for who comes next.
    pub fn give_back(&self, connection: P::Connection) {
        *self.current.borrow_mut() = Some(connection);
    }

    /// How many requests may be in flight on it, as far as is known.
    pub fn room(&self) -> usize {
        let current = self.current.borrow();
        current
            .as_ref()
            .map_or(usize::MAX, |open| open.room().max(1))
    }

    fn handle(&self) -> Option<P::Connection> {
        let mut current = self.current.borrow_mut();
        let open = current
            .take()
            .filter(|connection| !connection.is_closed())?;
        let handle = open.share();
        match handle {
            Some(handle) => {
                *current = Some(open);
                Some(handle)
            }
            None => Some(open),
        }
    }

    /// The connection of that generation is of no use any more.
    fn give_up(&self, generation: u64) {
        if generation == self.generation.get() {
            self.generation.set(generation + 1);
            *self.current.borrow_mut() = None;
        }
    }
}

/// Where one request at a time is sent from, on a connection shared with others or its own.
pub struct Sender<P: Protocol> {
    slot: Rc<ConnectionSlot<P>>,
    held: Option<P::Connection>,
    generation: u64,
    calling: bool,
    alarm: Pin<Box<Sleep>>,
    pub answer: Answer,
}

impl<P: Protocol> Sender<P> {
    pub fn new(slot: Rc<ConnectionSlot<P>>) -> Self {
        Self {
            slot,
            held: None,
            generation: 0,
            calling: false,
            alarm: Box::pin(sleep(Duration::ZERO)),
            answer: Answer::default(),
        }
    }

    /// A request can be sent at once.
    pub fn is_ready(&self) -> bool {
        let open = |held: &P::Connection| !held.is_closed();
        self.generation == self.slot.generation.get() && self.held.as_ref().is_some_and(open)
    }

    /// Get hold of an open connection.
    pub async fn connect(&mut self, timeout_ns: i64) -> Result<(), Failure> {
        self.held = None;
        let (handle, generation) = self.slot.obtain(timeout_ns).await?;
        (self.held, self.generation) = (Some(handle), generation);
        Ok(())
    }

    /// Send, and read the answer into `self.answer`, until the instant `deadline`.
    pub async fn call(&mut self, request: &Prepared, deadline: i64) -> Result<(), Failure> {
        let Some(connection) = &mut self.held else {
            return Err(Failure::new("reset", "there is no connection"));
        };
        self.answer.clear();
        self.calling = true;
        let call = connection.call(request, &mut self.answer);
        let outcome = until(&mut self.alarm, deadline, call).await;
        self.calling = false;
        let outcome = outcome.unwrap_or_else(|| {
            let late = Failure::new("timeout", "no answer in the time given");
            // What comes late must not be taken for the answer to the next request.
            Err(Failure {
                broken: !P::SHARED || self.slot.failover,
                ..late
            })
        });
        if outcome.as_ref().is_err_and(|failure| failure.broken) {
            self.slot.give_up(self.generation);
            self.held = None;
        }
        outcome
    }
}

impl<P: Protocol> Drop for Sender<P> {
    /// A connection of one's own is left for who comes next, unless an answer may still come.
    fn drop(&mut self) {
        if let (false, false, Some(connection)) = (P::SHARED, self.calling, self.held.take()) {
            self.slot.give_back(connection);
        }
    }
}

/// The output of `future`, or None at the instant `deadline`. The alarm is set anew only when it
/// goes off: most requests cost no timer.
async fn until<T>(
    alarm: &mut Pin<Box<Sleep>>,
    deadline: i64,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        while alarm.as_mut().poll(cx).is_ready() {
            let left = deadline - now_ns();
            if left <= 0 {
                return Poll::Ready(None);
            }
            alarm
                .as_mut()
                .reset(Instant::now() + Duration::from_nanos(left as u64));
        }
        Poll::Pending
    })
    .await
}
