//! The connections of one thread.

use std::rc::Rc;

use crate::load::link::Link;
use crate::load::plan::{part, Pace, Source, OWN_CONNECTIONS};
use crate::load::Shared;
use crate::protocol::Protocol;

/// The connections of one thread, which outlive its stages.
pub struct Links<P: Protocol> {
    /// Those that all requests share.
    common: Vec<Rc<Link<P>>>,
    /// Those of each source's workers, where requests do not share.
    own: Vec<Vec<Rc<Link<P>>>>,
}

impl<P: Protocol> Links<P> {
    /// All of them, not yet open.
    pub fn new(shared: &Shared<P>, thread: usize) -> Self {
        let (plan, threads) = (&shared.plan, shared.plan.threads);
        let links = |number| -> Vec<_> { (0..number).map(|_| Rc::new(Link::new())).collect() };
        let usual = if P::SHARED { threads } else { OWN_CONNECTIONS };
        let connections = part(plan.connections.unwrap_or(usual), threads, thread).max(1);
        let of_source = |source: &Source| match &source.pace {
            Pace::Closed { workers } => links(part(*workers, threads, thread)),
            Pace::Open { in_flight, .. } => {
                links(connections.min(part(*in_flight, threads, thread).max(1)))
            }
        };
        match P::SHARED {
            true => Self {
                common: links(connections),
                own: vec![],
            },
            false => Self {
                common: vec![],
                own: plan.sources.iter().map(of_source).collect(),
            },
        }
    }

    /// Open all of them, up to the first that cannot be: that one and those after it are tried
    /// again when they are needed, and counted as failed requests then.
    pub async fn open(&self, shared: &Shared<P>) {
        for link in self.all() {
            match link.obtain(&shared.protocol, shared.plan.timeout_ns).await {
                Ok((connection, _)) if !P::SHARED => link.give_back(connection),
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }

    /// The connection of a source's n-th worker on this thread.
    pub fn of(&self, source: usize, worker: usize) -> Rc<Link<P>> {
        let links = match P::SHARED {
            true => &self.common,
            false => &self.own[source],
        };
        links[worker % links.len()].clone()
    }

    /// How many requests of a source may be in flight on this thread, by what its connections
    /// carry.
    pub fn room(&self, source: usize) -> usize {
        let rooms = self.common.iter().map(|link| link.room());
        match P::SHARED {
            true => rooms.fold(0, usize::saturating_add),
            false => self.own[source].len(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Rc<Link<P>>> {
        self.common.iter().chain(self.own.iter().flatten())
    }

    /// Connections opened so far.
    pub fn opened(&self) -> u64 {
        self.all().map(|link| link.opened.get()).sum()
    }
}
