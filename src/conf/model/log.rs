//! Logs.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{common::addr::Addr, vars::Template};

/// Severity of an error log line, most severe first, as nginx's `NGX_LOG_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// `emerg`
    Emerg = 1,
    /// `alert`
    Alert,
    /// `crit`
    Crit,
    /// `error`
    Error,
    /// `warn`
    Warn,
    /// `notice`
    Notice,
    /// `info`
    Info,
    /// `debug`
    Debug,
}

impl Level {
    /// The level at which `limit_req` logs a request that waits, when one that is refused has this one.
    #[must_use]
    pub fn milder(self) -> Self {
        match self {
            Self::Error => Self::Warn,
            Self::Warn => Self::Notice,
            _ => Self::Info,
        }
    }
}

/// One `error_log`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ErrorLog {
    /// Where it goes.
    pub target: LogTarget,
    /// Lines up to this severity are written.
    pub level: Level,
}

/// A place that takes log lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// A file, absolute.
    File(Arc<Path>),
    /// `stderr`
    Stderr,
    /// `syslog:`
    Syslog(Arc<Syslog>),
    /// `memory:SIZE` (debugging aid; bytes).
    Memory(u64),
    /// A path with variables (`access_log` only).
    Template(Template),
}

/// `syslog:server=...,facility=...,tag=...,severity=...,nohostname`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Syslog {
    /// Where datagrams go.
    pub server: Addr,
    /// Facility, 0 to 23; `local7` by default.
    pub facility: u8,
    /// Severity for access logs, 0 to 7; `info` by default.
    pub severity: u8,
    /// Tag, `nginx` by default.
    pub tag: Arc<str>,
    /// Leave the host name out.
    pub nohostname: bool,
}

/// How values are escaped in a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Escape {
    /// `\xXX` for quotes, backslashes, control characters and bytes above 126; `-` for what is not found.
    Default,
    /// JSON string escapes; empty for what is not found.
    Json,
    /// As is; empty for what is not found.
    None,
}

/// A `log_format`.
#[derive(Clone, Debug)]
pub struct LogFormat {
    /// Its name.
    pub name: Arc<str>,
    /// How values are escaped.
    pub escape: Escape,
    /// The line without its newline.
    pub template: Template,
}

/// One `access_log`.
#[derive(Clone, Debug)]
pub struct AccessLog {
    /// Where it goes.
    pub target: LogTarget,
    /// The line's format.
    pub format: Arc<LogFormat>,
    /// `if=`: logged unless empty or `0`.
    pub condition: Option<Template>,
    /// `buffer=`, bytes.
    pub buffer: Option<usize>,
    /// `flush=`
    pub flush: Option<Duration>,
    /// `gzip=`, 1 to 9.
    pub gzip: Option<u32>,
}

/// What [`Config::each_logging`](super::Config::each_logging) calls.
pub type VisitLogs<'a> = &'a mut dyn FnMut(Option<&[ErrorLog]>, &[AccessLog]);

/// `open_log_file_cache`: how access logs whose path has variables are kept open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileCache {
    /// `max=`: names that are remembered.
    pub max: usize,
    /// `min_uses=`: a file is kept open from that many uses on.
    pub min_uses: usize,
    /// `inactive=`: a name that was not used for that long is forgotten.
    pub inactive: Duration,
    /// `valid=`: for that long nobody looks whether the file still has its name.
    pub valid: Duration,
}

impl Default for OpenFileCache {
    /// No room yet, otherwise nginx's defaults.
    fn default() -> Self {
        Self {
            max: 0,
            min_uses: 1,
            inactive: Duration::from_secs(10),
            valid: Duration::from_mins(1),
        }
    }
}
