//! The load engine of Vectrial: requests of a protocol, sent at a pace, recorded and judged.
//!
//! Modules import one way; `tests/engine/test_modules.py` holds it.

pub mod clock;
pub mod codec;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod invalid_argument;
pub mod null;
pub mod protocol;
pub mod protocols;
mod python;
pub mod random;
pub mod record;
pub mod run;
pub mod tls;
#[cfg(feature = "truth")]
pub mod topk;
pub mod transport;
pub mod words;
