//! Access logs: one set of buffers a thread.
//!
//! A line is rendered straight into its file's buffer. A buffer is written when it holds 32 KiB, and before the
//! thread waits for events again; `buffer=`, `flush=` and `gzip=` change that as in nginx. Nothing is dropped, at the end
//! neither: whoever ends a thread calls [`AccessLogs::flush`]. Mirrors `ngx_http_log_handler`
//! (`http/modules/ngx_http_log_module.c`).

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io::{self, Write as _},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use tokio::sync::Notify;

use super::{ErrorSink, Logs, dynamic::Dynamic, file::LogFile, format, syslog::SyslogPeer};
use crate::{
    common::{
        clock::{self, Now},
        errno::Errno,
    },
    conf::model::{AccessLog, Level, LogTarget, OpenFileCache, Root},
    vars::Source,
};

/// A buffer without `buffer=`, bytes.
const BUFFER: usize = 32 * 1024;

/// The access logs of one thread for one configuration.
#[derive(Debug)]
pub struct AccessLogs {
    logs: Logs,
    outlets: RefCell<Outlets>,
    /// When the first waiting line must be written.
    due: Cell<Option<Now>>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Outlets {
    /// By address of the `access_log` in the configuration, which outlives this.
    by_log: HashMap<usize, usize>,
    /// The last entry of `by_log` that was looked up; mostly it is also the next.
    last: Option<(usize, usize)>,
    by_settings: HashMap<Settings, usize>,
    list: Vec<Outlet>,
    scratch: Vec<u8>,
}

/// What makes two `access_log`s share a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Settings {
    target: LogTarget,
    buffer: Option<usize>,
    flush: Option<Duration>,
    gzip: Option<u32>,
}

#[derive(Debug)]
enum Outlet {
    File(Buffer),
    Syslog(Arc<SyslogPeer>),
    Dynamic(Dynamic),
    Nowhere,
}

/// Lines of one file that wait in this thread.
#[derive(Debug)]
struct Buffer {
    file: Arc<LogFile>,
    lines: Vec<u8>,
    limit: usize,
    /// None: until the buffer is full.
    delay: Option<Duration>,
    gzip: Option<u32>,
    due: Option<Now>,
    /// Lines are written before the thread waits for events again, all of a turn in one write.
    // DIFFERS(log-writes): nginx writes each line by itself.
    at_once: bool,
}

/// What surrounds the line of one request.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The request's error log, for what goes wrong here.
    pub error: ErrorSink,
    /// Number of the connection.
    pub conn: u64,
    /// `root` or `alias` of the location: a path with variables is opened only where that exists.
    /// None where there is no such thing (stream).
    pub root: Option<&'a Root>,
    /// `open_log_file_cache` of the location.
    pub cache: Option<OpenFileCache>,
}

impl AccessLogs {
    /// The calling thread's buffers for `logs`.
    pub fn new(logs: Logs) -> Rc<Self> {
        Rc::new(Self {
            logs,
            outlets: RefCell::default(),
            due: Cell::new(None),
            wake: Notify::new(),
        })
    }

    /// Logs one request, if the condition of `log` holds. `log` must be part of the configuration whose [`Logs`]
    /// these are.
    pub fn write<S: Source + ?Sized>(&self, log: &AccessLog, source: &mut S, place: Place<'_>) {
        let mut outlets = self.outlets.borrow_mut();
        let Outlets { scratch, .. } = &mut *outlets;
        if let Some(condition) = &log.condition {
            scratch.clear();
            condition.render(source, scratch);
            if scratch.is_empty() || scratch == b"0" {
                return;
            }
        }
        let index = outlets.index(log, &self.logs);
        let Outlets { list, scratch, .. } = &mut *outlets;
        match &mut list[index] {
            Outlet::File(buffer) => {
                let start = buffer.lines.len();
                format::render(&log.format, source, &mut buffer.lines);
                buffer.lines.push(b'\n');
                if let Some(due) = buffer.added(start) {
                    self.expect(due);
                }
            }
            Outlet::Syslog(peer) => {
                scratch.clear();
                peer.access_head(scratch);
                format::render(&log.format, source, scratch);
                report_syslog(peer.send(scratch), scratch.len(), place);
            }
            Outlet::Dynamic(files) => {
                scratch.clear();
                format::render(&log.format, source, scratch);
                scratch.push(b'\n');
                files.write(source, scratch, place);
            }
            Outlet::Nowhere => {}
        }
    }

    /// Writes the lines of logs without a buffer.
    pub fn flush_lines(&self) {
        if self.due.get() == Some(Now::default()) {
            self.flush_due(Some(Now::default()));
        }
    }

    /// Hands over all waiting lines.
    pub fn flush(&self) {
        self.flush_due(None);
    }

    /// Hands over lines when their time has come; never ends. Runs as a task of the thread.
    pub async fn run(&self) {
        loop {
            let Some(due) = self.due.get() else {
                self.wake.notified().await;
                continue;
            };
            if due == Now::default() {
                self.flush_due(Some(due));
                continue;
            }
            let woken = self.wake.notified();
            if tokio::time::timeout_at(due.instant().into(), woken)
                .await
                .is_err()
            {
                self.flush_due(Some(clock::now()));
            }
        }
    }

    /// A line is there that must be written at `due`.
    fn expect(&self, due: Now) {
        if self.due.get().is_none_or(|earlier| due < earlier) {
            self.due.set(Some(due));
            self.wake.notify_one();
        }
    }

    /// Hands over what was due at `now`, or everything.
    fn flush_due(&self, now: Option<Now>) {
        let mut next: Option<Now> = None;
        for outlet in &mut self.outlets.borrow_mut().list {
            let Outlet::File(buffer) = outlet else {
                continue;
            };
            match (buffer.due, now) {
                (_, None) => buffer.flush(),
                (Some(due), Some(now)) if due <= now => buffer.flush(),
                (Some(due), _) => next = Some(next.map_or(due, |other| other.min(due))),
                (None, _) => {}
            }
        }
        self.due.set(next);
    }
}

impl Outlets {
    fn index(&mut self, log: &AccessLog, logs: &Logs) -> usize {
        let address = std::ptr::from_ref(log).addr();
        if let Some((last, index)) = self.last
            && last == address
        {
            return index;
        }
        if let Some(&index) = self.by_log.get(&address) {
            self.last = Some((address, index));
            return index;
        }
        let settings = Settings {
            target: log.target.clone(),
            buffer: log.buffer,
            flush: log.flush,
            gzip: log.gzip,
        };
        let index = self.by_settings.get(&settings).copied().unwrap_or_else(|| {
            self.list.push(Outlet::new(&settings, logs));
            self.list.len() - 1
        });
        self.by_settings.insert(settings, index);
        self.by_log.insert(address, index);
        index
    }
}

impl Outlet {
    fn new(settings: &Settings, logs: &Logs) -> Self {
        match &settings.target {
            LogTarget::Syslog(syslog) => Self::Syslog(logs.0.syslog(syslog)),
            LogTarget::Template(path) => {
                Self::Dynamic(Dynamic::new(path.clone(), logs.0.prefix.clone()))
            }
            LogTarget::Memory(_) => Self::Nowhere,
            target @ (LogTarget::File(_) | LogTarget::Stderr) => match logs.0.file(target) {
                Ok(file) => Self::File(Buffer::new(file, settings)),
                // It was open when the configuration was read.
                Err(_) => Self::Nowhere,
            },
        }
    }
}

impl Buffer {
    fn new(file: Arc<LogFile>, settings: &Settings) -> Self {
        Self {
            file,
            lines: Vec::new(),
            limit: settings.buffer.unwrap_or(BUFFER),
            delay: settings.flush,
            at_once: settings.buffer.is_none(),
            gzip: settings.gzip,
            due: None,
        }
    }

    /// A line was added at `start`. Says when it must be written, if nothing else waits for that.
    fn added(&mut self, start: usize) -> Option<Now> {
        if self.lines.len() > self.limit {
            let line = self.lines.split_off(start);
            self.flush();
            self.lines = line;
            if self.lines.len() > self.limit {
                self.flush();
            }
        }
        if self.due.is_some() || self.lines.is_empty() {
            return None;
        }
        self.due = if self.at_once {
            Some(Now::default())
        } else {
            self.delay.map(|delay| clock::now().after(delay))
        };
        self.due
    }

    fn flush(&mut self) {
        self.due = None;
        if self.lines.is_empty() {
            return;
        }
        match self.gzip {
            None if self.at_once => self.file.append(&self.lines),
            None => self.file.write(&self.lines),
            Some(level) => self.file.write(&compress(&self.lines, level)),
        }
        self.lines.clear();
    }
}

/// A gzip member of its own, so that the file stays readable whatever comes next.
fn compress(lines: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder
        .write_all(lines)
        .and_then(|()| encoder.finish())
        .expect("a vector takes anything")
}

fn report_syslog(sent: io::Result<usize>, len: usize, place: Place<'_>) {
    let error = |text: std::fmt::Arguments<'_>| {
        place.error.emit(Level::Warn, Some(place.conn), text);
    };
    match sent {
        Ok(sent) if sent == len => {}
        Ok(sent) => error(format_args!(
            "send() to syslog has written only {sent} of {len}"
        )),
        Err(reason) => error(format_args!("send() to syslog failed ({})", Errno(&reason))),
    }
}

#[cfg(test)]
mod tests;
