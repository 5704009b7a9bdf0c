//! The null server: a real server that answers at once, so that what is measured is the client.
//! It runs in a process of its own (`python -m vectrial.load.null_server`).

mod grpc;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};

use crate::misuse::Misuse;

/// What the server answers.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Rows of a search's answer: ids 0, 1, …, k - 1.
    pub k: usize,
    /// Answers of other protocols than `null`, by path: the message, without what frames it.
    pub replies: BTreeMap<String, Bytes>,
}

/// Serve on `address` for ever, in the calling thread; `ready` hears the address that it is.
pub fn serve(
    family: &str,
    address: SocketAddr,
    settings: Settings,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Misuse> {
    let failed = |error: std::io::Error| Misuse(format!("cannot serve on {address}: {error}"));
    if family != "grpc" {
        return Err(Misuse(format!("'{family}' is no family; there is grpc")));
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(failed)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        ready(listener.local_addr().map_err(failed)?);
        grpc::serve(listener, settings).await.map_err(failed)
    })
}
