//! Arrow Flight with Longbow's tickets and actions.
//!
//! | operation | call | what is sent |
//! | --- | --- | --- |
//! | search | DoGet, or DoAction `VectorSearch` | the search as JSON; hits come as columns `id` and `score` |
//! | insert, upsert | DoPut | path `dataset`; columns `id`, `vector`, then the metadata |
//! | get | DoGet | a scan filtered by the id: there is no other way |
//! | delete | DoAction `delete` | one id |
//! | payload | as the option `call` says | a ticket, the body of an action, or an Arrow IPC stream |
//!
//! Options of a class: `dataset`; `search` (`ticket` or `action`); `params` (further members of a
//! search, as a JSON object); `id` and `vector` (names of these columns); `metric` (kept in the
//! schema's metadata, for a dataset that is made by writing); for a payload `call` (`get`,
//! `action` or `put`) and `action`. Filters are JSON arrays of Longbow's filters.

mod answer;
pub mod messages;
mod request;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Operation, Prepared, Protocol, Target, Task};
use crate::transport::grpc::{self, Streaming};

pub use answer::Hits;
use request::Calls;

/// Methods of the service.
pub const DO_GET: &str = "/arrow.flight.protocol.FlightService/DoGet";
pub const DO_PUT: &str = "/arrow.flight.protocol.FlightService/DoPut";
pub const DO_ACTION: &str = "/arrow.flight.protocol.FlightService/DoAction";

pub struct Flight {
    target: Target,
}

impl Protocol for Flight {
    type Connection = Streaming<Hits>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        let calls = Calls {
            task,
            get: grpc::head(&self.target, DO_GET)?,
            put: grpc::head(&self.target, DO_PUT)?,
            action: grpc::head(&self.target, DO_ACTION)?,
        };
        match task.operation {
            Operation::Search => calls.searches(),
            Operation::Insert | Operation::Upsert => calls.writes(),
            Operation::Get => calls.gets(),
            Operation::Delete => calls.deletes(),
            Operation::Payload => calls.payloads(),
        }
    }

    async fn connect(&self, to: &Target) -> Result<Self::Connection, Failure> {
        Streaming::connect(to).await
    }
}

#[cfg(test)]
mod tests {
    use super::messages::FlightData;
    use super::*;
    use crate::protocol::{Answer, Matrix, Options};
    use crate::transport::grpc::Collect;
    use proptest::prelude::*;
    use prost::Message;

    fn task(operation: Operation, options: &[(&str, &str)]) -> Task {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Task {
            operation,
            vectors: Matrix {
                values: vec![0.5, -1.0, 1e-9, 2.0],
                dim: 2,
            },
            ids: vec![7, 8],
            k: 3,
            batch: 1,
            options: Options(options.iter().map(pair).collect()),
            ..Task::default()
        }
    }

    fn prepare(task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        let target = Target {
            host: "localhost".into(),
            ..Target::default()
        };
        Flight::new(target).unwrap().prepare(task)
    }

    fn text(prepared: &Prepared) -> String {
        String::from_utf8_lossy(&prepared.body).into_owned()
    }

    #[test]
    fn a_search_is_a_ticket_or_an_action() {
        let mut asked = task(
            Operation::Search,
            &[("dataset", "d"), ("params", "{\"ef\": 9}")],
        );
        asked.filters = vec![b"[{\"field\":\"c\"}]"[..].into()];
        let requests = prepare(&asked).unwrap();
        let first = r#"{"search":{"dataset":"d","vector":[0.5,-1.0],"k":3,"ef":9,"filters":[{"field":"c"}]}}"#;
        assert!(
            text(&requests[0]).ends_with(first),
            "{}",
            text(&requests[0])
        );
        assert!(text(&requests[1]).contains("[1e-9,2.0]"));
        asked.options.0.insert("search".into(), "action".into());
        let request = &prepare(&asked).unwrap()[0];
        assert_eq!(request.head.uri().path(), DO_ACTION);
        assert!(text(request).contains("VectorSearch"));
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let mut asked = task(Operation::Delete, &[("dataset", "d")]);
        assert_eq!(prepare(&asked).unwrap().len(), 2);
        asked.batch = 2;
        assert!(prepare(&asked).unwrap_err().0.contains("batch"));
        let asked = task(Operation::Search, &[]);
        assert!(prepare(&asked).unwrap_err().0.contains("dataset"));
        let mut asked = task(Operation::Search, &[("dataset", "d")]);
        asked.vectors.values[2] = f32::NAN;
        assert!(prepare(&asked).unwrap_err().0.contains("query 1"));
        let mut asked = task(Operation::Search, &[("dataset", "d")]);
        asked.filters = vec![b"{}"[..].into()];
        assert!(prepare(&asked).unwrap_err().0.contains("JSON array"));
        let asked = task(Operation::Search, &[("dataset", "d"), ("params", "ef")]);
        assert!(prepare(&asked).unwrap_err().0.contains("JSON object"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let mut asked = task(Operation::Search, &[("dataset", "d"), ("search", "action")]);
            let action = prepare(&asked).unwrap().remove(0);
            asked.options.0.insert("search".into(), "ticket".into());
            let ticket = prepare(&asked).unwrap().remove(0);
            let mut hits = Hits::default();
            for request in [action, ticket] {
                hits.begin();
                let _ = hits.message(&request, &bytes, &mut Answer::default());
                let data = FlightData::new(&bytes, &bytes).encode_to_vec();
                let _ = hits.message(&request, &data, &mut Answer::default());
                prop_assert!(hits.end(&request, &Answer::default()).is_err());
            }
        }
    }
}
