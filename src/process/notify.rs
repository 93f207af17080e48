//! What the service manager is told (`sd_notify(3)`), when there is one that asks (`NOTIFY_SOCKET`).

use std::time::Duration;

use sd_notify::NotifyState;

use crate::common::clock::{self, Now};

/// It serves; `status` is for people.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// A reload begins; it ends with [`ready`], also when it failed.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// It ends.
pub(super) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Another process goes on as this service.
pub(super) fn hand_over(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
}

/// All is well; to be said while a [`Watchdog`] watches.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// A manager that does not listen is no reason to serve nobody.
fn tell(states: &[NotifyState<'_>]) {
    sd_notify::notify(states).ok();
}

/// When the manager wants to hear that all is well (`WATCHDOG_USEC`).
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Half of the time after which a silent service is dead to it; None: it does not watch.
    pause: Option<Duration>,
    next: Option<Now>,
}

impl Watchdog {
    pub(super) fn new() -> Self {
        let pause = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        Self {
            pause,
            next: pause.map(|_| clock::now()),
        }
    }

    /// How long until [`is_due`](Self::is_due).
    pub(super) fn next(&self) -> Option<Duration> {
        self.next.map(|at| at.since(clock::now()))
    }

    /// Whether it is time to look whether all is well; true once a pause.
    pub(super) fn is_due(&mut self) -> bool {
        let now = clock::now();
        let due = self.next.is_some_and(|at| at <= now);
        if due {
            self.next = self.pause.map(|pause| now.after(pause));
        }
        due
    }
}
