//! Many requests in flight on one connection. A task of its own writes all that has been said
//! since it last ran in one go, and reads as many replies as have come in one go: what makes a
//! request cheap is that requests share system calls.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::rc::Rc;
use std::task::{ready, Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::{ended, garbage, make_room, Decode, Open, Opened, Reader, Scan};
use crate::protocol::{Answer, Connection, Failure, Operation, Prepared};
use crate::transport::tcp::Stream;

/// Replies owed at most; a server that owes so many is gone.
const MOST_OWED: usize = 1 << 20;

/// A handle on a connection.
pub struct Pipelined<D> {
    owner: Rc<Owner<D>>,
    slot: Rc<Slot>,
}

/// When the last handle is gone, the connection is closed.
struct Owner<D>(Rc<Pipe<D>>);

struct Pipe<D> {
    decoder: D,
    /// Said, and not written yet.
    out: RefCell<Vec<u8>>,
    /// Who waits for replies, in the order they come.
    owed: RefCell<VecDeque<Owed>>,
    driver: RefCell<Option<Waker>>,
    finished: Cell<bool>,
    closed: Cell<bool>,
}

struct Owed {
    slot: Rc<Slot>,
    operation: Operation,
    rows: usize,
    scan: Scan,
}

/// Where a request's answer is put.
#[derive(Default)]
struct Slot {
    answer: RefCell<Answer>,
    outcome: RefCell<Option<Result<(), Failure>>>,
    waker: RefCell<Option<Waker>>,
}

impl<D: Decode> Open<D> for Pipelined<D> {
    const SHARED: bool = true;

    fn new(opened: Opened, decoder: D) -> Self {
        let pipe = Rc::new(Pipe {
            decoder,
            out: RefCell::default(),
            owed: RefCell::default(),
            driver: RefCell::default(),
            finished: Cell::new(false),
            closed: Cell::new(false),
        });
        let mut driver = Driver {
            pipe: pipe.clone(),
            stream: opened.stream,
            inbox: opened.inbox,
            writing: vec![],
            written: 0,
        };
        driver.inbox.clear();
        tokio::task::spawn_local(async move {
            let failure = poll_fn(|cx| driver.poll(cx)).await;
            driver.pipe.fail(&failure);
        });
        Self {
            owner: Rc::new(Owner(pipe)),
            slot: Rc::default(),
        }
    }
}

impl<D: Decode> Connection for Pipelined<D> {
    fn share(&self) -> Option<Self> {
        Some(Self {
            owner: self.owner.clone(),
            slot: Rc::default(),
        })
    }

    fn is_closed(&self) -> bool {
        self.owner.0.closed.get()
    }

    async fn call(&mut self, request: &Prepared, answer: &mut Answer) -> Result<(), Failure> {
        self.owner.0.say(request, &self.slot)?;
        std::mem::swap(&mut *self.slot.answer.borrow_mut(), answer);
        let mut waiting = Waiting {
            slot: &mut self.slot,
            done: false,
        };
        let outcome = poll_fn(|cx| waiting.slot.poll(cx)).await;
        waiting.done = true;
        std::mem::swap(&mut *waiting.slot.answer.borrow_mut(), answer);
        outcome
    }
}

impl Slot {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if let Some(outcome) = self.outcome.borrow_mut().take() {
            return Poll::Ready(outcome);
        }
        keep(&self.waker, cx);
        Poll::Pending
    }

    fn settle(&self, outcome: Result<(), Failure>) {
        *self.outcome.borrow_mut() = Some(outcome);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// Remember whom to wake.
fn keep(place: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    let mut waker = place.borrow_mut();
    match &mut *waker {
        Some(known) => known.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

/// A request whose time runs out leaves its place to the reply that may still come, which must
/// not be taken for the next one's.
struct Waiting<'a> {
    slot: &'a mut Rc<Slot>,
    done: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.done {
            *self.slot = Rc::default();
        }
    }
}

impl<D: Decode> Pipe<D> {
    fn say(&self, request: &Prepared, slot: &Rc<Slot>) -> Result<(), Failure> {
        if self.closed.get() {
            return Err(Failure::broken("reset", "the connection is closed"));
        }
        let mut owed = self.owed.borrow_mut();
        if owed.len() >= MOST_OWED {
            return Err(Failure::broken("timeout", "too many replies are owed"));
        }
        let (operation, rows) = (request.operation, request.rows as usize);
        owed.push_back(Owed {
            slot: slot.clone(),
            operation,
            rows,
            scan: Scan::new(self.decoder.replies(operation, rows)),
        });
        self.out.borrow_mut().extend_from_slice(&request.body);
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        if let Some(waker) = &*self.driver.borrow() {
            waker.wake_by_ref();
        }
    }

    /// The connection is gone: nobody who waits gets an answer.
    fn fail(&self, failure: &Failure) {
        self.closed.set(true);
        for owed in self.owed.take() {
            owed.slot.settle(Err(failure.clone()));
        }
    }
}

impl<D> Drop for Owner<D> {
    fn drop(&mut self) {
        self.0.finished.set(true);
        if let Some(waker) = &*self.0.driver.borrow() {
            waker.wake_by_ref();
        }
    }
}

struct Driver<D> {
    pipe: Rc<Pipe<D>>,
    stream: Stream,
    inbox: BytesMut,
    writing: Vec<u8>,
    written: usize,
}

impl<D: Decode> Driver<D> {
    /// Write and read until the connection ends: why it did.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        keep(&self.pipe.driver, cx);
        if self.pipe.finished.get() {
            return Poll::Ready(Failure::broken("reset", "nobody holds the connection"));
        }
        if let Poll::Ready(Err(error)) = self.write(cx) {
            return Poll::Ready(error.into());
        }
        loop {
            if let Err(failure) = make_room(&mut self.inbox) {
                return Poll::Ready(failure);
            }
            let read = pin!(self.stream.read_buf(&mut self.inbox)).poll(cx);
            let failure = match ready!(read) {
                Ok(0) => ended(self.inbox.is_empty()),
                Ok(_) => match self.deliver() {
                    Ok(()) => continue,
                    Err(failure) => failure,
                },
                Err(error) => error.into(),
            };
            return Poll::Ready(failure);
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        loop {
            if self.written == self.writing.len() {
                self.writing.clear();
                self.written = 0;
                std::mem::swap(&mut self.writing, &mut *self.pipe.out.borrow_mut());
                if self.writing.is_empty() {
                    return Pin::new(&mut self.stream).poll_flush(cx);
                }
            }
            let rest = &self.writing[self.written..];
            self.written += ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
        }
    }

    /// Give every reply that has come to who waits for it.
    fn deliver(&mut self) -> Result<(), Failure> {
        let mut owed = self.pipe.owed.borrow_mut();
        while !self.inbox.is_empty() {
            let Some(first) = owed.front_mut() else {
                return Err(garbage("a reply that nobody asked for"));
            };
            let Some(length) = first.scan.advance(&self.inbox)? else {
                return Ok(());
            };
            let replies = Reader(&self.inbox[..length]);
            let outcome = {
                let mut answer = first.slot.answer.borrow_mut();
                let decoder = &self.pipe.decoder;
                decoder.decode(first.operation, first.rows, replies, &mut answer)
            };
            let broken = outcome
                .as_ref()
                .err()
                .filter(|failure| failure.broken)
                .cloned();
            first.slot.settle(outcome);
            owed.pop_front();
            self.inbox.advance(length);
            if let Some(failure) = broken {
                return Err(failure);
            }
        }
        Ok(())
    }
}
