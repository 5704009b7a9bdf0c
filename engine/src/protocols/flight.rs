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

use std::sync::Arc;

use http::Request;
use serde::de::IgnoredAny;
use serde_json::{json, Map, Value};

use crate::ipc::{self, Cells, Rows};
use crate::misuse::Misuse;
use crate::protobuf::{self, Reader};
use crate::protocol::{Answer, Failure, Operation, Prepared, Protocol, Target, Task, Values};
use crate::protocols::messages::incomplete;
use crate::transport::grpc::{self, Collect, Streaming};

/// Methods of the service.
pub const DO_GET: &str = "/arrow.flight.protocol.FlightService/DoGet";
pub const DO_PUT: &str = "/arrow.flight.protocol.FlightService/DoPut";
pub const DO_ACTION: &str = "/arrow.flight.protocol.FlightService/DoAction";
/// Fields of `FlightData`.
const DESCRIPTOR: u32 = 1;
const HEADER: u32 = 2;
const BODY: u32 = 1000;
/// Field of `Ticket` and of `Result`.
pub const CONTENT: u32 = 1;
/// Fields of `Action`.
const ACTION_TYPE: u32 = 1;
const ACTION_BODY: u32 = 2;
/// Fields of `FlightDescriptor`, and the kind that is a path.
const DESCRIPTOR_TYPE: u32 = 1;
const DESCRIPTOR_PATH: u32 = 3;
const PATH: u64 = 1;

pub struct Flight {
    target: Target,
}

impl Protocol for Flight {
    type Connection = Streaming<Hits>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, Misuse> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, Misuse> {
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

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Streaming::connect(&self.target).await
    }
}

/// The requests of a task.
struct Calls<'a> {
    task: &'a Task,
    get: Arc<Request<()>>,
    put: Arc<Request<()>>,
    action: Arc<Request<()>>,
}

impl Calls<'_> {
    fn searches(&self) -> Result<Vec<Prepared>, Misuse> {
        let (task, options) = (self.task, &self.task.options);
        let dataset = json!(options.text("dataset")?).to_string();
        let params = options.get("params").unwrap_or("{}");
        let params: Map<String, Value> = serde_json::from_str(params)
            .map_err(|error| Misuse(format!("the option 'params' is no JSON object: {error}")))?;
        let action = match options.get("search").unwrap_or("ticket") {
            "ticket" => false,
            "action" => true,
            other => {
                let text = format!("the option 'search' is ticket or action, not '{other}'");
                return Err(Misuse(text));
            }
        };
        let filters = task.filters.iter().map(|filters| array(filters));
        filters.collect::<Result<Vec<_>, _>>()?;
        let search = |query: usize| {
            let vector = task.vectors.row(query);
            if !vector.iter().all(|x| x.is_finite()) {
                let text = format!("query {query} is not finite, which JSON cannot say");
                return Err(Misuse(text));
            }
            let vector = serde_json::to_string(vector).unwrap_or_default();
            let mut out = format!(r#"{{"dataset":{dataset},"vector":{vector},"k":{}"#, task.k);
            for (name, value) in &params {
                out += &format!(",{}:{value}", json!(name));
            }
            let mut out = out.into_bytes();
            if let Some(filters) = task.filter(query) {
                out.extend(b",\"filters\":");
                out.extend_from_slice(filters);
            }
            out.push(b'}');
            Ok(match action {
                true => self.act("VectorSearch", &out),
                false => self.ticket(&[b"{\"search\":", &out[..], b"}"].concat()),
            })
        };
        (0..task.vectors.rows()).map(search).collect()
    }

    fn writes(&self) -> Result<Vec<Prepared>, Misuse> {
        let (task, options) = (self.task, &self.task.options);
        let dataset = options.text("dataset")?;
        let metadata = options.get("metric").map(|name| ("longbow.metric", name));
        let metadata: Vec<_> = metadata.into_iter().collect();
        let dim = task.vectors.dim;
        let write = |range: std::ops::Range<usize>| {
            let column = |name, cells| ipc::Column {
                name,
                cells,
                valid: &[],
                nullable: false,
            };
            let values = &task.vectors.values[range.start * dim..range.end * dim];
            let vectors = Cells::Vector { values, dim };
            let ids = Cells::Int(&task.ids[range.clone()]);
            let mut columns = vec![
                column(options.get("id").unwrap_or("id"), ids),
                column(options.get("vector").unwrap_or("vector"), vectors),
            ];
            columns.extend(task.columns.iter().map(|of| ipc::Column {
                name: &of.name,
                cells: match &of.values {
                    Values::Int(all) => Cells::Int(&all[range.clone()]),
                    Values::Float(all) => Cells::Float(&all[range.clone()]),
                    Values::Bool(all) => Cells::Bool(&all[range.clone()]),
                    Values::Text(all) => Cells::Text(&all[range.clone()]),
                },
                valid: of.valid.get(range.clone()).unwrap_or_default(),
                nullable: true,
            }));
            let (header, body) = ipc::batch(&columns);
            let schema = ipc::schema(&columns, &metadata);
            let mut out = flight_data(Some(dataset), &schema, &[]).to_vec();
            out.extend(flight_data(None, &header, &body));
            self.prepared(&self.put, out, range.len())
        };
        Ok(task.batches().map(write).collect())
    }

    fn gets(&self) -> Result<Vec<Prepared>, Misuse> {
        let options = &self.task.options;
        let (dataset, name) = (options.text("dataset")?, options.get("id").unwrap_or("id"));
        self.single("get")?;
        let get = |id: &i64| {
            let filter = json!({"field": name, "operator": "==", "value": id});
            let ticket = json!({"name": dataset, "filters": [filter]});
            self.ticket(ticket.to_string().as_bytes())
        };
        Ok(self.task.ids.iter().map(get).collect())
    }

    fn deletes(&self) -> Result<Vec<Prepared>, Misuse> {
        let dataset = self.task.options.text("dataset")?;
        self.single("delete")?;
        let delete = |id: &i64| {
            let body = json!({"dataset": dataset, "id": id.to_string()});
            self.act("delete", body.to_string().as_bytes())
        };
        Ok(self.task.ids.iter().map(delete).collect())
    }

    /// Neither a get nor a delete takes several ids.
    fn single(&self, what: &str) -> Result<(), Misuse> {
        match self.task.batch {
            0 | 1 => Ok(()),
            batch => Err(Misuse(format!(
                "a {what} is of one id here, not of {batch}: set batch to 1"
            ))),
        }
    }

    fn payloads(&self) -> Result<Vec<Prepared>, Misuse> {
        let options = &self.task.options;
        let payloads = self.task.payloads.iter();
        match options.get("call").unwrap_or("get") {
            "get" => Ok(payloads.map(|ticket| self.ticket(ticket)).collect()),
            "action" => {
                let name = options.text("action")?;
                Ok(payloads.map(|body| self.act(name, body)).collect())
            }
            "put" => {
                let dataset = options.text("dataset")?;
                let put = |stream: &bytes::Bytes| {
                    let mut out = vec![];
                    let framed = ipc::framed(stream, |header, body| {
                        let first = out.is_empty().then_some(dataset);
                        out.extend(flight_data(first, header, body));
                        Ok(())
                    });
                    framed.map_err(|why| Misuse(format!("a payload cannot be put: {}", why.0)))?;
                    Ok(self.prepared(&self.put, out, 1))
                };
                payloads.map(put).collect()
            }
            other => Err(Misuse(format!(
                "the option 'call' is get, action or put, not '{other}'"
            ))),
        }
    }

    fn ticket(&self, content: &[u8]) -> Prepared {
        grpc::prepare(self.task.operation, &self.get, 1, |out| {
            protobuf::put_bytes(out, CONTENT, content);
        })
    }

    fn act(&self, name: &str, body: &[u8]) -> Prepared {
        grpc::prepare(self.task.operation, &self.action, 1, |out| {
            protobuf::put_bytes(out, ACTION_TYPE, name.as_bytes());
            protobuf::put_bytes(out, ACTION_BODY, body);
        })
    }

    /// A request of several messages that are framed already.
    fn prepared(&self, head: &Arc<Request<()>>, body: Vec<u8>, rows: usize) -> Prepared {
        Prepared {
            operation: self.task.operation,
            head: head.clone(),
            body: body.into(),
            rows: rows as u32,
        }
    }
}

/// Filters are an array, whatever is in it: what the server makes of them is its own affair.
fn array(filters: &[u8]) -> Result<(), Misuse> {
    let read = serde_json::from_slice::<Vec<IgnoredAny>>(filters);
    read.map_err(|error| Misuse(format!("filters are no JSON array: {error}")))?;
    Ok(())
}

/// A framed message that carries an Arrow message; the first of a put says where to.
pub fn flight_data(path: Option<&str>, header: &[u8], body: &[u8]) -> bytes::Bytes {
    grpc::framed(|out| {
        if let Some(path) = path {
            protobuf::put_message(out, DESCRIPTOR, |out| {
                protobuf::put_number(out, DESCRIPTOR_TYPE, PATH);
                protobuf::put_bytes(out, DESCRIPTOR_PATH, path.as_bytes());
            });
        }
        protobuf::put_bytes(out, HEADER, header);
        if !body.is_empty() {
            protobuf::put_bytes(out, BODY, body);
        }
    })
}

/// Reads the messages of an answer.
#[derive(Debug, Default)]
pub struct Hits(Rows);

impl Collect for Hits {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn message(
        &mut self,
        request: &Prepared,
        message: &[u8],
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        match request.head.uri().path() {
            DO_GET => self.data(message, answer),
            DO_ACTION if request.operation == Operation::Search => self.result(message, answer),
            _ => Ok(()),
        }
    }

    fn end(&mut self, request: &Prepared, answer: &Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Get if answer.ids.is_empty() => Err(incomplete(0, request, " came")),
            Operation::Search if !self.0.has_ids() => {
                Err(Failure::garbage("the answer has no integer column 'id'"))
            }
            _ => Ok(()),
        }
    }
}

impl Hits {
    /// A message of a DoGet.
    fn data(&mut self, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        let (mut header, mut body) = (&[][..], &[][..]);
        let mut reader = Reader(message);
        while let Some((field, value)) = reader.field()? {
            match field {
                HEADER => header = value.bytes()?,
                BODY => body = value.bytes()?,
                _ => {}
            }
        }
        // Without a header it is metadata of the application's own.
        match header.is_empty() {
            true => Ok(()),
            false => Ok(self.0.message(header, body, answer)?),
        }
    }

    /// A result of the action that searches: a stream in Arrow's own framing.
    fn result(&mut self, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        let mut reader = Reader(message);
        while let Some((field, value)) = reader.field()? {
            if field == CONTENT {
                self.0.stream(value.bytes()?, answer)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Matrix, Options};
    use proptest::prelude::*;

    fn task(operation: Operation, options: &[(&str, &str)]) -> Task {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Task {
            operation,
            vectors: Matrix {
                values: vec![0.5, -1.0, 1e-9, 2.0],
                dim: 2,
            },
            ids: vec![7, 8],
            columns: vec![],
            k: 3,
            batch: 1,
            filters: vec![],
            filter_of: vec![],
            payloads: vec![],
            options: Options(options.iter().map(pair).collect()),
        }
    }

    fn prepare(task: &Task) -> Result<Vec<Prepared>, Misuse> {
        let target = Target {
            host: "localhost".into(),
            port: 1,
            tls: None,
            headers: vec![],
            options: Options::default(),
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
                let data = flight_data(None, &bytes, &bytes);
                let _ = hits.message(&request, &data[5..], &mut Answer::default());
                prop_assert!(hits.end(&request, &Answer::default()).is_err());
            }
        }
    }
}
