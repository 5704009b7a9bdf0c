//! TCP to a target, without delay of small writes.

use tokio::net::TcpStream;

use crate::protocol::{Failure, Target};

/// Connect. The connections of a worker are opened one after the other, outside any sample but
/// where a broken one is replaced.
pub async fn connect(target: &Target) -> Result<TcpStream, Failure> {
    let connected = TcpStream::connect((target.host.as_str(), target.port)).await;
    let stream = connected.map_err(|error| Failure::io(&error))?;
    stream
        .set_nodelay(true)
        .map_err(|error| Failure::io(&error))?;
    Ok(stream)
}
