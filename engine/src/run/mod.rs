//! From a plan to its outcome.
//!
//! Each client core has a thread with a runtime of its own; connections and tasks stay on it, and
//! threads share nothing but the prepared requests and a few counters. A run has two stages over
//! the same connections: warm-up, then measurement.

mod answer_log;
pub mod arrival;
mod backlog;
mod class_record;
mod connection;
mod connection_pool;
mod encode;
mod in_flight;
mod open_loop;
mod outcome;
mod plan;
mod request_log;
mod request_order;
mod stage;
mod turns;
mod wait;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};

use crate::clock::now_ns;
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Prepared, Protocol, Target};
use crate::record::windows::{WindowRow, Windows};
pub use answer_log::AnswerLog;
use connection_pool::ConnectionPool;
use outcome::StageOutcome;
pub use outcome::{ClassOutcome, Outcome};
pub use plan::{Class, Limit, Pace, Plan, Share, Source};
pub use request_log::RequestLog;
use stage::{Place, Stage};
use turns::{Turn, Turns};

/// How often counters are published and a request to stop is looked for.
const TICK: Duration = Duration::from_millis(20);
/// Seconds that are remembered for whoever looks on.
const SECONDS: usize = 8;
/// From the meeting of the threads, or the giving of a turn, to their common start.
const LEAD_NS: i64 = 500_000;

/// What the caller holds while a run is under way.
#[derive(Default)]
pub struct Control {
    cancelled: AtomicBool,
    /// Of the measured stage, at most 20 ms old.
    pub issued: AtomicU64,
    pub answered: AtomicU64,
    pub errors: AtomicU64,
    /// When the measured stage began; 0 before.
    pub started_ns: AtomicI64,
    /// The last seconds that are over, each of all classes.
    live: Mutex<BTreeMap<u64, Second>>,
    threads: AtomicUsize,
    /// Warmed up, the threads wait for the caller to name the instant of their start.
    held: AtomicBool,
    ready: AtomicBool,
    /// That instant; 0 until it is named.
    begin_ns: AtomicI64,
    /// When the last thread began to measure.
    pub began_ns: AtomicI64,
    /// Where the measured stage is taken in turns.
    pub turns: Turns,
}

/// What the threads have told of one second.
#[derive(Debug, Default)]
struct Second {
    threads: usize,
    classes: Vec<Option<Windows>>,
}

impl Control {
    /// End the run within some 20 ms; its outcome is what was recorded until then.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
        self.turns.end();
    }

    /// Have the run wait for [`Control::begin`] before it measures.
    pub fn hold(&self) {
        self.held.store(true, Relaxed);
    }

    /// A held run has connected and warmed up, and waits.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Relaxed)
    }

    /// Start the measured stage of a held run at this instant.
    pub fn begin(&self, at_ns: i64) {
        self.begin_ns.store(at_ns, Relaxed);
    }

    /// Ready when the run was cancelled.
    async fn stopped(&self) {
        while !self.is_cancelled() {
            tokio::time::sleep(TICK).await;
        }
    }

    /// What one thread's classes did in a second that is over.
    fn show(&self, second: u64, theirs: Vec<Option<Windows>>) {
        let Ok(mut live) = self.live.lock() else {
            return;
        };
        let ours = live.entry(second).or_default();
        ours.threads += 1;
        ours.classes.resize(theirs.len(), None);
        for (ours, theirs) in ours.classes.iter_mut().zip(theirs) {
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => ours.merge(&theirs),
                (ours @ None, theirs) => *ours = theirs,
                (Some(_), None) => {}
            }
        }
        // Threads are never further apart than that, unless one has ended.
        while live.len() > SECONDS {
            live.pop_first();
        }
    }

    /// What each class did in the last second of which all threads have told.
    pub fn last_second(&self, classes: usize) -> Vec<Option<WindowRow>> {
        let Ok(live) = self.live.lock() else {
            return vec![None; classes];
        };
        let threads = self.threads.load(Relaxed);
        let whole = |second: &&Second| second.threads == threads;
        let row = |one: &Option<Windows>| one.clone().and_then(|mut one| one.last_row());
        let last = live.values().rev().find(whole);
        let rows = last
            .into_iter()
            .flat_map(|last| last.classes.iter().map(row));
        rows.chain(std::iter::repeat(None)).take(classes).collect()
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
}

/// What the threads of a run share.
struct Shared<P> {
    protocol: Arc<P>,
    target: Target,
    /// Of each source: its connections go to no other node.
    only_first: Vec<bool>,
    plan: Plan,
    /// The requests of each class.
    rings: Vec<Vec<Prepared>>,
    /// Of each stage: loops that it waits for, threads that are ready for it, and its start.
    busy: [AtomicUsize; 2],
    ready: [AtomicUsize; 2],
    starts: [AtomicI64; 2],
    /// A thread has failed: nobody waits for it.
    broken: AtomicBool,
    /// What threads have seen in the current turn.
    handed_in: Mutex<Vec<Vec<StageOutcome>>>,
}

/// Encode everything, connect, warm up, measure. Blocks until done. What is measured in turns is handed
/// in turn by turn: then there is nothing left at the end.
pub fn run<P: Protocol>(
    target: Target,
    mut plan: Plan,
    control: &Control,
) -> Result<Option<Outcome>, InvalidArgument> {
    plan.check()?;
    let only_first = only_first::<P>(&target, &plan)?;
    let protocol = Arc::new(P::new(target.clone())?);
    let rings = encode::rings(&protocol, &mut plan.classes, control)?;
    control.threads.store(plan.threads, Relaxed);
    let shared = Arc::new(Shared {
        protocol,
        target,
        only_first,
        plan,
        rings,
        busy: Default::default(),
        ready: Default::default(),
        starts: Default::default(),
        broken: AtomicBool::new(false),
        handed_in: Mutex::default(),
    });
    for number in 0..shared.busy.len() {
        shared.expect_loops(number);
    }
    let seen = std::thread::scope(|scope| {
        let start = |thread| {
            let shared = shared.clone();
            scope.spawn(move || client_thread(&shared, thread, control))
        };
        let spawned: Vec<_> = (0..shared.plan.threads).map(start).collect();
        let panicked =
            |_| InvalidArgument("a client thread panicked; standard error says where".into());
        let join =
            |handle: std::thread::ScopedJoinHandle<'_, _>| handle.join().map_err(panicked)?;
        let joined: Vec<Result<_, _>> = spawned.into_iter().map(join).collect();
        joined.into_iter().collect::<Result<Vec<_>, _>>()
    })?;
    if control.turns.are_wanted() {
        return Ok(None);
    }
    let plan = &shared.plan;
    let length_ns = plan.limit.duration_ns;
    outcome::merge(plan, length_ns, seen.into_iter(), control.is_cancelled()).map(Some)
}

impl<P: Protocol> Shared<P> {
    /// A stage is about to begin, which waits for all its foreground loops.
    fn expect_loops(&self, number: usize) {
        let loops = (0..self.plan.threads)
            .flat_map(|thread| stage::sources(self, number, thread))
            .filter(|(_, source, _)| !source.background)
            .map(|(_, _, loops)| loops);
        self.busy[number].store(loops.sum(), Relaxed);
    }

    /// What a thread has seen in a turn. With that of the last thread the turn is over, and the next
    /// one may be given.
    fn hand_in(
        &self,
        seen: Vec<StageOutcome>,
        turn: Turn,
        control: &Control,
    ) -> Result<(), InvalidArgument> {
        let mut handed_in = self
            .handed_in
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        handed_in.push(seen);
        if handed_in.len() == self.plan.threads {
            self.expect_loops(1);
            let (length_ns, all) = (Some(turn.length_ns), std::mem::take(&mut *handed_in));
            let cancelled = control.is_cancelled();
            let outcome = outcome::merge(&self.plan, length_ns, all.into_iter(), cancelled)?;
            control.turns.hand_in(outcome);
        }
        Ok(())
    }
}

/// Whether the connections of each source go to the first node alone: it writes, and that is the one
/// that takes writes.
fn only_first<P: Protocol>(target: &Target, plan: &Plan) -> Result<Vec<bool>, InvalidArgument> {
    let writes = |source: &Source| {
        let mut classes = source.mix.iter().map(|(class, _)| &plan.classes[*class]);
        target.primary && classes.any(|class| class.task.operation.writes())
    };
    let found: Vec<_> = plan.sources.iter().map(writes).collect();
    if P::SHARED && found.contains(&true) {
        return Err(InvalidArgument(
            "requests that share connections cannot be kept to the first node".into(),
        ));
    }
    Ok(found)
}

/// One client core: a thread, from its placement to its last record.
fn client_thread<P: Protocol>(
    shared: &Arc<Shared<P>>,
    thread: usize,
    control: &Control,
) -> Result<Vec<StageOutcome>, InvalidArgument> {
    let leaving = Leaving(&shared.broken, &control.turns);
    if let Some(core) = shared.plan.cores.get(thread) {
        wait::pin(*core)?;
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|error| InvalidArgument(format!("no runtime: {error}")))?;
    let seen = runtime.block_on(stages(shared, thread, control))?;
    std::mem::forget(leaving);
    Ok(seen)
}

/// Tells the other threads that this one has failed, however it did.
struct Leaving<'a>(&'a AtomicBool, &'a Turns);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.end();
    }
}

async fn stages<P: Protocol>(
    shared: &Arc<Shared<P>>,
    thread: usize,
    control: &Control,
) -> Result<Vec<StageOutcome>, InvalidArgument> {
    let pool = Rc::new(ConnectionPool::new(shared, thread));
    tokio::select! {
        () = pool.open(shared) => {}
        () = control.stopped() => {}
    }
    let Limit { duration_ns, count } = shared.plan.warmup;
    let first = if duration_ns.or(count.map(|n| n as i64)).unwrap_or(0) > 0 {
        0
    } else {
        1
    };
    let mut out = vec![];
    for number in first..2 {
        let start = meet(shared, number, control).await;
        if number == 1 {
            control.started_ns.store(start, Relaxed);
        }
        if number == 1 && control.turns.are_wanted() {
            take_turns(shared, &pool, thread, control, std::mem::take(&mut out)).await?;
            break;
        }
        let place = Place::of_stage(thread, number);
        let stage = Stage::new(shared.clone(), pool.clone(), place, start, None)?;
        out.push(Rc::new(stage).run(control, open_loop::pace).await?);
    }
    Ok(out)
}

/// The measured stage, turn by turn. warmup: what was seen before it goes with the first.
async fn take_turns<P: Protocol>(
    shared: &Arc<Shared<P>>,
    pool: &Rc<ConnectionPool<P>>,
    thread: usize,
    control: &Control,
    mut warmup: Vec<StageOutcome>,
) -> Result<(), InvalidArgument> {
    let mut cursors = None;
    for number in 1.. {
        let Some(turn) = control.turns.next(number).await else {
            break;
        };
        wait::until(turn.begin_ns).await;
        let (place, start) = (Place::of_turn(thread, turn), turn.begin_ns);
        let stage = Stage::new(shared.clone(), pool.clone(), place, start, cursors.take())?;
        let mut seen = Rc::new(stage).run(control, open_loop::pace).await?;
        cursors = Some(std::mem::take(&mut seen.cursors));
        let mut stages = std::mem::take(&mut warmup);
        stages.push(seen);
        shared.hand_in(stages, turn, control)?;
    }
    Ok(())
}

/// Wait until every thread is ready for a stage, and for the start that they share.
async fn meet<P>(shared: &Shared<P>, number: usize, control: &Control) -> i64 {
    shared.ready[number].fetch_add(1, Relaxed);
    while shared.ready[number].load(Relaxed) < shared.plan.threads
        && !shared.broken.load(Relaxed)
        && !control.is_cancelled()
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    if number == 1 && control.turns.are_wanted() {
        control.ready.store(true, Relaxed);
        return now_ns();
    }
    if number == 1 && control.held.load(Relaxed) {
        control.ready.store(true, Relaxed);
        while control.begin_ns.load(Relaxed) == 0
            && !shared.broken.load(Relaxed)
            && !control.is_cancelled()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // Whoever is first decides; 0 is no instant.
    let start = &shared.starts[number];
    let soon = match (number, control.begin_ns.load(Relaxed)) {
        (1, named) if named != 0 && !control.is_cancelled() => named,
        _ => now_ns() + LEAD_NS,
    };
    let _ = start.compare_exchange(0, soon, Relaxed, Relaxed);
    let at = start.load(Relaxed);
    while now_ns() < at {
        tokio::task::yield_now().await;
    }
    if number == 1 {
        control.began_ns.fetch_max(now_ns(), Relaxed);
    }
    at
}
