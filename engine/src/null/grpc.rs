//! The null server over gRPC.

use std::rc::Rc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::spawn_local;

use crate::null::faults::{Fault, Injector};
use crate::null::Settings;
use crate::transport::grpc::framed_bytes;
use crate::transport::tcp::Stream;

/// Id and score of a row that was found.
pub type Hit = (i64, f32);

/// A search: its path, and the framed answer to it.
pub struct Method {
    pub path: &'static str,
    pub found: fn(&[Hit]) -> Bytes,
}

/// What is sent, made once.
struct Replies {
    head: Response<()>,
    trailers: HeaderMap,
    searches: Vec<Search>,
    empty: Bytes,
    others: Vec<(String, Bytes)>,
}

struct Search {
    path: &'static str,
    found: Bytes,
    /// Every row twice.
    twice: Bytes,
}

impl Replies {
    fn new(methods: &[Method], settings: &Settings) -> Self {
        let mut head = Response::new(());
        let grpc = HeaderValue::from_static("application/grpc");
        head.headers_mut().insert("content-type", grpc);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let framed_reply = |(path, bytes): (&String, &Bytes)| (path.clone(), framed_bytes(bytes));
        let hits = |id: fn(i64) -> i64| -> Vec<Hit> {
            let hit = |at| (id(at), at as f32 / 64.0);
            (0..settings.k as i64).map(hit).collect()
        };
        let search = |method: &Method| Search {
            path: method.path,
            found: (method.found)(&hits(|at| at)),
            twice: (method.found)(&hits(|at| at / 2)),
        };
        Self {
            head,
            trailers,
            searches: methods.iter().map(search).collect(),
            empty: framed_bytes(&[]),
            others: settings.replies.iter().map(framed_reply).collect(),
        }
    }

    /// The answer to a call, and the same with every row twice.
    fn of(&self, path: &str) -> (&Bytes, &Bytes) {
        if let Some((_, reply)) = self.others.iter().find(|(known, _)| known == path) {
            return (reply, reply);
        }
        let search = self.searches.iter().find(|search| search.path == path);
        search.map_or((&self.empty, &self.empty), |search| {
            (&search.found, &search.twice)
        })
    }
}

/// What the connections share.
pub struct Service {
    replies: Replies,
    injector: Rc<Injector>,
    room: u32,
}

impl Service {
    pub fn new(methods: &[Method], settings: &Settings, injector: Rc<Injector>) -> Self {
        Self {
            replies: Replies::new(methods, settings),
            injector,
            room: settings.room,
        }
    }
}

/// Answer the calls of one connection.
pub async fn connection(stream: Stream, service: Rc<Service>) -> Result<(), h2::Error> {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(4 << 20)
        .initial_connection_window_size(64 << 20)
        .max_frame_size(1 << 20);
    if service.room > 0 {
        builder.max_concurrent_streams(service.room);
    }
    let mut connection = builder.handshake(stream).await?;
    let (breaking, mut broken) = mpsc::unbounded_channel();
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            unanswered = broken.recv() => {
                // First the connection: an answer that is dropped resets its stream, which the
                // client could see before the end and take for the failure of one call.
                drop(connection);
                drop(unanswered);
                return Ok(());
            }
        };
        let Some(accepted) = accepted else {
            return Ok(());
        };
        let (request, respond) = accepted?;
        let (service, breaking) = (service.clone(), breaking.clone());
        spawn_local(async move {
            let _ = answer(request, respond, &service, &breaking).await;
        });
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    service: &Service,
    breaking: &UnboundedSender<SendResponse<Bytes>>,
) -> Result<(), h2::Error> {
    let (parts, mut body) = request.into_parts();
    while let Some(piece) = body.data().await {
        let length = piece?.len();
        body.flow_control().release_capacity(length)?;
    }
    let replies = &service.replies;
    let (reply, twice) = replies.of(parts.uri.path());
    let mut reply = reply.clone();
    let mut trailers = replies.trailers.clone();
    match service.injector.next().await {
        Some(Fault::Status) => {
            trailers.insert("grpc-status", HeaderValue::from_static("8"));
            trailers.insert("grpc-message", HeaderValue::from_static("told%20to%20fail"));
        }
        Some(Fault::Reset) => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            return Ok(());
        }
        Some(Fault::Break) => {
            // Where it is broken already, nobody waits for an answer.
            let _ = breaking.send(respond);
            return Ok(());
        }
        Some(Fault::Truncate) => reply.truncate(reply.len() - 1),
        // A field of a wire type that does not exist.
        Some(Fault::Garbage) => reply = framed_bytes(&[0x0f; 40]),
        Some(Fault::Twice) => reply = twice.clone(),
        Some(Fault::Late | Fault::Never) | None => {}
    }
    let mut stream = respond.send_response(replies.head.clone(), false)?;
    stream.send_data(reply, false)?;
    stream.send_trailers(trailers)
}
