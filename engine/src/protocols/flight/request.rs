//! Requests: tickets, actions, and rows as Arrow messages.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use bytes::Bytes;
use http::Request;
use serde::de::IgnoredAny;
use serde_json::{json, Map, Value};

use super::messages::{Action, FlightData, Ticket};
use crate::codec::arrow;
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Column, Prepared, Task, Values};
use crate::transport::grpc::{self, framed};

/// The requests of a task.
pub(super) struct Calls<'a> {
    pub task: &'a Task,
    pub get: Arc<Request<()>>,
    pub put: Arc<Request<()>>,
    pub action: Arc<Request<()>>,
}

impl Calls<'_> {
    pub fn searches(&self) -> Result<Vec<Prepared>, InvalidArgument> {
        let (task, options) = (self.task, &self.task.options);
        let dataset = json!(options.text("dataset")?).to_string();
        let params = options.get("params").unwrap_or("{}");
        let params: Map<String, Value> = serde_json::from_str(params).map_err(|error| {
            InvalidArgument(format!("the option 'params' is no JSON object: {error}"))
        })?;
        let action = match options.get("search").unwrap_or("ticket") {
            "ticket" => false,
            "action" => true,
            other => {
                let text = format!("the option 'search' is ticket or action, not '{other}'");
                return Err(InvalidArgument(text));
            }
        };
        let filters = task.filters.iter().map(|filters| array(filters));
        filters.collect::<Result<Vec<_>, _>>()?;
        let search = |query: usize| {
            let vector = task.vectors.row(query);
            if !vector.iter().all(|x| x.is_finite()) {
                let text = format!("query {query} is not finite, which JSON cannot say");
                return Err(InvalidArgument(text));
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

    pub fn writes(&self) -> Result<Vec<Prepared>, InvalidArgument> {
        let (task, options) = (self.task, &self.task.options);
        let dataset = options.text("dataset")?;
        let metric = options.get("metric");
        let metadata = metric.map(|name| ("longbow.metric".to_owned(), name.to_owned()));
        let metadata: HashMap<_, _> = metadata.into_iter().collect();
        let write = |range: Range<usize>| {
            let encoded =
                rows(task, range.clone(), &metadata).and_then(|rows| arrow::encode(&rows));
            let [schema, rows] = encoded
                .map_err(|error| InvalidArgument(format!("rows cannot be sent: {error}")))?;
            let messages = [
                FlightData::put_to(dataset, &schema.ipc_message, &[]),
                FlightData::new(&rows.ipc_message, &rows.arrow_data),
            ];
            let body = messages.map(|message| framed(&message)).concat();
            Ok(self.prepared(&self.put, body, range.len()))
        };
        task.batches().map(write).collect()
    }

    pub fn gets(&self) -> Result<Vec<Prepared>, InvalidArgument> {
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

    pub fn deletes(&self) -> Result<Vec<Prepared>, InvalidArgument> {
        let dataset = self.task.options.text("dataset")?;
        self.single("delete")?;
        let delete = |id: &i64| {
            let body = json!({"dataset": dataset, "id": id.to_string()});
            self.act("delete", body.to_string().as_bytes())
        };
        Ok(self.task.ids.iter().map(delete).collect())
    }

    /// Neither a get nor a delete takes several ids.
    fn single(&self, what: &str) -> Result<(), InvalidArgument> {
        match self.task.batch {
            0 | 1 => Ok(()),
            batch => Err(InvalidArgument(format!(
                "a {what} is of one id here, not of {batch}: set batch to 1"
            ))),
        }
    }

    pub fn payloads(&self) -> Result<Vec<Prepared>, InvalidArgument> {
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
                let put = |stream: &Bytes| {
                    let mut out = vec![];
                    let framed = arrow::framed(stream, |header, body| {
                        let message = match out.is_empty() {
                            true => FlightData::put_to(dataset, header, body),
                            false => FlightData::new(header, body),
                        };
                        out.extend(framed(&message));
                        Ok(())
                    });
                    framed.map_err(|why| {
                        InvalidArgument(format!("a payload cannot be put: {}", why.0))
                    })?;
                    Ok(self.prepared(&self.put, out, 1))
                };
                payloads.map(put).collect()
            }
            other => Err(InvalidArgument(format!(
                "the option 'call' is get, action or put, not '{other}'"
            ))),
        }
    }

    fn ticket(&self, content: &[u8]) -> Prepared {
        grpc::prepare(self.task.operation, &self.get, 1, &Ticket::new(content))
    }

    fn act(&self, name: &str, body: &[u8]) -> Prepared {
        let action = Action {
            kind: name.into(),
            body: Bytes::copy_from_slice(body),
        };
        grpc::prepare(self.task.operation, &self.action, 1, &action)
    }

    /// A request of several messages that are framed already.
    fn prepared(&self, head: &Arc<Request<()>>, body: Vec<u8>, rows: usize) -> Prepared {
        grpc::prepare_framed(self.task.operation, head, rows, body.into())
    }
}

/// Rows of a task: the ids, the vectors, then the metadata.
fn rows(
    task: &Task,
    range: Range<usize>,
    metadata: &HashMap<String, String>,
) -> Result<RecordBatch, ArrowError> {
    let (options, dim) = (&task.options, task.vectors.dim);
    let ids = Int64Array::from(task.ids[range.clone()].to_vec());
    let values = task.vectors.values[range.start * dim..range.end * dim].to_vec();
    let item = Arc::new(Field::new_list_field(DataType::Float32, false));
    let vectors = FixedSizeListArray::try_new_with_length(
        item,
        dim as i32,
        Arc::new(Float32Array::from(values)),
        None,
        range.len(),
    )?;
    let (id, vector) = (options.get("id"), options.get("vector"));
    let column = |name: &str, array: &dyn Array, nullable| {
        Field::new(name, array.data_type().clone(), nullable)
    };
    let mut fields = vec![
        column(id.unwrap_or("id"), &ids, false),
        column(vector.unwrap_or("vector"), &vectors, false),
    ];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(vectors)];
    for of in &task.columns {
        let array = cells(of, range.clone());
        fields.push(column(&of.name, &array, true));
        arrays.push(array);
    }
    let schema = Schema::new_with_metadata(fields, metadata.clone());
    RecordBatch::try_new(Arc::new(schema), arrays)
}

/// Rows of a metadata column.
fn cells(column: &Column, range: Range<usize>) -> ArrayRef {
    let nulls = column.valid.get(range.clone()).map(NullBuffer::from);
    match &column.values {
        Values::Int(all) => Arc::new(Int64Array::new(all[range].to_vec().into(), nulls)),
        Values::Float(all) => Arc::new(Float64Array::new(all[range].to_vec().into(), nulls)),
        Values::Bool(all) => Arc::new(BooleanArray::new(all[range].into(), nulls)),
        Values::Text(all) => {
            let (ends, bytes, _) = StringArray::from_iter_values(&all[range]).into_parts();
            Arc::new(StringArray::new(ends, bytes, nulls))
        }
    }
}

/// Filters are an array, whatever is in it: what the server makes of them is its own affair.
fn array(filters: &[u8]) -> Result<(), InvalidArgument> {
    let read = serde_json::from_slice::<Vec<IgnoredAny>>(filters);
    read.map_err(|error| InvalidArgument(format!("filters are no JSON array: {error}")))?;
    Ok(())
}
