//! The null server over gRPC.

use std::rc::Rc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::RecvStream;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use crate::null::Settings;
use crate::protobuf;
use crate::protocols::null::{ANSWER_IDS, ANSWER_SCORES};
use crate::transport::grpc::framed;

/// What is sent, made once.
struct Replies {
    head: Response<()>,
    trailers: HeaderMap,
    search: Bytes,
    empty: Bytes,
    others: Vec<(String, Bytes)>,
}

impl Replies {
    fn new(settings: &Settings) -> Self {
        let mut head = Response::new(());
        let grpc = HeaderValue::from_static("application/grpc");
        head.headers_mut().insert("content-type", grpc);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let framed_reply =
            |(path, bytes): (&String, &Bytes)| (path.clone(), framed(|out| out.extend(bytes)));
        Self {
            head,
            trailers,
            search: framed(|out| {
                protobuf::put_packed(out, ANSWER_IDS, 0..settings.k as u64);
                let scores: Vec<f32> = (0..settings.k).map(|i| i as f32 / 64.0).collect();
                protobuf::put_floats(out, ANSWER_SCORES, &scores);
            }),
            empty: framed(|_| ()),
            others: settings.replies.iter().map(framed_reply).collect(),
        }
    }

    fn of(&self, path: &str) -> &Bytes {
        if path == "/vectrial.Null/Search" {
            return &self.search;
        }
        let known = self.others.iter().find(|(known, _)| known == path);
        known.map_or(&self.empty, |(_, reply)| reply)
    }
}

pub async fn serve(listener: TcpListener, settings: Settings) -> std::io::Result<()> {
    let replies = Rc::new(Replies::new(&settings));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let replies = replies.clone();
        // A client that breaks off ends its own connection and nothing else.
        spawn_local(async move {
            let _ = connection(stream, replies).await;
        });
    }
}

async fn connection(stream: TcpStream, replies: Rc<Replies>) -> Result<(), h2::Error> {
    let mut connection = h2::server::Builder::new()
        .initial_window_size(4 << 20)
        .initial_connection_window_size(64 << 20)
        .max_frame_size(1 << 20)
        .handshake(stream)
        .await?;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted?;
        let replies = replies.clone();
        spawn_local(async move {
            let _ = answer(request, respond, &replies).await;
        });
    }
    Ok(())
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    replies: &Replies,
) -> Result<(), h2::Error> {
    let (parts, mut body) = request.into_parts();
    while let Some(piece) = body.data().await {
        let length = piece?.len();
        body.flow_control().release_capacity(length)?;
    }
    let mut stream = respond.send_response(replies.head.clone(), false)?;
    stream.send_data(replies.of(parts.uri.path()).clone(), false)?;
    stream.send_trailers(replies.trailers.clone())
}
