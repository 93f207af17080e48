//! A log file: appended to, reopened by name, written by a thread of its own once there is one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

use super::open_failed;
use crate::common::{clock, errno::Errno};

/// Who must own a reopened log file: a user's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub u32);

/// Whether lines are written at once or by threads.
#[derive(Debug, Default)]
pub(super) struct Mode {
    threads: AtomicBool,
}

impl Mode {
    pub(super) fn start(&self) {
        self.threads.store(true, Ordering::Release);
    }
}

/// How many pieces may wait for a file's thread; then whoever logs waits.
const QUEUE: usize = 1024;
/// How long an exit waits for a file that does not take its lines, such as a pipe that nobody reads.
const PATIENCE: Duration = Duration::from_secs(10);

/// One open log file.
#[derive(Debug)]
pub(super) struct LogFile {
    path: Option<Arc<Path>>,
    mode: Arc<Mode>,
    out: Arc<Out>,
    queued: AtomicU64,
    thread: OnceLock<(NonBlocking, WorkerGuard)>,
}

/// What the file's thread shares with the others.
#[derive(Debug)]
struct Out {
    file: Mutex<Option<File>>,
    written: AtomicU64,
    /// The second in which the disk was full: nothing is tried until it is over.
    full_at: AtomicI64,
}

impl LogFile {
    /// Opens `path` for appending. The error is nginx's message.
    pub(super) fn open(path: &Arc<Path>, mode: Arc<Mode>) -> Result<Self, String> {
        let file = open_append(path).map_err(|error| open_failed(path, &error))?;
        Ok(Self::new(Some(path.clone()), Some(file), mode))
    }

    /// The process's standard error.
    pub(super) fn stderr(mode: Arc<Mode>) -> Self {
        Self::new(None, None, mode)
    }

    fn new(path: Option<Arc<Path>>, file: Option<File>, mode: Arc<Mode>) -> Self {
        Self {
            path,
            mode,
            out: Arc::new(Out {
                file: Mutex::new(file),
                written: AtomicU64::new(0),
                full_at: AtomicI64::new(i64::MIN),
            }),
            queued: AtomicU64::new(0),
            thread: OnceLock::new(),
        }
    }

    /// Writes whole lines, now or soon. Waits when the file's thread is far behind, and never drops them.
    pub(super) fn write(&self, lines: &[u8]) {
        if !self.mode.threads.load(Ordering::Acquire) {
            self.out.append(lines);
            return;
        }
        let (writer, _) = self.thread.get_or_init(|| {
            NonBlockingBuilder::default()
                .lossy(false)
                .buffered_lines_limit(QUEUE)
                .thread_name("log")
                .finish(Appender(self.out.clone()))
        });
        self.queued.fetch_add(1, Ordering::AcqRel);
        if writer.clone().write_all(lines).is_err() {
            self.out.append(lines);
            self.out.written.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Writes whole lines now. This is nginx's way, and cheaper than waking a thread for each turn of the event loop;
    /// the price is that a stalled disk stalls the thread.
    pub(super) fn append(&self, lines: &[u8]) {
        self.out.append(lines);
    }

    /// Waits until everything handed over is written.
    pub(super) fn flush(&self) {
        let deadline = clock::now().after(PATIENCE);
        let queued = self.queued.load(Ordering::Acquire);
        while self.out.written.load(Ordering::Acquire) < queued && clock::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Opens the file again by its name. The error is nginx's message; the old file is kept then.
    pub(super) fn reopen(&self, owner: Option<Owner>) -> Result<(), String> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        self.flush();
        let file = open_append(path).map_err(|error| open_failed(path, &error))?;
        if let Some(owner) = owner {
            give_to(path, &file, owner)?;
        }
        *self.out.lock() = Some(file);
        Ok(())
    }

    /// Makes the process's standard error a copy of this file.
    pub(super) fn become_stderr(&self) -> io::Result<()> {
        match &*self.out.lock() {
            Some(file) => nix::unistd::dup2_stderr(file).map_err(io::Error::from),
            None => Ok(()),
        }
    }
}

/// As nginx opens its logs: created where missing, mode 0644.
pub(super) fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .open(path)
}

/// The file must belong to the worker's user and be readable and writable by it, or the worker cannot reopen it.
fn give_to(path: &Path, file: &File, Owner(uid): Owner) -> Result<(), String> {
    let shown = path.display();
    let info = file
        .metadata()
        .map_err(|error| format!("stat() \"{shown}\" failed ({})", Errno(&error)))?;
    if info.uid() != uid {
        std::os::unix::fs::chown(path, Some(uid), None)
            .map_err(|error| format!("chown(\"{shown}\", {uid}) failed ({})", Errno(&error)))?;
    }
    let mode = info.permissions().mode();
    if mode & 0o600 != 0o600 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o600))
            .map_err(|error| format!("chmod() \"{shown}\" failed ({})", Errno(&error)))?;
    }
    Ok(())
}

impl Out {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, lines: &[u8]) {
        let second = clock::wall().secs;
        if self.full_at.load(Ordering::Relaxed) == second {
            return;
        }
        let result = match &mut *self.lock() {
            Some(file) => file.write_all(lines),
            None => io::stderr().write_all(lines),
        };
        // Nowhere to report it to: this may be the error log itself.
        if result.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull) {
            self.full_at.store(second, Ordering::Relaxed);
        }
    }
}

/// The end that a file's thread holds.
struct Appender(Arc<Out>);

impl Write for Appender {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.append(lines);
        self.0.written.fetch_add(1, Ordering::AcqRel);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
