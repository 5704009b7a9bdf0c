//! The connections of one thread.

use std::rc::Rc;

use crate::protocol::{Protocol, Target};
use crate::run::connection::ConnectionSlot;
use crate::run::plan::{part, Pace, Source, OWN_CONNECTIONS};
use crate::run::Shared;

/// The connections of one thread, which outlive its stages.
pub struct ConnectionPool<P: Protocol> {
    /// Those that all requests share.
    common: Vec<Rc<ConnectionSlot<P>>>,
    /// Those of each source's clients, where requests do not share.
    own: Vec<Vec<Rc<ConnectionSlot<P>>>>,
}

impl<P: Protocol> ConnectionPool<P> {
    /// All of them, not yet open.
    pub fn new(shared: &Shared<P>, thread: usize) -> Self {
        let plan = &shared.plan;
        let (thread, threads) = (plan.number_of(thread), plan.all_threads());
        let (any, first) = (
            Rc::new(shared.target.clone()),
            Rc::new(shared.target.alone()),
        );
        let slots = |number, to: &Rc<Target>| -> Vec<_> {
            let slot = || ConnectionSlot::new(shared.protocol.clone(), to.clone(), plan.failover);
            (0..number).map(|_| Rc::new(slot())).collect()
        };
        let usual = if P::SHARED { threads } else { OWN_CONNECTIONS };
        let connections = part(plan.connections.unwrap_or(usual), threads, thread).max(1);
        let of_source = |(at, source): (usize, &Source)| {
            let number = match &source.pace {
                Pace::Closed { clients } => part(*clients, threads, thread),
                Pace::Open { in_flight, .. } => {
                    connections.min(part(*in_flight, threads, thread).max(1))
                }
            };
            slots(number, if shared.only_first[at] { &first } else { &any })
        };
        match P::SHARED {
            true => Self {
                common: slots(connections, &any),
                own: vec![],
            },
            false => Self {
                common: vec![],
                own: plan.sources.iter().enumerate().map(of_source).collect(),
            },
        }
    }

    /// Open all of them, up to the first that cannot be: that one and those after it are tried
    /// again when they are needed, and counted as failed requests then.
    pub async fn open(&self, shared: &Shared<P>) {
        for slot in self.all() {
            match slot.obtain(shared.plan.timeout_ns).await {
                Ok((connection, _)) if !P::SHARED => slot.give_back(connection),
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }

    /// The connection of a source's n-th client on this thread.
    pub fn of(&self, source: usize, client: usize) -> Rc<ConnectionSlot<P>> {
        let slots = match P::SHARED {
            true => &self.common,
            false => &self.own[source],
        };
        slots[client % slots.len()].clone()
    }

    /// How many connections a source's clients on this thread have among them.
    pub fn connections(&self, source: usize) -> usize {
        match P::SHARED {
            true => self.common.len(),
            false => self.own[source].len(),
        }
    }

    /// How many requests of a source may be in flight on this thread, by what its connections
    /// carry.
    pub fn room(&self, source: usize) -> usize {
        let rooms = self.common.iter().map(|slot| slot.room());
        match P::SHARED {
            true => rooms.fold(0, usize::saturating_add),
            false => self.own[source].len(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Rc<ConnectionSlot<P>>> {
        self.common.iter().chain(self.own.iter().flatten())
    }

    /// Connections opened so far.
    pub fn opened(&self) -> u64 {
        self.all().map(|slot| slot.opened.get()).sum()
    }
}
