//! Arguments that make no sense: told in one sentence, raised as `ValueError` in Python.

/// What was wrong with a call. Nothing was recorded or changed by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misuse(pub String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}
