//! The configuration language: from text to a validated, immutable [`model`].
//!
//! [`load`] is the way in. Messages are nginx's: what [`ConfError`] displays stands after `nginx: [emerg] ` there.

pub mod model;

pub(crate) mod address;
mod error;
mod lexer;
mod parser;
mod read;
mod table;
pub(crate) mod value;

use std::path::PathBuf;

pub use error::ConfError;
pub use table::{Difference, coverage, differences, man_page};
pub(crate) use value::seconds;

/// The pid file where none is named.
const PID: &str = "logs/nginx.pid";

/// What [`load`] needs to know besides the files.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The configuration file (`-c`), absolute; `include` is relative to its directory.
    pub file: PathBuf,
    /// The prefix (`-p`), absolute; other relative paths start there.
    pub prefix: PathBuf,
    /// Directives of the command line (`-g`), read before the file.
    pub globals: Vec<String>,
    /// Error log of the command line (`-e`), as given: it replaces the default `logs/error.log`.
    pub error_log: Option<String>,
}

/// Reads the configuration that `options` point at.
pub fn load(options: &LoadOptions) -> Result<model::Config, ConfError> {
    let tree = parser::parse(&options.file, &options.globals);
    read::Reader::read(options, tree, Names::Look)
}

/// The pid file of a configuration that may be broken; None when it cannot be read as far as where that may be named.
pub fn pid(options: &LoadOptions) -> Option<PathBuf> {
    let tree = parser::parse(&options.file, &options.globals);
    let named = match parser::find(&tree.globals, "pid") {
        Ok(None) => parser::find(&tree.nodes, "pid"),
        found => found,
    };
    let path = match named.ok()? {
        Some(statement) => read::first(statement).to_owned(),
        None => PID.into(),
    };
    let path = String::from_utf8_lossy(&path);
    Some(parser::join(&options.prefix.to_string_lossy(), &path))
}

/// Reads `text` as a whole configuration without looking at anything else: no file is included, no name looked up. For
/// fuzzing and benches.
pub fn check(text: &[u8]) -> Result<model::Config, ConfError> {
    let options = LoadOptions {
        file: "/text".into(),
        prefix: "/".into(),
        globals: Vec::new(),
        error_log: None,
    };
    read::Reader::read(&options, parser::parse_text(text), Names::Skip)
}

/// Whether host names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Look,
    Skip,
}

#[cfg(test)]
mod snippets;
#[cfg(test)]
mod tests;
