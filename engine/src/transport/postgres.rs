//! A connection to PostgreSQL: the way in, and messages back and forth.
//!
//! The protocol: <https://www.postgresql.org/docs/current/protocol.html>, version 3.0. Answers are
//! read where they lie in the buffer; whatever happens within one, it is read to its end, so that
//! the next request finds the connection in order.

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256, SCRAM_SHA_256};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::protocol::{Failure, Target};
use crate::transport::tcp::{self, Stream};

/// A message longer than this is taken for garbage.
const LONGEST: usize = 1 << 30;
/// Room made for what comes.
const ROOM: usize = 16 << 10;
/// A message's type and length.
const PREFIX: usize = 5;

/// Kinds of messages that matter to every exchange.
const ERROR: u8 = b'E';
const READY: u8 = b'Z';
const AUTHENTICATION: u8 = b'R';

/// Who asks to be let in, and where to.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: Option<String>,
    pub database: String,
}

/// An open connection.
pub struct Session {
    stream: Stream,
    inbox: Vec<u8>,
}

impl Session {
    /// Connect and be let in.
    pub async fn open(target: &Target, login: &Login) -> Result<Self, Failure> {
        let mut session = Self {
            stream: enter(target).await?,
            inbox: Vec::with_capacity(ROOM),
        };
        let mut out = BytesMut::new();
        let who = [
            ("user", &*login.user),
            ("database", &*login.database),
            ("application_name", "vectrial"),
            ("client_encoding", "UTF8"),
        ];
        frontend::startup_message(who, &mut out).map_err(unsendable)?;
        session.write(&out).await?;
        session.authenticate(login).await?;
        Ok(session)
    }

    /// Answer what the server asks until it lets us in.
    async fn authenticate(&mut self, login: &Login) -> Result<(), Failure> {
        let mut proof = None;
        loop {
            let mut request = None;
            let read = |kind: u8, body: &[u8]| {
                if kind == AUTHENTICATION {
                    request = Some(body.to_vec());
                }
                Ok(())
            };
            // It asks one thing at a time and then waits.
            if self.read(read, |kind| kind == AUTHENTICATION).await? {
                return Ok(());
            }
            let mut out = BytesMut::new();
            answer(&request.unwrap_or_default(), login, &mut proof, &mut out)?;
            if !out.is_empty() {
                self.write(&out).await?;
            }
        }
    }

    /// Send bytes that end with a request for synchronisation, and hand over each message of the
    /// answer. When one of them tells of an error, the rest is read and left aside.
    pub async fn exchange(
        &mut self,
        bytes: &[u8],
        take: impl FnMut(u8, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.write(bytes).await?;
        self.read(take, |_| false).await.map(|_| ())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Read messages until the server is ready for the next request (true), or one came after
    /// which it waits (false).
    async fn read(
        &mut self,
        mut take: impl FnMut(u8, &[u8]) -> Result<(), Failure>,
        waits: impl Fn(u8) -> bool,
    ) -> Result<bool, Failure> {
        let mut failed: Option<Failure> = None;
        loop {
            let mut used = 0;
            let mut ended = None;
            while ended.is_none() {
                let Some((kind, body)) = first(&self.inbox[used..])? else {
                    break;
                };
                used += PREFIX + body.len();
                match kind {
                    READY => ended = Some(true),
                    ERROR => {
                        failed.get_or_insert_with(|| failure_of(body));
                    }
                    _ if failed.is_none() => {
                        failed = take(kind, body).err();
                        ended = waits(kind).then_some(false);
                    }
                    _ => {}
                }
            }
            self.inbox.drain(..used);
            if let Some(ready) = ended {
                return failed.map_or(Ok(ready), Err);
            }
            self.inbox.reserve(ROOM);
            if self.stream.read_buf(&mut self.inbox).await? == 0 {
                // An error before the end says why it ends.
                return Err(failed.map_or_else(
                    || Failure::broken("reset", "the server closed the connection"),
                    |failure| Failure {
                        broken: true,
                        ..failure
                    },
                ));
            }
        }
    }
}

/// A stream of bytes to the server, under TLS where the target asks for it.
async fn enter(target: &Target) -> Result<Stream, Failure> {
    let Some(tls) = &target.tls else {
        return tcp::connect(target, &[]).await;
    };
    let mut stream = tcp::open(target).await?;
    let mut out = BytesMut::new();
    frontend::ssl_request(&mut out);
    stream.write_all(&out).await?;
    match stream.read_u8().await? {
        b'S' => tcp::handshake(tls, stream, &[]).await,
        _ => Err(Failure::broken("tls", "the server does not speak TLS")),
    }
}

/// The answer to one step of authentication.
fn answer(
    request: &[u8],
    login: &Login,
    proof: &mut Option<ScramSha256>,
    out: &mut BytesMut,
) -> Result<(), Failure> {
    let strange = || Failure::broken("garbage", "the way in is not as PostgreSQL has it");
    let (method, rest) = request.split_first_chunk::<4>().ok_or_else(strange)?;
    let password = || {
        let missing = || Failure::broken("status:invalid_password", "a password is request for");
        login.password.as_deref().ok_or_else(missing)
    };
    let written = match i32::from_be_bytes(*method) {
        0 => return Ok(()),
        3 => frontend::password_message(password()?.as_bytes(), out),
        5 => {
            let salt = rest.first_chunk().ok_or_else(strange)?;
            let hash = md5_hash(login.user.as_bytes(), password()?.as_bytes(), *salt);
            frontend::password_message(hash.as_bytes(), out)
        }
        10 if rest
            .split(|b| *b == 0)
            .any(|name| name == SCRAM_SHA_256.as_bytes()) =>
        {
            let begun = ScramSha256::new(password()?.as_bytes(), ChannelBinding::unsupported());
            let begun = proof.insert(begun);
            frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), out)
        }
        11 => {
            let begun = proof.as_mut().ok_or_else(strange)?;
            begun.update(rest)?;
            frontend::sasl_response(begun.message(), out)
        }
        12 => {
            let begun = proof.as_mut().ok_or_else(strange)?;
            return Ok(begun.finish(rest)?);
        }
        method => {
            let text = format!("the server asks for a way in (number {method}) that is not known");
            return Err(Failure::broken("authentication", text));
        }
    };
    written.map_err(unsendable)
}

fn unsendable(error: std::io::Error) -> Failure {
    Failure::broken("authentication", format!("cannot be sent: {error}"))
}

/// The kind and body of the first message, once all of it is there.
fn first(bytes: &[u8]) -> Result<Option<(u8, &[u8])>, Failure> {
    let Some(([kind, length @ ..], rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    // The length counts itself.
    match (u32::from_be_bytes(*length) as usize).checked_sub(4) {
        Some(length) if length <= LONGEST => Ok(rest.get(..length).map(|body| (*kind, body))),
        _ => Err(Failure::broken(
            "garbage",
            "a message has no possible length",
        )),
    }
}

/// The failure that an error message tells of. After a fatal one the connection ends.
fn failure_of(body: &[u8]) -> Failure {
    let (mut severity, mut code, mut message) = (&b""[..], &b""[..], &b""[..]);
    let mut rest = body;
    while let Some((field, after)) = rest.split_first().filter(|(field, _)| **field != 0) {
        let end = after.iter().position(|b| *b == 0).unwrap_or(after.len());
        match field {
            b'V' => severity = &after[..end],
            b'C' => code = &after[..end],
            b'M' => message = &after[..end],
            _ => {}
        }
        rest = after.get(end + 1..).unwrap_or_default();
    }
    let code = String::from_utf8_lossy(code);
    let known = NAMES.iter().find(|(known, _)| *known == code);
    let class = format!("status:{}", known.map_or(&*code, |(_, name)| name));
    Failure {
        broken: severity == b"FATAL" || severity == b"PANIC",
        ..Failure::new(class, String::from_utf8_lossy(message))
    }
}

/// Names of the error codes that a benchmark meets, as PostgreSQL's documentation has them; others
/// keep their code.
const NAMES: &[(&str, &str)] = &[
    ("08P01", "protocol_violation"),
    ("0A000", "feature_not_supported"),
    ("21000", "cardinality_violation"),
    ("22000", "data_exception"),
    ("22003", "numeric_value_out_of_range"),
    ("22023", "invalid_parameter_value"),
    ("22P02", "invalid_text_representation"),
    ("22P03", "invalid_binary_representation"),
    ("22P04", "bad_copy_file_format"),
    ("23502", "not_null_violation"),
    ("23505", "unique_violation"),
    ("25006", "read_only_sql_transaction"),
    ("28000", "invalid_authorization_specification"),
    ("28P01", "invalid_password"),
    ("3D000", "invalid_catalog_name"),
    ("40001", "serialization_failure"),
    ("40P01", "deadlock_detected"),
    ("42501", "insufficient_privilege"),
    ("42601", "syntax_error"),
    ("42703", "undefined_column"),
    ("42704", "undefined_object"),
    ("42804", "datatype_mismatch"),
    ("42883", "undefined_function"),
    ("42P01", "undefined_table"),
    ("42P18", "indeterminate_datatype"),
    ("53100", "disk_full"),
    ("53200", "out_of_memory"),
    ("53300", "too_many_connections"),
    ("54000", "program_limit_exceeded"),
    ("55P03", "lock_not_available"),
    ("57014", "query_canceled"),
    ("57P01", "admin_shutdown"),
    ("57P02", "crash_shutdown"),
    ("57P03", "cannot_connect_now"),
    ("58030", "io_error"),
    ("XX000", "internal_error"),
    ("XX001", "data_corrupted"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_error_has_its_class_and_its_message() {
        let failed = failure_of(b"SFEHLER\0VERROR\0C42P01\0Mno such table\0\0");
        assert_eq!(
            (&*failed.class, failed.broken),
            ("status:undefined_table", false)
        );
        assert_eq!(failed.message, "no such table");
        let failed = failure_of(b"VFATAL\0C99999\0Mbye\0\0");
        assert_eq!((&*failed.class, failed.broken), ("status:99999", true));
    }

    #[test]
    fn passwords_are_given_as_they_are_request_for() {
        let mut login = Login {
            user: "ann".into(),
            password: None,
            database: "d".into(),
        };
        let mut out = BytesMut::new();
        let md5 = [0, 0, 0, 5, 1, 2, 3, 4];
        let failed = answer(&md5, &login, &mut None, &mut out).unwrap_err();
        assert_eq!(failed.class, "status:invalid_password");
        login.password = Some("secret".into());
        answer(&md5, &login, &mut None, &mut out).unwrap();
        assert!(out.starts_with(b"p\0\0\0\x28md5"), "{out:?}");
        let failed = answer(&[0, 0, 0, 7], &login, &mut None, &mut out).unwrap_err();
        assert_eq!(failed.class, "authentication");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, method in 0..14u8, named: bool) {
            let _ = (first(&bytes), failure_of(&bytes));
            let login = Login {
                user: "u".into(),
                password: Some("p".into()),
                database: "d".into(),
            };
            let mut request = vec![0, 0, 0, method];
            if named {
                request.extend(SCRAM_SHA_256.as_bytes());
                request.extend([0, 0]);
            }
            let mut proof = None;
            let _ = answer(&request, &login, &mut proof, &mut BytesMut::new());
            request[3] = 11;
            request.extend(bytes);
            let _ = answer(&request, &login, &mut proof, &mut BytesMut::new());
        }

        #[test]
        fn a_message_is_found_once_it_is_whole(kind: u8, body: Vec<u8>) {
            let mut bytes = vec![kind];
            bytes.extend((body.len() as u32 + 4).to_be_bytes());
            bytes.extend(&body);
            prop_assert!(first(&bytes[..bytes.len() - 1]).unwrap().is_none());
            bytes.push(7);
            prop_assert_eq!(first(&bytes).unwrap(), Some((kind, &body[..])));
        }
    }
}
