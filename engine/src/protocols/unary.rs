//! Protocols that consist of unary calls to one gRPC service.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use http::Request;
use prost::Message;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Prepared, Protocol, Target, Task};
use crate::transport::grpc::{self, Decode, Unary};

/// A service: how tasks become requests, and answers ids and scores.
pub trait Service: Decode + Send + Sync {
    /// `package.Service`.
    const NAME: &'static str;

    /// Encode every request of a task.
    fn prepare(calls: &Calls) -> Result<Vec<Prepared>, InvalidArgument>;
}

/// The protocol of a service.
pub struct UnaryProtocol<S> {
    target: Target,
    service: PhantomData<S>,
}

impl<S: Service> Protocol for UnaryProtocol<S> {
    type Connection = Unary<S>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        Ok(Self {
            target,
            service: PhantomData,
        })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        S::prepare(&Calls {
            task,
            target: &self.target,
            service: S::NAME,
        })
    }

    async fn connect(&self, to: &Target) -> Result<Self::Connection, Failure> {
        Unary::connect(to).await
    }
}

/// The calls that a task comes to.
pub struct Calls<'a> {
    pub task: &'a Task,
    target: &'a Target,
    service: &'static str,
}

impl Calls<'_> {
    /// The head of every call of one method.
    pub fn head(&self, method: &str) -> Result<Arc<Request<()>>, InvalidArgument> {
        grpc::head(self.target, &format!("/{}/{method}", self.service))
    }

    /// A request for each query.
    pub fn queries<M: Message>(
        &self,
        method: &str,
        message: impl Fn(usize) -> M,
    ) -> Result<Vec<Prepared>, InvalidArgument> {
        let head = self.head(method)?;
        let request = |query| grpc::prepare(self.task.operation, &head, 1, &message(query));
        Ok((0..self.task.vectors.rows()).map(request).collect())
    }

    /// A request for each batch of rows.
    pub fn batches<M: Message>(
        &self,
        method: &str,
        message: impl Fn(Range<usize>) -> M,
    ) -> Result<Vec<Prepared>, InvalidArgument> {
        Ok(self.batches_of(&self.head(method)?, message))
    }

    /// The same for a head that carries more than the method.
    pub fn batches_of<M: Message>(
        &self,
        head: &Arc<Request<()>>,
        message: impl Fn(Range<usize>) -> M,
    ) -> Vec<Prepared> {
        let request = |rows: Range<usize>| {
            let count = rows.len();
            grpc::prepare(self.task.operation, head, count, &message(rows))
        };
        self.task.batches().map(request).collect()
    }

    /// The refusal of payloads, which most services have no method for.
    pub fn no_payloads(&self) -> InvalidArgument {
        let service = self.service;
        InvalidArgument(format!(
            "{service} has no call that sends a ready-made payload"
        ))
    }
}
