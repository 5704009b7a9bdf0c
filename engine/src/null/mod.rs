//! The null server: a real server that answers at once, so that what is measured is the client.
//! It runs in a process of its own (`python -m vectrial.engine.null_server`).

mod answers;
mod broken;
pub mod faults;
mod flight;
mod grpc;
mod http;
mod postgres;
mod resp;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use crate::invalid_argument::InvalidArgument;
use crate::tls;
use crate::transport::tcp::Stream;
use faults::{Faults, Injector};

/// Names of the families, as [`serve`] takes them; the last three speak nothing at all.
pub const FAMILIES: &[&str] = &[
    "grpc", "flight", "http", "resp", "postgres", "close", "silent", "noise",
];

/// What the server answers.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Rows of a search's answer: ids 0, 1, …, k - 1.
    pub k: usize,
    /// Answers of other protocols than `null`, by path: the message or body, without what frames
    /// it. Over RESP by command, in capitals, and framed.
    pub replies: BTreeMap<String, Bytes>,
    pub faults: Faults,
    /// Requests that may be in flight on one connection, where the protocol can tell; 0: any.
    pub room: u32,
    /// (certificates, PKCS #8 key) in DER: it speaks TLS.
    pub identity: Option<(Vec<Vec<u8>>, Vec<u8>)>,
}

/// Serve on `address` for ever, in the calling thread; `ready` hears the address that it is.
pub fn serve(
    family: &str,
    address: SocketAddr,
    settings: Settings,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), InvalidArgument> {
    let failed =
        |error: std::io::Error| InvalidArgument(format!("cannot serve on {address}: {error}"));
    let acceptor = Acceptor::new(&settings)?;
    let injector = Rc::new(Injector::new(settings.faults.clone()));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(failed)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        ready(listener.local_addr().map_err(failed)?);
        let stalling = injector.clone();
        spawn_local(async move { stalling.stall().await });
        let grpc = |methods, injector| grpc::Service::new(methods, &settings, injector);
        let served = match family {
            "grpc" => {
                let service = grpc(answers::SEARCHES, injector);
                acceptor.serve(listener, service, grpc::connection).await
            }
            "flight" => {
                let service = grpc(flight::SEARCHES, injector);
                acceptor.serve(listener, service, grpc::connection).await
            }
            "http" => {
                let service = Service::new(http::Replies::new(&settings), injector);
                acceptor.serve(listener, service, http::connection).await
            }
            "postgres" => {
                let service = Service::new(postgres::Replies::new(&settings), injector);
                acceptor
                    .serve(listener, service, postgres::connection)
                    .await
            }
            "resp" => {
                let service = Service::new(resp::Replies::new(&settings), injector);
                acceptor.serve(listener, service, resp::connection).await
            }
            "close" => broken::serve(listener, broken::Kind::Close).await,
            "silent" => broken::serve(listener, broken::Kind::Silent).await,
            "noise" => broken::serve(listener, broken::Kind::Noise).await,
            _ => {
                let families = FAMILIES.join(", ");
                return Err(InvalidArgument(format!(
                    "'{family}' is no family; one of {families}"
                )));
            }
        };
        served.map_err(failed)
    })
}

/// What the connections of a family share.
struct Service<R> {
    replies: R,
    injector: Rc<Injector>,
}

impl<R> Service<R> {
    fn new(replies: R, injector: Rc<Injector>) -> Self {
        Self { replies, injector }
    }
}

/// Accepts connections, plain or under TLS.
#[derive(Clone)]
struct Acceptor(Option<TlsAcceptor>);

impl Acceptor {
    fn new(settings: &Settings) -> Result<Self, InvalidArgument> {
        let acceptor = settings
            .identity
            .as_ref()
            .map(|(chain, key)| tls::acceptor(chain, key, &["h2", "http/1.1"]));
        Ok(Self(acceptor.transpose()?))
    }

    /// Accept every connection that comes, each served by a task of its own.
    async fn serve<S, E, F>(
        self,
        listener: TcpListener,
        service: S,
        connection: impl Fn(Stream, Rc<S>) -> F + Copy + 'static,
    ) -> std::io::Result<()>
    where
        S: 'static,
        E: 'static,
        F: Future<Output = Result<(), E>> + 'static,
    {
        let service = Rc::new(service);
        loop {
            let (stream, _) = listener.accept().await?;
            let (acceptor, service) = (self.clone(), service.clone());
            // A client that breaks off ends its own connection and nothing else.
            spawn_local(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = connection(stream, service).await;
                }
            });
        }
    }

    async fn accept(&self, stream: TcpStream) -> std::io::Result<Stream> {
        stream.set_nodelay(true)?;
        Ok(match &self.0 {
            None => Stream::Plain(stream),
            Some(acceptor) => Stream::Server(Box::new(acceptor.accept(stream).await?)),
        })
    }
}
