//! The error log's lines: `2026/11/29 19:00:00 [error] 12#34: *56 message`.
//!
//! A [`ErrorSink`] is one set of `error_log`s. [`ErrorSink::emit`] is the only door: it checks the severity and makes
//! a tracing event that carries the sink, nginx's level and the connection; [`ErrorLayer`] formats the line and
//! writes it where the sink says. Mirrors `ngx_log_error_core` (`core/ngx_log.c`).

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt::{self, Write as _},
    io::Write as _,
    sync::{
        Arc, Once, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use tracing::field::{Field, Visit};
use tracing_subscriber::{Layer, layer::Context, prelude::*, registry::Registry};

use super::{file::LogFile, syslog::SyslogPeer};
use crate::{common::clock, conf::model::Level};

/// The longest line, with its newline.
const MAX_LINE: usize = 2048;
/// Marks the events that are lines of the error log.
const TARGET: &str = "headwater::error_log";

/// Where the lines of one context go (`error_log` lines of the main context or of a location). Cheap to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorSink {
    id: u32,
    level: Option<Level>,
}

impl Default for ErrorSink {
    /// A sink that takes nothing.
    fn default() -> Self {
        Self { id: 0, level: None }
    }
}

/// The outputs behind an [`ErrorSink`].
#[derive(Debug)]
pub(super) struct Sink {
    outputs: Vec<(Level, Output)>,
}

/// A place for lines.
#[derive(Debug)]
pub(super) enum Output {
    File(Arc<LogFile>),
    Stderr(Arc<LogFile>),
    Syslog(Arc<SyslogPeer>),
    Nowhere,
}

/// All sinks of the process by id. A line is rare, so a lock for it is no cost.
static SINKS: RwLock<Option<HashMap<u32, Arc<Sink>>>> = RwLock::new(None);
static NEXT_ID: AtomicU32 = AtomicU32::new(1);
/// Whether severe lines also go to the terminal (`ngx_use_stderr`).
static CONSOLE: AtomicBool = AtomicBool::new(false);

/// Whether lines of level `warn` and above are also shown on standard error, as `nginx: [emerg] message`: while the
/// program starts.
pub fn set_console(on: bool) {
    CONSOLE.store(on, Ordering::Release);
}

impl Sink {
    pub(super) fn new(outputs: Vec<(Level, Output)>) -> Self {
        Self { outputs }
    }

    fn write(&self, level: Level, line: &[u8]) {
        for (most, output) in &self.outputs {
            if level > *most {
                continue;
            }
            match output {
                // At once, as nginx does: who sees a connection end finds what was said of it.
                Output::File(file) | Output::Stderr(file) => file.append(line),
                Output::Syslog(peer) => peer.send_error(level, line),
                Output::Nowhere => {}
            }
        }
    }

    fn has_stderr(&self, level: Level) -> bool {
        self.outputs
            .iter()
            .any(|(most, output)| level <= *most && matches!(output, Output::Stderr(_)))
    }
}

impl ErrorSink {
    pub(super) fn register(sink: Sink) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let level = sink.outputs.iter().map(|(level, _)| *level).max();
        let mut sinks = SINKS.write().unwrap_or_else(PoisonError::into_inner);
        sinks.get_or_insert_default().insert(id, Arc::new(sink));
        Self { id, level }
    }

    pub(super) fn unregister(self) {
        let mut sinks = SINKS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(sinks) = &mut *sinks {
            sinks.remove(&self.id);
        }
    }

    fn find(id: u32) -> Option<Arc<Sink>> {
        let sinks = SINKS.read().unwrap_or_else(PoisonError::into_inner);
        sinks.as_ref()?.get(&id).cloned()
    }

    /// The first file, unless standard error itself is among the outputs.
    pub(super) fn first_file(self) -> Option<Arc<LogFile>> {
        let sink = Self::find(self.id)?;
        if sink.has_stderr(Level::Emerg) {
            return None;
        }
        sink.outputs.iter().find_map(|(_, output)| match output {
            Output::File(file) => Some(file.clone()),
            _ => None,
        })
    }

    /// Whether a line of this severity goes anywhere. Ask before making an expensive message.
    #[inline]
    pub fn enabled(self, level: Level) -> bool {
        self.level.is_some_and(|most| level <= most)
    }

    /// Writes a line; `conn` is the connection's number.
    pub fn emit(self, level: Level, conn: Option<u64>, message: fmt::Arguments<'_>) {
        if !self.enabled(level) {
            return;
        }
        let (sink, severity) = (u64::from(self.id), level as u64);
        macro_rules! event {
            ($level:ident) => {
                tracing::event!(
                    target: TARGET,
                    tracing::Level::$level,
                    sink,
                    severity,
                    conn,
                    message = message
                )
            };
        }
        match level {
            Level::Emerg | Level::Alert | Level::Crit | Level::Error => event!(ERROR),
            Level::Warn => event!(WARN),
            Level::Notice | Level::Info => event!(INFO),
            Level::Debug => event!(DEBUG),
        }
    }
}

/// Makes [`ErrorLayer`] the process's subscriber. Once is enough.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = Registry::default().with(ErrorLayer);
        // Another subscriber is one that a test has set.
        tracing::subscriber::set_global_default(subscriber).ok();
    });
}

/// Writes the events of [`ErrorSink::emit`]; ignores those of libraries.
struct ErrorLayer;

impl<S: tracing::Subscriber> Layer<S> for ErrorLayer {
    fn register_callsite(
        &self,
        metadata: &'static tracing::Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        if metadata.target() == TARGET {
            tracing::subscriber::Interest::always()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn enabled(&self, metadata: &tracing::Metadata<'_>, _cx: Context<'_, S>) -> bool {
        metadata.target() == TARGET
    }

    fn on_event(&self, event: &tracing::Event<'_>, _cx: Context<'_, S>) {
        let mut line = LINE.take();
        line.clear();
        let mut visitor = LineVisitor {
            sink: 0,
            level: Level::Debug,
            conn: None,
            message_at: 0,
            line: &mut line,
        };
        event.record(&mut visitor);
        visitor.deliver();
        LINE.set(line);
    }
}

thread_local! {
    static LINE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Collects an event's fields; the message comes last.
struct LineVisitor<'a> {
    sink: u32,
    level: Level,
    conn: Option<u64>,
    message_at: usize,
    line: &'a mut String,
}

impl Visit for LineVisitor<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "sink" => self.sink = u32::try_from(value).unwrap_or(0),
            "severity" => self.level = level_from(value),
            "conn" => self.conn = Some(value),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "message" {
            return;
        }
        head(self.line, self.level);
        if let Some(conn) = self.conn {
            write!(self.line, "*{conn} ").ok();
        }
        self.message_at = self.line.len();
        write!(self.line, "{value:?}").ok();
    }
}

impl LineVisitor<'_> {
    fn deliver(&mut self) {
        let Some(sink) = ErrorSink::find(self.sink) else {
            return;
        };
        let end = floor_char_boundary(self.line, MAX_LINE - 1);
        self.line.truncate(end);
        self.line.push('\n');
        sink.write(self.level, self.line.as_bytes());
        if self.level <= Level::Warn
            && CONSOLE.load(Ordering::Acquire)
            && !sink.has_stderr(self.level)
        {
            let message = self.line.get(self.message_at..).unwrap_or_default();
            let text = format!("nginx: [{}] {message}", name(self.level));
            // Without a terminal there is nobody to tell.
            std::io::stderr().write_all(text.as_bytes()).ok();
        }
    }
}

/// `2026/11/29 19:00:00 [error] 12#34: `
fn head(line: &mut String, level: Level) {
    let date = clock::log_date();
    line.push_str(std::str::from_utf8(&date).unwrap_or_default());
    write!(
        line,
        " [{}] {}#{}: ",
        name(level),
        std::process::id(),
        nix::unistd::gettid()
    )
    .ok();
}

fn floor_char_boundary(text: &str, limit: usize) -> usize {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// The level's word.
fn name(level: Level) -> &'static str {
    match level {
        Level::Emerg => "emerg",
        Level::Alert => "alert",
        Level::Crit => "crit",
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Notice => "notice",
        Level::Info => "info",
        Level::Debug => "debug",
    }
}

fn level_from(number: u64) -> Level {
    match number {
        1 => Level::Emerg,
        2 => Level::Alert,
        3 => Level::Crit,
        4 => Level::Error,
        5 => Level::Warn,
        6 => Level::Notice,
        7 => Level::Info,
        _ => Level::Debug,
    }
}
