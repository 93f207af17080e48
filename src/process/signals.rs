//! Signals as events: who sent what, read from a pipe together with other descriptors.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGIO, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH},
    iterator::{backend::SignalDelivery, exfiltrator::WithOrigin},
};

/// All signals that mean something to us.
const SIGNALS: [i32; 9] = [
    SIGHUP, SIGUSR1, SIGWINCH, SIGTERM, SIGQUIT, SIGUSR2, SIGINT, SIGIO, SIGCHLD,
];

/// Takes over the process's signals while it lives.
#[derive(Debug)]
pub(super) struct Signals(SignalDelivery<UnixStream, WithOrigin>);

/// One signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    /// Its number.
    pub(super) number: i32,
    /// The process that sent it, if the system says.
    pub(super) from: Option<i32>,
}

impl Received {
    /// `signal 15 (SIGTERM) received from 123, exiting`; `action` is what comes last.
    pub(super) fn describe(&self, action: &str) -> String {
        let number = self.number;
        let name = Signal::try_from(number).map_or("", Signal::as_str);
        let from = match self.from {
            Some(pid) if pid != 0 => format!(" from {pid}"),
            _ => String::new(),
        };
        format!("signal {number} ({name}) received{from}{action}")
    }
}

/// What ended a wait.
#[derive(Debug, Default)]
pub(super) struct Woken {
    pub(super) signals: Vec<Received>,
    /// For each descriptor that was waited for, whether there is something to read.
    pub(super) ready: Vec<bool>,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        SignalDelivery::with_pipe(read, write, WithOrigin::default(), SIGNALS).map(Self)
    }

    /// Waits for signals, for one of `fds` to become readable, or until `timeout` is over.
    pub(super) fn wait(&mut self, fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Woken {
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            // Rounded up, or the last millisecond would be spent spinning.
            let millis = timeout.as_micros().div_ceil(1000);
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        let mut polled = vec![PollFd::new(self.0.get_read().as_fd(), PollFlags::POLLIN)];
        polled.extend(fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)));
        // An interruption is a signal, which is looked for below.
        poll(&mut polled, timeout).ok();
        let ready = polled
            .iter()
            .skip(1)
            .map(|fd| fd.any().unwrap_or(false))
            .collect();
        let signals = self.0.pending().map(|origin| Received {
            number: origin.signal,
            from: origin.process.map(|process| process.pid),
        });
        Woken {
            signals: signals.collect(),
            ready,
        }
    }
}

/// Holds back all signals of this thread, so that none is lost between a fork and the child's [`Signals`], and none
/// interrupts a thread that serves connections.
pub(super) fn block() -> io::Result<()> {
    mask(SigmaskHow::SIG_BLOCK)
}

/// Ends [`block`].
pub(super) fn unblock() -> io::Result<()> {
    mask(SigmaskHow::SIG_UNBLOCK)
}

fn mask(how: SigmaskHow) -> io::Result<()> {
    let set: SigSet = SIGNALS
        .iter()
        .filter_map(|&number| Signal::try_from(number).ok())
        .collect();
    pthread_sigmask(how, Some(&set), None).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_nginx_s() {
        let received = Received {
            number: SIGTERM,
            from: Some(12),
        };
        assert_eq!(
            received.describe(", exiting"),
            "signal 15 (SIGTERM) received from 12, exiting"
        );
        let unknown = Received {
            number: SIGCHLD,
            from: None,
        };
        assert_eq!(unknown.describe(""), "signal 17 (SIGCHLD) received");
    }
}
