//! What master and worker say to each other over a socket pair: single bytes to the worker, and from it messages of a byte, a
//! length and text.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{Mutex, PoisonError},
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
    /// Answer when every thread has answered.
    Ping = b'p' as isize,
}

/// What a worker tells the master.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Connections are accepted.
    Ready,
    /// The answer to [`Command::Snapshot`].
    Snapshot(String),
    /// The answer to [`Command::Ping`].
    Pong,
}

/// How long the master waits for a worker's message once it has asked, and for a new worker to accept connections.
const PATIENCE: Duration = Duration::from_millis(200);
const READY_PATIENCE: Duration = Duration::from_secs(2);
/// The longest state that is taken over, bytes.
const MAX_SNAPSHOT: usize = 64 << 20;

/// The master's end.
#[derive(Debug)]
pub(super) struct MasterEnd(UnixStream);

/// The worker's end. Several threads may send.
#[derive(Debug)]
pub(super) struct WorkerEnd {
    stream: UnixStream,
    sending: Mutex<()>,
}

pub(super) fn pair() -> io::Result<(MasterEnd, WorkerEnd)> {
    let (master, worker) = UnixStream::pair()?;
    let worker = WorkerEnd {
        stream: worker,
        sending: Mutex::default(),
    };
    Ok((MasterEnd(master), worker))
}

impl MasterEnd {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn send(&self, command: Command) -> io::Result<()> {
        (&self.0).write_all(&[command as u8])
    }

    /// The next message; None when there is none in time, or the worker is gone. Whatever a worker sends, this returns.
    pub(super) fn receive(&self) -> Option<Message> {
        self.receive_within(PATIENCE)
    }

    /// Waits until the worker accepts connections, within reason. A worker that dies or is slow is noticed elsewhere.
    pub(super) fn wait_ready(&self) {
        while self
            .receive_within(READY_PATIENCE)
            .is_some_and(|message| message != Message::Ready)
        {}
    }

    /// The worker's state, if it answers soon.
    pub(super) fn snapshot(&self) -> Option<String> {
        self.send(Command::Snapshot).ok()?;
        loop {
            if let Message::Snapshot(text) = self.receive()? {
                return Some(text);
            }
        }
    }

    fn receive_within(&self, patience: Duration) -> Option<Message> {
        self.0.set_read_timeout(Some(patience)).ok()?;
        let mut head = [0; 5];
        (&self.0).read_exact(&mut head).ok()?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
        if length > MAX_SNAPSHOT {
            return None;
        }
        let mut text = vec![0; length];
        (&self.0).read_exact(&mut text).ok()?;
        match kind {
            b'+' => Some(Message::Ready),
            b's' => String::from_utf8(text).ok().map(Message::Snapshot),
            b'p' => Some(Message::Pong),
            _ => None,
        }
    }
}

impl WorkerEnd {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The next command; None when the master is gone. Call it when there is something to read.
    pub(super) fn receive(&self) -> Option<Command> {
        let mut byte = [0];
        (&self.stream).read_exact(&mut byte).ok()?;
        match byte[0] {
            b'q' => Some(Command::Quit),
            b't' => Some(Command::Terminate),
            b'r' => Some(Command::Reopen),
            b's' => Some(Command::Snapshot),
            b'p' => Some(Command::Ping),
            _ => None,
        }
    }

    /// A master that is gone or no longer listens goes on without.
    pub(super) fn send(&self, message: &Message) {
        let (kind, text) = match message {
            Message::Ready => (b'+', ""),
            Message::Snapshot(text) => (b's', &**text),
            Message::Pong => (b'p', ""),
        };
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(text.as_bytes());
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        self.stream
            .set_write_timeout(Some(PATIENCE))
            .and_then(|()| (&self.stream).write_all(&bytes))
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
            worker.send(&Message::Ready);
            assert_eq!(worker.receive(), Some(Command::Ping));
            worker.send(&Message::Pong);
            assert_eq!(worker.receive(), Some(Command::Snapshot));
            worker.send(&Message::Snapshot("x".repeat(300_000)));
            assert_eq!(worker.receive(), Some(Command::Quit));
        });
        master.wait_ready();
        // An answer that nobody has waited for is not taken for another.
        master.send(Command::Ping).unwrap();
        assert_eq!(master.snapshot().map(|text| text.len()), Some(300_000));
        master.send(Command::Quit).unwrap();
        answering.join().unwrap();
        assert_eq!(master.snapshot(), None);
    }

    #[test]
    fn nonsense_is_no_message() {
        let (master, worker) = pair().unwrap();
        (&worker.stream)
            .write_all(b"x\0\0\0\0s\xff\xff\xff\xff")
            .unwrap();
        assert_eq!(master.receive(), None);
        assert_eq!(master.receive(), None);
        drop(worker);
        assert_eq!(master.receive(), None);
    }
}
