//! What master and worker say to each other over a socket pair: single bytes, and the peers' state as text.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

/// What the master tells a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Finish what is there.
    Quit = b'q' as isize,
    /// Stop at once.
    Terminate = b't' as isize,
    /// Open the logs again.
    Reopen = b'r' as isize,
    /// Answer with what is known of the peers.
    Snapshot = b's' as isize,
}

/// How long the master waits for a worker's state, and for a new worker to accept connections.
const SNAPSHOT_PATIENCE: Duration = Duration::from_millis(200);
const READY_PATIENCE: Duration = Duration::from_secs(2);
/// The longest state that is taken over, bytes.
const MAX_SNAPSHOT: usize = 64 << 20;

/// The master's end.
#[derive(Debug)]
pub(super) struct MasterEnd(UnixStream);

/// The worker's end.
#[derive(Debug)]
pub(super) struct WorkerEnd(UnixStream);

pub(super) fn pair() -> io::Result<(MasterEnd, WorkerEnd)> {
    let (master, worker) = UnixStream::pair()?;
    Ok((MasterEnd(master), WorkerEnd(worker)))
}

impl MasterEnd {
    pub(super) fn send(&self, command: Command) -> io::Result<()> {
        (&self.0).write_all(&[command as u8])
    }

    /// Waits until the worker accepts connections, within reason.
    pub(super) fn wait_ready(&self) {
        let mut byte = [0];
        // A worker that dies or is slow is noticed elsewhere.
        self.0
            .set_read_timeout(Some(READY_PATIENCE))
            .and_then(|()| (&self.0).read_exact(&mut byte))
            .ok();
    }

    /// The worker's state, if it answers soon.
    pub(super) fn snapshot(&self) -> Option<String> {
        self.0.set_read_timeout(Some(SNAPSHOT_PATIENCE)).ok()?;
        self.send(Command::Snapshot).ok()?;
        let mut length = [0; 4];
        (&self.0).read_exact(&mut length).ok()?;
        let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
        if length > MAX_SNAPSHOT {
            return None;
        }
        let mut text = vec![0; length];
        (&self.0).read_exact(&mut text).ok()?;
        String::from_utf8(text).ok()
    }
}

impl WorkerEnd {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The next command; None when the master is gone. Call it when there is something to read.
    pub(super) fn receive(&self) -> Option<Command> {
        let mut byte = [0];
        (&self.0).read_exact(&mut byte).ok()?;
        match byte[0] {
            b'q' => Some(Command::Quit),
            b't' => Some(Command::Terminate),
            b'r' => Some(Command::Reopen),
            b's' => Some(Command::Snapshot),
            _ => None,
        }
    }

    /// Connections are accepted.
    pub(super) fn ready(&self) {
        // A master that is gone does not care.
        (&self.0).write_all(b"+").ok();
    }

    /// Answers [`Command::Snapshot`].
    pub(super) fn answer(&self, text: &str) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        // A master that no longer listens goes on without.
        self.0
            .set_write_timeout(Some(SNAPSHOT_PATIENCE))
            .and_then(|()| (&self.0).write_all(&length.to_be_bytes()))
            .and_then(|()| (&self.0).write_all(text.as_bytes()))
            .ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_crosses_and_a_dead_worker_has_none() {
        let (master, worker) = pair().unwrap();
        let answering = std::thread::spawn(move || {
            worker.ready();
            assert_eq!(worker.receive(), Some(Command::Snapshot));
            worker.answer(&"x".repeat(300_000));
            assert_eq!(worker.receive(), Some(Command::Quit));
        });
        master.wait_ready();
        assert_eq!(master.snapshot().map(|text| text.len()), Some(300_000));
        master.send(Command::Quit).unwrap();
        answering.join().unwrap();
        assert_eq!(master.snapshot(), None);
    }
}
