//! The error of a call whose arguments make no sense: one sentence, a `ValueError` in Python.

/// What was wrong with a call. Nothing was recorded or changed by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidArgument(pub String);

impl std::fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidArgument {}
