//! Logs: the error log, access logs, and where their lines go.
//!
//! [`Logs`] holds what one configuration writes to: every file is open once, whoever names it. Lines of the error log are
//! written at once; what access logs have buffered, a worker hands to tracing-appender's threads, which never drop a
//! line ([`Logs::start`]). Mirrors the log parts of `core/ngx_cycle.c` (opening, reopening) and `core/ngx_log.c`.

mod access;
mod dynamic;
mod error;
mod file;
pub mod format;
mod syslog;

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use access::{AccessLogs, Place};
pub use error::{ErrorSink, set_console};
use error::{Output, Sink};
pub use file::Owner;
use file::{LogFile, Mode};
use syslog::SyslogPeer;

use crate::{
    common::errno::Errno,
    conf::model::{self, Level, LogTarget},
};

/// All logs of one configuration. Cheap to clone; the files close with the last clone.
#[derive(Clone, Debug)]
pub struct Logs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    mode: Arc<Mode>,
    /// What relative paths with variables start from.
    prefix: PathBuf,
    main: ErrorSink,
    files: Mutex<HashMap<LogTarget, Arc<LogFile>>>,
    syslogs: Mutex<HashMap<Arc<model::Syslog>, Arc<SyslogPeer>>>,
    sinks: Mutex<HashMap<Vec<model::ErrorLog>, ErrorSink>>,
}

impl Logs {
    /// Opens every file that `config` names. The error is nginx's message, to be logged as `emerg`.
    pub fn open(config: &model::Config) -> Result<Self, String> {
        let logs = Self::new(&config.main.error_log, &config.main.prefix)?;
        let mut result = Ok(());
        config.each_logging(&mut |error_log, access_log| {
            let opened = logs.open_each(error_log, access_log);
            if result.is_ok() {
                result = opened;
            }
        });
        result.map(|()| logs)
    }

    /// The logs of a process that has no configuration yet: one error log, `stderr` where the file does not open.
    /// The second value says why it did not. With `verbose` lines of level `info` are taken as well (`-t`).
    pub fn startup(path: Option<&Path>, verbose: bool) -> (Self, Option<String>) {
        let level = if verbose { Level::Info } else { Level::Notice };
        let failure = match path {
            None => None,
            Some(path) => {
                let target = LogTarget::File(path.into());
                match Self::new(&[model::ErrorLog { target, level }], Path::new("")) {
                    Ok(logs) => return (logs, None),
                    Err(message) => Some(message),
                }
            }
        };
        let mut inner = Inner::empty();
        let stderr = Arc::new(LogFile::stderr(inner.mode.clone()));
        inner.main = ErrorSink::register(Sink::new(vec![(level, Output::Stderr(stderr))]));
        (Self(Arc::new(inner)), failure)
    }

    fn new(main: &[model::ErrorLog], prefix: &Path) -> Result<Self, String> {
        let mut inner = Inner::empty();
        prefix.clone_into(&mut inner.prefix);
        inner.main = inner.sink(main)?;
        Ok(Self(Arc::new(inner)))
    }

    fn open_each(
        &self,
        error_log: Option<&[model::ErrorLog]>,
        access_log: &[model::AccessLog],
    ) -> Result<(), String> {
        if let Some(logs) = error_log {
            self.0.sink(logs)?;
        }
        for log in access_log {
            match &log.target {
                LogTarget::Syslog(syslog) => {
                    self.0.syslog(syslog);
                }
                LogTarget::Template(_) | LogTarget::Memory(_) => {}
                target => {
                    self.0.file(target)?;
                }
            }
        }
        Ok(())
    }

    /// The error log of the main context.
    pub fn main(&self) -> ErrorSink {
        self.0.main
    }

    /// The sink for these logs, as a location has them; the same one for equal lists.
    pub fn sink(&self, logs: &[model::ErrorLog]) -> ErrorSink {
        self.0.sink(logs).unwrap_or(self.0.main)
    }

    /// From now on lines are handed to writer threads. Called in the worker, after the last fork.
    pub fn start(&self) {
        self.0.mode.start();
    }

    /// Opens all files again, by name; lines on their way go to the old ones. `owner` is set in a master that is
    /// root: the worker's user, who must be able to reopen them as well.
    pub fn reopen(&self, owner: Option<Owner>) {
        for file in self.0.files().values() {
            if let Err(message) = file.reopen(owner) {
                self.0
                    .main
                    .emit(Level::Emerg, None, format_args!("{message}"));
            }
        }
    }

    /// Waits until all lines handed over are written. Called at exit.
    pub fn flush(&self) {
        let files: Vec<_> = self.0.files().values().cloned().collect();
        for file in files {
            file.flush();
        }
    }

    /// Makes the process's standard error the first file among the main error logs, so that what a library or a
    /// panic prints is not lost.
    pub fn redirect_stderr(&self) -> io::Result<()> {
        // A log of any block may go there.
        let is_used = self.0.files().contains_key(&LogTarget::Stderr);
        match self.0.main.first_file() {
            Some(file) if !is_used => file.become_stderr(),
            _ => Ok(()),
        }
    }
}

impl Inner {
    fn empty() -> Self {
        error::install();
        Self {
            mode: Arc::default(),
            prefix: PathBuf::new(),
            main: ErrorSink::default(),
            files: Mutex::default(),
            syslogs: Mutex::default(),
            sinks: Mutex::default(),
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<LogTarget, Arc<LogFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sink(&self, logs: &[model::ErrorLog]) -> Result<ErrorSink, String> {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sink) = sinks.get(logs) {
            return Ok(*sink);
        }
        let outputs = logs
            .iter()
            .map(|log| Ok((log.level, self.output(&log.target)?)))
            .collect::<Result<_, String>>()?;
        let sink = ErrorSink::register(Sink::new(outputs));
        sinks.insert(logs.to_vec(), sink);
        Ok(sink)
    }

    fn output(&self, target: &LogTarget) -> Result<Output, String> {
        Ok(match target {
            LogTarget::Syslog(syslog) => Output::Syslog(self.syslog(syslog)),
            LogTarget::Memory(_) | LogTarget::Template(_) => Output::Nowhere,
            LogTarget::Stderr => Output::Stderr(self.file(target)?),
            LogTarget::File(_) => Output::File(self.file(target)?),
        })
    }

    fn syslog(&self, syslog: &Arc<model::Syslog>) -> Arc<SyslogPeer> {
        let mut peers = self.syslogs.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = peers
            .entry(syslog.clone())
            .or_insert_with(|| Arc::new(SyslogPeer::new(syslog.clone())));
        peer.clone()
    }

    fn file(&self, target: &LogTarget) -> Result<Arc<LogFile>, String> {
        let mut files = self.files();
        if let Some(file) = files.get(target) {
            return Ok(file.clone());
        }
        let file = match target {
            LogTarget::File(path) => LogFile::open(path, self.mode.clone())?,
            _ => LogFile::stderr(self.mode.clone()),
        };
        let file = Arc::new(file);
        files.insert(target.clone(), file.clone());
        Ok(file)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let sinks = self.sinks.get_mut().unwrap_or_else(PoisonError::into_inner);
        for sink in sinks.values().chain([&self.main]) {
            sink.unregister();
        }
    }
}

/// nginx's message for a file that does not open.
fn open_failed(path: &Path, error: &io::Error) -> String {
    format!("open() \"{}\" failed ({})", path.display(), Errno(error))
}

#[cfg(test)]
mod tests;
