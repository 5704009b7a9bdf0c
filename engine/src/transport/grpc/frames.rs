//! Messages in the frames of gRPC: a byte that says whether it is compressed, and its length.

use bytes::{Buf, BufMut, Bytes};
use prost::Message;

use crate::protocol::Failure;

/// A message longer than this is taken for garbage.
pub const LONGEST: usize = 1 << 30;
const PREFIX: usize = 5;

/// A message with the five bytes that come before it.
pub fn framed(message: &impl Message) -> Bytes {
    let mut out = frame(message.encoded_len());
    // What the compiler cannot see: there is room, so that encoding does not fail.
    message.encode(&mut out).expect("a vector grows");
    out.into()
}

/// The same for a message that is encoded already.
pub fn framed_bytes(message: &[u8]) -> Bytes {
    let mut out = frame(message.len());
    out.extend_from_slice(message);
    out.into()
}

fn frame(length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(PREFIX + length);
    out.put_u8(0);
    out.put_u32(length as u32);
    out
}

/// Hand over every whole message of `bytes`; how many bytes these were.
pub fn messages(
    bytes: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let mut rest = bytes;
    while let Some((prefix, after)) = rest.split_first_chunk::<PREFIX>() {
        let length = length(prefix)?;
        if after.len() < length {
            break;
        }
        let (message, after) = after.split_at(length);
        take(message)?;
        rest = after;
    }
    Ok(bytes.len() - rest.len())
}

/// The length of the message that follows.
fn length(prefix: &[u8; PREFIX]) -> Result<usize, Failure> {
    let [compressed, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    match compressed {
        0 if length <= LONGEST => Ok(length),
        0 => Err(Failure::garbage("the answer is longer than 1 GiB")),
        _ => Err(Failure::garbage("the answer is compressed")),
    }
}

/// The one message of a unary answer.
pub fn message(mut received: Bytes) -> Result<Bytes, Failure> {
    let Some(prefix) = received.first_chunk() else {
        return Err(Failure::new("truncated", "the answer has no message"));
    };
    let length = length(prefix)?;
    received.advance(PREFIX);
    match received.len().cmp(&length) {
        std::cmp::Ordering::Less => Err(Failure::new(
            "truncated",
            format!("{} of {length} bytes came", received.len()),
        )),
        std::cmp::Ordering::Greater => Err(Failure::garbage("bytes follow the answer's message")),
        std::cmp::Ordering::Equal => Ok(received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stream_is_read_however_it_is_cut(parts: Vec<Vec<u8>>, cut in 0..1000usize) {
            let whole: Vec<u8> = parts
                .iter()
                .flat_map(|part| framed_bytes(part).to_vec())
                .collect();
            let cut = cut.min(whole.len());
            let mut seen = vec![];
            let mut take = |message: &[u8]| {
                seen.push(message.to_vec());
                Ok(())
            };
            let used = messages(&whole[..cut], &mut take).unwrap();
            prop_assert!(used <= cut);
            prop_assert_eq!(messages(&whole[used..], &mut take).unwrap(), whole.len() - used);
            prop_assert_eq!(seen, parts);
        }

        #[test]
        fn a_message_is_unframed_or_refused(bytes: Vec<u8>) {
            let whole = framed_bytes(&bytes);
            prop_assert_eq!(&message(whole.clone()).unwrap()[..], &bytes[..]);
            prop_assert_eq!(message(whole.slice(..whole.len() - 1)).unwrap_err().class, "truncated");
            let _ = messages(&bytes, |_| Ok(()));
            let _ = message(bytes.into());
        }
    }
}
