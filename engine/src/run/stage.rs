//! One stage on one thread: its loops, what they share, and its end.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::{spawn_local, JoinHandle};

use crate::clock::{now_ns, thread_cpu_ns};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::Protocol;
use crate::random::derive;
use crate::run::arrival::Arrival;
use crate::run::backlog::Backlog;
use crate::run::class_record::ClassRecord;
use crate::run::connection::{Sender, BACKOFF_NS};
use crate::run::connection_pool::ConnectionPool;
use crate::run::in_flight::InFlight;
use crate::run::outcome::StageOutcome;
use crate::run::plan::{part, Limit, Pace, Plan, Source};
use crate::run::request_log::Times;
use crate::run::request_order::{Cursor, Mix};
use crate::run::turns::Turn;
use crate::run::{Control, Shared, TICK};

/// Which stage it is, and on which thread.
#[derive(Clone, Copy)]
pub struct Place {
    thread: usize,
    /// 0: the warm-up; 1: what is measured.
    number: usize,
    /// Where that is taken in turns.
    turn: Option<Turn>,
}

impl Place {
    pub fn of_stage(thread: usize, number: usize) -> Self {
        let turn = None;
        Self {
            thread,
            number,
            turn,
        }
    }

    pub fn of_turn(thread: usize, turn: Turn) -> Self {
        Self {
            thread,
            number: 1,
            turn: Some(turn),
        }
    }

    fn limit(&self, plan: &Plan) -> Limit {
        match self.turn {
            Some(turn) => Limit {
                duration_ns: Some(turn.length_ns),
                count: None,
            },
            None => [plan.warmup, plan.limit][self.number],
        }
    }
}

/// A source with a schedule, on one thread: its number, its arrivals with their seed, the classes
/// drawn from, and how many requests are left.
pub struct OpenSource {
    pub at: usize,
    pub arrival: Arrival,
    pub in_flight: usize,
    pub seed: u64,
    pub mix: Rc<RefCell<Mix>>,
    pub left: Rc<Cell<u64>>,
}

/// What the loops of a thread share while a stage lasts.
pub struct Stage<P: Protocol> {
    pub shared: Arc<Shared<P>>,
    place: Place,
    limit: Limit,
    pub pool: Rc<ConnectionPool<P>>,
    pub start: i64,
    /// Nothing is sent from here on.
    pub end: i64,
    cursors: RefCell<Vec<Cursor>>,
    records: RefCell<Vec<ClassRecord>>,
    in_flight: InFlight,
    last_done: Cell<i64>,
    /// From the start until each client of a closed loop had its last answer, added up.
    busy_ns: Cell<i64>,
    /// Loops that may still send.
    loops: Cell<usize>,
    changed: Notify,
    fault: RefCell<Option<InvalidArgument>>,
    halted: Cell<bool>,
    pub tasks: RefCell<Vec<JoinHandle<()>>>,
    /// Arrivals that clients have been given and not begun with.
    pub handed: Cell<u64>,
    pub unsent: Cell<u64>,
    pub in_flight_limit_hits: Cell<u64>,
    /// Where there is a schedule and an end.
    backlog: RefCell<Option<Backlog>>,
}

/// The sources of a stage with the loops that each has on a thread.
pub fn sources<P: Protocol>(
    shared: &Shared<P>,
    number: usize,
    thread: usize,
) -> impl Iterator<Item = (usize, &Source, usize)> {
    let plan = &shared.plan;
    let active = move |source: &Source| number == 1 || !plan.is_once(source);
    let loops = move |source: &Source| match &source.pace {
        Pace::Closed { clients } => part(*clients, plan.all_threads(), plan.number_of(thread)),
        Pace::Open { .. } => 1,
    };
    plan.sources
        .iter()
        .enumerate()
        .filter(move |(_, source)| active(source))
        .map(move |(at, source)| (at, source, loops(source)))
}

impl<P: Protocol> Stage<P> {
    pub fn new(
        shared: Arc<Shared<P>>,
        pool: Rc<ConnectionPool<P>>,
        place: Place,
        start: i64,
        cursors: Option<Vec<Cursor>>,
    ) -> Result<Self, InvalidArgument> {
        let plan = &shared.plan;
        let limit = place.limit(plan);
        let Place { thread, number, .. } = place;
        let cursor = |(class, ring): (usize, &Vec<_>)| {
            let seed = derive(plan.seed, 2 * class as u64 + number as u64);
            let once = plan.classes[class].once;
            let threads = plan.threads_that_send(class);
            Cursor::new(ring.len(), once, seed, plan.number_of(thread), threads)
        };
        let anew = || shared.rings.iter().enumerate().map(cursor).collect();
        let cursors = cursors.unwrap_or_else(anew);
        let record = |class| ClassRecord::new(class, plan.window_ns, start);
        let records = plan.classes.iter().map(record).collect::<Result<_, _>>()?;
        let in_flight = InFlight::default();
        in_flight.at.set(start);
        let open = |source: &Source| matches!(source.pace, Pace::Open { .. });
        let length = limit.duration_ns.filter(|_| plan.sources.iter().any(open));
        let backlog = length.map(|length| Backlog::new(start, length));
        Ok(Self {
            place,
            limit,
            pool,
            start,
            end: limit
                .duration_ns
                .map_or(i64::MAX, |d| start.saturating_add(d)),
            cursors: RefCell::new(cursors),
            records: RefCell::new(records),
            in_flight,
            last_done: Cell::new(start),
            busy_ns: Cell::new(0),
            loops: Cell::new(0),
            changed: Notify::new(),
            fault: RefCell::default(),
            halted: Cell::new(false),
            tasks: RefCell::default(),
            handed: Cell::new(0),
            unsent: Cell::new(0),
            in_flight_limit_hits: Cell::new(0),
            backlog: RefCell::new(backlog),
            shared,
        })
    }

    /// Run every loop to its end, and wait for what is in flight then. `open` is the loop of a
    /// source with a schedule.
    pub async fn run<F>(
        self: Rc<Self>,
        control: &Control,
        open: impl Fn(Rc<Self>, OpenSource) -> F,
    ) -> Result<StageOutcome, InvalidArgument>
    where
        F: Future<Output = ()> + 'static,
    {
        let (cpu, opened) = (thread_cpu_ns(), self.pool.opened());
        let mut published = Published::default();
        self.spawn(open);
        let mut drained_at = None;
        loop {
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
            if self.place.number == 1 {
                self.publish(control, &mut published);
            }
            let idle = self.loops.get() == 0;
            if idle && drained_at.is_none() {
                drained_at = Some(now_ns() + self.shared.plan.drain_ns);
            }
            let late = drained_at.is_some_and(|at| now_ns() >= at);
            let broken = self.shared.broken.load(Relaxed) || self.fault.borrow().is_some();
            if late || broken || control.is_cancelled() || self.is_settled() {
                break;
            }
        }
        let cpu_ns = thread_cpu_ns() - cpu;
        self.halted.set(true);
        self.in_flight.change(now_ns(), self.in_flight.now.get());
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        tasks.iter().for_each(JoinHandle::abort);
        for task in tasks {
            let _ = task.await;
        }
        if let Some(fault) = self.fault.borrow_mut().take() {
            return Err(fault);
        }
        Ok(StageOutcome {
            records: self.records.take(),
            started: self.start,
            last_done: self.last_done.get(),
            busy_ns: self.busy_ns.get(),
            cursors: self.cursors.take(),
            cpu_ns,
            unsent: self.unsent.get() + self.handed.get(),
            in_flight_limit_hits: self.in_flight_limit_hits.get(),
            peak_in_flight: self.in_flight.peak.get(),
            in_flight_ns: self.in_flight.area.get(),
            reconnects: self.pool.opened() - opened,
            backlog: self.backlog.take(),
        })
    }

    fn spawn<F>(self: &Rc<Self>, open: impl Fn(Rc<Self>, OpenSource) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let Place {
            thread,
            number,
            turn,
        } = self.place;
        for (at, source, loops) in sources(&self.shared, number, thread) {
            let count = source.count.filter(|_| number == 1).or(self.limit.count);
            let threads = self.shared.plan.threads_of(source);
            let count =
                count.map(|all| part(all as usize, threads, self.number_of_thread()) as u64);
            let left = Rc::new(Cell::new(count.unwrap_or(u64::MAX)));
            let seed = derive(self.shared.plan.seed, !(2 * at as u64 + number as u64));
            let seed = turn.map_or(seed, |turn| derive(seed, turn.number));
            let mix = match &source.pace {
                // Every thread draws the same for an arrival; clients draw on their own.
                Pace::Open { .. } => Mix::new(&source.mix, seed),
                Pace::Closed { .. } => {
                    Mix::new(&source.mix, derive(seed, self.number_of_thread() as u64))
                }
            };
            let mix = Rc::new(RefCell::new(mix));
            let passes = source.passes_ns.filter(|_| number == 1);
            let whole = passes.map_or(i64::MAX, |after| self.start.saturating_add(after));
            for client in 0..loops {
                let guard = Loop::begin(self.clone(), source.background);
                let (stage, left, mix) = (self.clone(), left.clone(), mix.clone());
                let handle = match &source.pace {
                    Pace::Closed { .. } => spawn_local(async move {
                        stage.crowd(at, loops, client);
                        stage
                            .closed(Sender::new(stage.pool.of(at, client)), &left, &mix, whole)
                            .await;
                        drop(guard);
                    }),
                    Pace::Open { arrival, in_flight } => {
                        let source = OpenSource {
                            at,
                            arrival: arrival.clone(),
                            in_flight: *in_flight,
                            seed: derive(seed, 1),
                            mix,
                            left,
                        };
                        let work = open(stage, source);
                        spawn_local(async move {
                            work.await;
                            drop(guard);
                        })
                    }
                };
                self.tasks.borrow_mut().push(handle);
            }
        }
        // A stage without loops ends at once.
        self.changed.notify_one();
    }

    /// Of a source's clients, those beyond what its connections carry wait for one another.
    fn crowd(&self, source: usize, clients: usize, client: usize) {
        if client == 0 {
            let beyond = clients.saturating_sub(self.pool.room(source));
            self.in_flight_limit_hits
                .set(self.in_flight_limit_hits.get() + beyond as u64);
        }
    }

    /// One client: the next request is sent when the last was answered. No pass is begun from
    /// `whole` on.
    async fn closed(
        &self,
        mut sender: Sender<P>,
        left: &Cell<u64>,
        mix: &RefCell<Mix>,
        whole: i64,
    ) {
        while !self.is_over() && now_ns() < self.end && left.get() > 0 {
            let class = mix.borrow_mut().draw();
            if self.cursors.borrow()[class].begins_pass() && now_ns() >= whole {
                break;
            }
            left.set(left.get() - 1);
            let Some(index) = self.next(class) else {
                break;
            };
            if !self.serve(&mut sender, class, index, None).await {
                let backoff = std::time::Duration::from_nanos(BACKOFF_NS as u64);
                tokio::time::sleep(backoff).await;
            }
        }
        let busy_ns = (now_ns() - self.start).max(0);
        self.busy_ns.set(self.busy_ns.get() + busy_ns);
    }

    /// Its thread's number among those of all machines.
    pub fn number_of_thread(&self) -> usize {
        self.shared.plan.number_of(self.place.thread)
    }

    /// The next request of a class.
    pub fn next(&self, class: usize) -> Option<usize> {
        self.cursors.borrow_mut()[class].advance()
    }

    /// Nobody waits for this thread's requests any more.
    pub fn is_over(&self) -> bool {
        self.halted.get() || self.shared.busy[self.place.number].load(Relaxed) == 0
    }

    /// Nothing will be sent, and nothing is in flight.
    fn is_settled(&self) -> bool {
        self.loops.get() == 0 && self.handed.get() == 0 && self.in_flight.now.get() == 0
    }

    /// An arrival of a schedule is due, whether it is sent or not.
    pub fn due(&self, at: i64) {
        if let Some(backlog) = &mut *self.backlog.borrow_mut() {
            backlog.due(at);
        }
    }

    /// End the stage, and the run with it.
    pub fn end_at_fault(&self, fault: InvalidArgument) {
        self.fault.borrow_mut().get_or_insert(fault);
        self.changed.notify_one();
    }

    /// Send one request and write down what became of it. `intended` is when it was due; without
    /// it the request is due when there is a connection. False when there was none to be had.
    pub async fn serve(
        &self,
        sender: &mut Sender<P>,
        class: usize,
        index: usize,
        intended: Option<i64>,
    ) -> bool {
        let plan = &self.shared.plan;
        let request = &self.shared.rings[class][index];
        let mut sent = now_ns();
        self.records.borrow_mut()[class].issued += 1;
        self.in_flight.change(sent, self.in_flight.now.get() + 1);
        let mut outcome = Ok(());
        if !sender.is_ready() {
            outcome = sender.connect(plan.timeout_ns).await;
            if outcome.is_ok() {
                sent = now_ns();
            }
        }
        let connected = outcome.is_ok();
        let scheduled = intended.is_some();
        let intended = intended.unwrap_or(sent);
        let lag = (sent - intended).max(0) as u64;
        self.records.borrow_mut()[class].lag.record(lag);
        if connected {
            outcome = sender.call(request, sent + plan.timeout_ns).await;
        }
        let done = now_ns();
        let times = Times {
            intended,
            sent,
            done,
        };
        self.in_flight.change(done, self.in_flight.now.get() - 1);
        if let (true, Some(backlog)) = (scheduled, &mut *self.backlog.borrow_mut()) {
            backlog.done(done);
        }
        self.last_done.set(done.max(self.last_done.get()));
        let mut records = self.records.borrow_mut();
        let written = records[class].finish(index, request, times, outcome, &sender.answer);
        drop(records);
        if let Err(fault) = written {
            self.end_at_fault(fault);
        }
        if self.is_settled() {
            self.changed.notify_one();
        }
        connected
    }

    fn publish(&self, control: &Control, before: &mut Published) {
        let (mut issued, mut answered, mut errors) = (0, 0, 0);
        for record in self.records.borrow().iter() {
            let failed = record.recorder.errors();
            issued += record.issued;
            answered += record.recorder.samples() - failed;
            errors += failed;
        }
        control.issued.fetch_add(issued - before.counts.0, Relaxed);
        control
            .answered
            .fetch_add(answered - before.counts.1, Relaxed);
        control.errors.fetch_add(errors - before.counts.2, Relaxed);
        before.counts = (issued, answered, errors);
        let second = (now_ns() - self.start) / self.shared.plan.window_ns as i64;
        for over in before.second.max(second - 4)..second {
            let records = self.records.borrow();
            let window = |record: &ClassRecord| record.recorder.window(over as u64);
            control.show(over as u64, records.iter().map(window).collect());
        }
        before.second = second;
    }
}

/// What the caller has been told so far.
#[derive(Default)]
struct Published {
    /// (issued, answered, errors)
    counts: (u64, u64, u64),
    second: i64,
}

/// A loop that may send. However it ends, its stage hears of it.
struct Loop<P: Protocol> {
    stage: Rc<Stage<P>>,
    background: bool,
}

impl<P: Protocol> Loop<P> {
    fn begin(stage: Rc<Stage<P>>, background: bool) -> Self {
        stage.loops.set(stage.loops.get() + 1);
        Self { stage, background }
    }
}

impl<P: Protocol> Drop for Loop<P> {
    fn drop(&mut self) {
        let stage = &self.stage;
        if std::thread::panicking() {
            stage.end_at_fault(InvalidArgument("a client task panicked".into()));
        }
        if !self.background {
            stage.shared.busy[stage.place.number].fetch_sub(1, Relaxed);
        }
        stage.loops.set(stage.loops.get() - 1);
        stage.changed.notify_one();
    }
}
