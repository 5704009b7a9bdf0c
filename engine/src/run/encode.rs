//! Requests are encoded before the clock starts, in a thread that a cancelled run need not await.

use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Operation, Prepared, Protocol, Task};
use crate::record::recall::Judge;
use crate::run::{Class, Control, TICK};

/// The requests of each class. The tasks are given up as soon as they are encoded: rows to insert
/// are not kept twice.
pub fn rings<P: Protocol>(
    protocol: &Arc<P>,
    classes: &mut [Class],
    control: &Control,
) -> Result<Vec<Vec<Prepared>>, InvalidArgument> {
    let take = |class: &mut Class| {
        let name = class.name.clone();
        (name, std::mem::take(&mut class.task), class.judge.clone())
    };
    let tasks: Vec<_> = classes.iter_mut().map(take).collect();
    let (send, receive) = channel();
    let protocol = protocol.clone();
    let work = move || {
        let ring = |(name, task, judge): (String, Task, Option<Arc<Judge>>)| {
            let in_class = |InvalidArgument(what)| InvalidArgument(format!("{name}: {what}"));
            let ring = protocol.prepare(&task).map_err(in_class)?;
            check(&task, judge.as_deref(), &ring).map_err(in_class)?;
            Ok(ring)
        };
        // Nobody listens any more when the run was cancelled.
        let _ = send.send(tasks.into_iter().map(ring).collect());
    };
    std::thread::Builder::new()
        .name("encode".into())
        .spawn(work)
        .map_err(|error| InvalidArgument(format!("no thread: {error}")))?;
    loop {
        match receive.recv_timeout(TICK) {
            Ok(rings) => return rings,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(InvalidArgument("encoding the requests panicked".into()));
            }
            Err(RecvTimeoutError::Timeout) if control.is_cancelled() => {
                return Err(InvalidArgument(
                    "the run was stopped before it began".into(),
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Requests that are judged are searches, as many as the truth has queries.
fn check(task: &Task, judge: Option<&Judge>, ring: &[Prepared]) -> Result<(), InvalidArgument> {
    let fault = |what: String| Err(InvalidArgument(what));
    if ring.is_empty() {
        return fault("there is nothing to send".into());
    }
    match judge {
        Some(_) if task.operation != Operation::Search => fault("only searches are judged".into()),
        Some(judge) if judge.queries() != ring.len() => fault(format!(
            "the truth is of {} queries, but there are {}",
            judge.queries(),
            ring.len()
        )),
        _ => Ok(()),
    }
}
