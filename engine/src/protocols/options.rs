//! Settings that several protocols have.

use crate::invalid_argument::InvalidArgument;
use crate::protocol::Options;

/// The names in a setting such as `a,b,c`.
pub fn names<'a>(options: &'a Options, name: &str) -> impl Iterator<Item = &'a str> {
    let all = options.get(name).unwrap_or_default().split(',');
    all.map(str::trim).filter(|name| !name.is_empty())
}

/// A setting that is one of these words, as its place among them.
pub fn choice(
    options: &Options,
    name: &str,
    words: &[&str],
) -> Result<Option<u64>, InvalidArgument> {
    let place = |given: &str| match words.iter().position(|word| *word == given) {
        Some(at) => Ok(at as u64),
        None => Err(InvalidArgument(format!(
            "the option '{name}' is one of {}, not '{given}'",
            words.join(", ")
        ))),
    };
    options.get(name).map(place).transpose()
}

/// A setting that is `true` or `false`.
pub fn flag(options: &Options, name: &str) -> Result<Option<bool>, InvalidArgument> {
    Ok(choice(options, name, &["false", "true"])?.map(|at| at == 1))
}
