//! How a call ended, as headers and trailers tell.

use http::HeaderMap;

use crate::protocol::Failure;

/// A status that is not 0, in headers or trailers.
pub fn check(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(status) = headers.get("grpc-status") else {
        return Ok(());
    };
    if status.as_bytes() == b"0" {
        return Ok(());
    }
    let text = |name| {
        let value = headers.get(name).map(http::HeaderValue::as_bytes);
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    };
    let code = text("grpc-status");
    let name = code.parse().ok().and_then(|at: usize| STATUS.get(at));
    let name = name.map_or(code, |name| (*name).to_owned());
    Err(Failure::new(
        format!("status:{name}"),
        unescaped(&text("grpc-message")),
    ))
}

/// Names of the status codes, as gRPC defines them.
const STATUS: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

/// Percent-decoded, as `grpc-message` is written.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match code.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if *first == b'%' => {
                out.push(byte);
                rest = &after[2..];
            }
            _ => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_becomes_a_class_with_its_message() {
        let mut headers = HeaderMap::new();
        assert!(check(&headers).is_ok());
        headers.insert("grpc-status", "8".parse().unwrap());
        headers.insert("grpc-message", "too%20much%2".parse().unwrap());
        let failed = check(&headers).unwrap_err();
        assert_eq!(failed.class, "status:resource_exhausted");
        assert_eq!(failed.message, "too much%2");
    }
}
