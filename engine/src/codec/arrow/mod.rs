//! Arrow's IPC messages: batches of rows encoded, ids and scores decoded.
//!
//! The `arrow` crates encode whole batches and decode schemas. Rows are not decoded with them:
//! their reader panics on a batch that points outside its body, and builds arrays of every column
//! where two are needed.

mod read;
mod write;

pub use read::{framed, Rows};
pub use write::{encode, stream};

#[cfg(test)]
mod tests;
