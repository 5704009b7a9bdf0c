//! Where an answer ends, by its headers.

use crate::protocol::Failure;

/// A body longer than this is taken for garbage.
pub const LONGEST: usize = 1 << 30;

/// What headers say about where the answer ends, and whether another may follow.
#[derive(Debug, Default)]
pub struct Framing {
    pub length: Option<usize>,
    pub chunked: bool,
    pub close: bool,
}

impl Framing {
    /// `current`: HTTP/1.1, whose connections stay open unless a header closes them.
    pub fn of(headers: &[httparse::Header<'_>], current: bool) -> Result<Self, Failure> {
        let mut out = Self {
            close: !current,
            ..Self::default()
        };
        for header in headers {
            let (name, value) = (header.name, header.value.trim_ascii());
            if name.eq_ignore_ascii_case("content-length") {
                let length = length(value)?;
                if out
                    .length
                    .replace(length)
                    .is_some_and(|other| other != length)
                {
                    return Err(garbage("the answer has two lengths"));
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                if out.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(garbage(
                        "the answer has a transfer encoding we never asked for",
                    ));
                }
                out.chunked = true;
            } else if name.eq_ignore_ascii_case("connection") {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    out.close |= option.eq_ignore_ascii_case(b"close");
                    out.close &= !option.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if name.eq_ignore_ascii_case("content-encoding")
                && !value.eq_ignore_ascii_case(b"identity")
            {
                return Err(garbage(
                    "the answer is compressed, which we never asked for",
                ));
            }
        }
        Ok(out)
    }
}

fn length(value: &[u8]) -> Result<usize, Failure> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits);
    match text.and_then(|text| text.parse::<usize>().ok()) {
        Some(length) if length <= LONGEST => Ok(length),
        Some(_) => Err(garbage("the answer is longer than 1 GiB")),
        None => Err(garbage("the answer's length is no number")),
    }
}

/// Where the next answer begins is not known any more.
pub fn garbage(what: &str) -> Failure {
    Failure::broken("garbage", what)
}
