//! What is wrong with a configuration, and where.
//!
//! Mirrors `ngx_conf_log_error` (`core/ngx_conf_file.c`): message, errno in brackets, ` in FILE:LINE`.

use std::{fmt, io, path::Path, sync::Arc};

use super::parser::Statement;
use crate::vars::{pattern::PatternError, template::TemplateError};

/// Where a statement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file; None for the command line (`-g`).
    pub file: Option<Arc<Path>>,
    /// The line that ends the statement's arguments, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}", file.display(), self.line),
            None => f.write_str("command line"),
        }
    }
}

/// An error of a configuration; the display is nginx's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfError {
    text: String,
    warnings: Vec<String>,
    syntax_ok: bool,
}

impl ConfError {
    /// An error of the configuration as a whole.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            warnings: Vec::new(),
            syntax_ok: false,
        }
    }

    /// An error of a configuration whose every statement is fine.
    pub(super) fn late(text: impl Into<String>) -> Self {
        Self {
            syntax_ok: true,
            ..Self::new(text)
        }
    }

    /// Whether every statement is fine: `-t` says so before the error.
    pub fn is_syntax_ok(&self) -> bool {
        self.syntax_ok
    }

    /// Warnings from before the error, in order, without `nginx: [warn] `.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn after(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// An error at a place.
    pub fn at(text: impl fmt::Display, place: &Place) -> Self {
        Self::new(format!("{text} in {place}"))
    }
}

impl fmt::Display for ConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConfError {}

/// What went wrong in a directive's reader; the walk over the statements adds where.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The rest of `"NAME" directive REST`.
    Directive(String),
    /// A message of its own.
    Message(String),
    /// Already has its place.
    Placed(ConfError),
}

impl Problem {
    /// `"NAME" directive is duplicate`
    pub(crate) fn duplicate() -> Self {
        Self::Directive("is duplicate".to_owned())
    }

    /// `"NAME" directive invalid value`
    pub(crate) fn invalid_value() -> Self {
        Self::Directive("invalid value".to_owned())
    }
}

impl Problem {
    /// `invalid parameter "x"`
    pub(crate) fn parameter(word: impl fmt::Display) -> Self {
        Self::Message(format!("invalid parameter \"{word}\""))
    }

    /// `invalid value "x"`
    pub(crate) fn value(word: impl fmt::Display) -> Self {
        Self::Message(format!("invalid value \"{word}\""))
    }

    /// A message of its own.
    pub(crate) fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }

    /// The same, found where the block of `statement` ends.
    pub(crate) fn ending(self, statement: &Statement) -> Self {
        match self {
            Self::Message(text) => Self::Placed(ConfError::at(text, &statement.end())),
            other => other,
        }
    }

    /// The error of `statement`.
    pub(crate) fn at(self, statement: &Statement) -> ConfError {
        match self {
            Self::Directive(rest) => ConfError::at(
                format_args!("\"{}\" directive {rest}", statement.name),
                &statement.place,
            ),
            Self::Message(text) => ConfError::at(text, &statement.place),
            Self::Placed(error) => error,
        }
    }
}

impl From<TemplateError> for Problem {
    fn from(error: TemplateError) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<PatternError> for Problem {
    fn from(error: PatternError) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<ConfError> for Problem {
    fn from(error: ConfError) -> Self {
        Self::Placed(error)
    }
}

/// A failed system call as nginx shows it: `open() "x" failed (2: No such file or directory)`.
pub(crate) fn failed(call: &str, path: &Path, error: &io::Error) -> String {
    format!("{call}() \"{}\" failed {}", path.display(), errno(error))
}

/// `(2: No such file or directory)`
pub(crate) fn errno(error: &io::Error) -> String {
    let number = error.raw_os_error().unwrap_or(0);
    format!("({number}: {})", nix::errno::Errno::from_raw(number).desc())
}
