//! Servers that speak no protocol at all, for whoever has to survive them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::spawn_local;

use crate::random::Random;

/// How a server is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It closes every connection at once.
    Close,
    /// It reads and never says a word.
    Silent,
    /// It says random bytes and closes.
    Noise,
}

pub async fn serve(listener: TcpListener, kind: Kind) -> std::io::Result<()> {
    let mut random = Random::new(0);
    loop {
        let (mut stream, _) = listener.accept().await?;
        let noise: Vec<u8> = (0..4096).map(|_| random.number() as u8).collect();
        spawn_local(async move {
            if kind == Kind::Noise {
                let mut first = [0; 64];
                let _ = stream.read(&mut first).await;
                let _ = stream.write_all(&noise).await;
            } else if kind == Kind::Silent {
                let mut rest = [0; 65536];
                while matches!(stream.read(&mut rest).await, Ok(1..)) {}
            }
        });
    }
}
