//! The open loop: a schedule that does not wait for answers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tokio::task::spawn_local;

use crate::clock::now_ns;
use crate::invalid_argument::InvalidArgument;
use crate::protocol::Protocol;
use crate::run::arrival::Schedule;
use crate::run::connection::Sender;
use crate::run::plan::part;
use crate::run::request_order::Mix;
use crate::run::stage::{OpenSource, Stage};
use crate::run::wait::Waiter;

/// So many arrivals that are due are handed over before others may run.
const BURST: usize = 16;

/// The arrivals that one thread takes: every n-th of a schedule that the threads of all machines
/// share.
struct ThreadSchedule {
    schedule: Schedule,
    mix: Rc<RefCell<Mix>>,
    skip: usize,
    threads: usize,
}

impl ThreadSchedule {
    fn new<P: Protocol>(of: OpenSource, stage: &Stage<P>) -> Self {
        Self {
            schedule: Schedule::new(of.arrival, of.seed),
            mix: of.mix,
            skip: stage.number_of_thread(),
            threads: stage.shared.plan.all_threads(),
        }
    }
}

impl Iterator for ThreadSchedule {
    /// (offset from the start in ns, class)
    type Item = (i64, usize);

    fn next(&mut self) -> Option<(i64, usize)> {
        let mut mix = self.mix.borrow_mut();
        for _ in 0..std::mem::replace(&mut self.skip, self.threads - 1) {
            self.schedule.next();
            mix.draw();
        }
        Some((self.schedule.next()?, mix.draw()))
    }
}

#[derive(Clone, Copy)]
struct Job {
    class: usize,
    index: usize,
    intended: i64,
}

/// Where one client finds its next job.
#[derive(Default)]
struct Desk {
    job: Cell<Option<Job>>,
    waker: RefCell<Option<Waker>>,
}

/// Clients come into being as they are needed, and wait for the next job when they are done: no
/// task is spawned per request.
#[derive(Default)]
struct Pool {
    desks: RefCell<Vec<Rc<Desk>>>,
    idle: RefCell<VecDeque<usize>>,
    /// Clients take turns, so that every connection is used, and every node asked.
    turns: bool,
    /// Who waits for one to be idle.
    waiting: RefCell<Option<Waker>>,
}

impl Pool {
    /// Some client's place that has nothing to do: the last that had, whose connection is at hand,
    /// or the first where clients take turns.
    fn next_idle(&self) -> Option<usize> {
        let mut idle = self.idle.borrow_mut();
        if self.turns {
            idle.pop_front()
        } else {
            idle.pop_back()
        }
    }

    async fn idle(&self) -> usize {
        poll_fn(|cx| match self.next_idle() {
            Some(client) => Poll::Ready(client),
            None => {
                *self.waiting.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn hand(&self, client: usize, job: Job) {
        let desk = self.desks.borrow()[client].clone();
        desk.job.set(Some(job));
        let waker = desk.waker.borrow();
        if let Some(waker) = &*waker {
            waker.wake_by_ref();
        }
    }

    fn done(&self, client: usize) {
        self.idle.borrow_mut().push_back(client);
        if let Some(waker) = self.waiting.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl Desk {
    async fn job(&self) -> Job {
        poll_fn(|cx| match self.job.take() {
            Some(job) => Poll::Ready(job),
            None => {
                let mut waker = self.waker.borrow_mut();
                if !waker
                    .as_ref()
                    .is_some_and(|known| known.will_wake(cx.waker()))
                {
                    *waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }
}

/// Send what the schedule of a source says, when it says, until the stage's end.
pub async fn pace<P: Protocol>(stage: Rc<Stage<P>>, open: OpenSource) {
    let (stage, source, in_flight, left) = (&stage, open.at, open.in_flight, open.left.clone());
    let mut schedule = ThreadSchedule::new(open, stage);
    let bound = part(in_flight, schedule.threads, stage.number_of_thread()).max(1);
    let bound = bound.min(stage.pool.room(source));
    let waiter = match Waiter::new(stage.shared.plan.dedicated) {
        Ok(waiter) => waiter,
        Err(error) => return stage.end_at_fault(InvalidArgument(format!("no timer: {error}"))),
    };
    let pool = Rc::new(Pool {
        turns: stage.shared.plan.failover,
        ..Pool::default()
    });
    let mut burst = 0;
    while left.get() > 0 && !stage.is_over() {
        let Some((offset, class)) = schedule.next() else {
            break;
        };
        let due = stage.start.saturating_add(offset);
        if due >= stage.end {
            break;
        }
        let Some(index) = stage.next(class) else {
            break;
        };
        left.set(left.get() - 1);
        stage.due(due);
        if now_ns() < due {
            burst = 0;
            if let Err(error) = waiter.until(due).await {
                return stage.end_at_fault(InvalidArgument(format!("the timer failed: {error}")));
            }
        } else if burst == BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
        burst += 1;
        let Some(client) = client(stage, source, &pool, bound).await else {
            // This one and all that are due after it would be sent after the end.
            let rest = schedule
                .map(|(offset, _)| stage.start.saturating_add(offset))
                .take_while(|due| *due < stage.end)
                .inspect(|due| stage.due(*due));
            stage
                .unsent
                .set(stage.unsent.get() + 1 + rest.count() as u64);
            break;
        };
        let job = Job {
            class,
            index,
            intended: due,
        };
        stage.handed.set(stage.handed.get() + 1);
        pool.hand(client, job);
    }
}

/// A client that has nothing to do; a new one, up to the bound; or None when the stage ends
/// before there is one. Where clients take turns there is one for each connection first.
async fn client<P: Protocol>(
    stage: &Rc<Stage<P>>,
    source: usize,
    pool: &Rc<Pool>,
    bound: usize,
) -> Option<usize> {
    let number = pool.desks.borrow().len();
    if !pool.turns || number >= bound.min(stage.pool.connections(source)) {
        if let Some(client) = pool.next_idle() {
            return Some(client);
        }
    }
    if number < bound {
        let desk = Rc::new(Desk::default());
        pool.desks.borrow_mut().push(desk.clone());
        let (pool, owner) = (pool.clone(), stage.clone());
        let work = async move {
            let mut sender = Sender::new(owner.pool.of(source, number));
            loop {
                let job = desk.job().await;
                let Job {
                    class,
                    index,
                    intended,
                } = job;
                owner.handed.set(owner.handed.get() - 1);
                owner.serve(&mut sender, class, index, Some(intended)).await;
                pool.done(number);
            }
        };
        stage.tasks.borrow_mut().push(spawn_local(work));
        return Some(number);
    }
    stage
        .in_flight_limit_hits
        .set(stage.in_flight_limit_hits.get() + 1);
    let left = stage.end.saturating_sub(now_ns()).max(0) as u64;
    let wait = std::time::Duration::from_nanos(left);
    tokio::time::timeout(wait, pool.idle()).await.ok()
}
