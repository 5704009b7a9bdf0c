//! Requests in bytes.

use std::ops::Range;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use postgres_protocol::IsNull;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Cell, Operation, Prepared, Task};

/// Bytes of one message of a COPY.
const PIECE: usize = 1 << 20;

/// A parameter: how it is written (0: text, 1: binary), and its bytes unless it is null.
pub type Parameter = (i16, Option<Vec<u8>>);

/// The values of a row, in binary.
pub fn cells(task: &Task, row: usize) -> impl Iterator<Item = Option<Vec<u8>>> + '_ {
    let fixed = [
        task.ids[row].to_be_bytes().to_vec(),
        vector_bytes(task.vectors.row(row)),
    ];
    let further = task.columns.iter().map(move |column| {
        Some(match column.cell(row)? {
            Cell::Int(value) => value.to_be_bytes().to_vec(),
            Cell::Float(value) => value.to_be_bytes().to_vec(),
            Cell::Bool(value) => vec![value.into()],
            Cell::Text(value) => value.as_bytes().to_vec(),
        })
    });
    fixed.into_iter().map(Some).chain(further)
}

/// pgvector's binary form: the number of dimensions, two bytes unused, big-endian floats.
pub fn vector_bytes(vector: &[f32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + 4 * vector.len());
    out.extend((vector.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(vector.iter().flat_map(|x| x.to_be_bytes()));
    out
}

/// Bind parameters to a prepared statement, run it, and ask to be told when all is done.
pub fn execute(
    task: &Task,
    statement: &str,
    parameters: Vec<Parameter>,
    rows: usize,
) -> Result<Prepared, InvalidArgument> {
    let mut out = BytesMut::new();
    let formats: Vec<i16> = parameters.iter().map(|(format, _)| *format).collect();
    let write = |(_, value): Parameter, out: &mut BytesMut| {
        Ok(match value {
            Some(bytes) => {
                out.extend_from_slice(&bytes);
                IsNull::No
            }
            None => IsNull::Yes,
        })
    };
    // No portal's name; every column comes in binary.
    frontend::bind("", statement, formats, parameters, write, [1], &mut out)
        .map_err(|_| InvalidArgument("a request is too long for PostgreSQL".into()))?;
    frontend::execute("", 0, &mut out).map_err(|error| InvalidArgument(error.to_string()))?;
    frontend::sync(&mut out);
    Ok(Prepared::plain(task.operation, out.freeze(), rows))
}

/// SQL as a request of its own.
pub fn query(sql: &[u8]) -> Result<Prepared, InvalidArgument> {
    let wrong =
        |error: &dyn std::fmt::Display| InvalidArgument(format!("a payload is no SQL: {error}"));
    let sql = std::str::from_utf8(sql).map_err(|error| wrong(&error))?;
    let mut out = BytesMut::new();
    frontend::query(sql, &mut out).map_err(|error| wrong(&error))?;
    Ok(Prepared::plain(Operation::Payload, out.freeze(), 1))
}

/// A COPY for each batch, sent without waiting for the server to say that it listens: what comes
/// after a refused COPY, it ignores.
pub fn copies(task: &Task, sql: &str) -> Result<Vec<Prepared>, InvalidArgument> {
    let wrong = |error: std::io::Error| InvalidArgument(error.to_string());
    let copy = |rows: Range<usize>| {
        let number = rows.len();
        // The signature, then no flags and no extension of the header.
        let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        for row in rows {
            data.extend((2 + task.columns.len() as u16).to_be_bytes());
            for cell in cells(task, row) {
                let length = cell.as_ref().map_or(-1, |bytes| bytes.len() as i32);
                data.extend(length.to_be_bytes());
                data.extend(cell.unwrap_or_default());
            }
        }
        data.extend((-1i16).to_be_bytes());
        let mut out = BytesMut::new();
        frontend::query(sql, &mut out).map_err(wrong)?;
        for piece in data.chunks(PIECE) {
            frontend::CopyData::new(piece)
                .map_err(wrong)?
                .write(&mut out);
        }
        frontend::copy_done(&mut out);
        Ok(Prepared::plain(task.operation, out.freeze(), number))
    };
    task.batches().map(copy).collect()
}
