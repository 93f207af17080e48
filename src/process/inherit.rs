//! What the process before this one left open: sockets of an older binary (`NGINX`) or of the service manager (`LISTEN_FDS`),
//! and what the older binary knew of the peers (`HEADWATER_STATE`).
//!
//! Mirrors `ngx_add_inherited_sockets` (`core/nginx.c`), and `sd_listen_fds(3)`.

use std::{
    env,
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{cycle::reporter, sys};
use crate::{
    conf::model::Level,
    log::ErrorSink,
    net::listen::{Listeners, Origin},
};

/// Numbers of sockets, each followed by a semicolon. nginx's name, so that each can take over from the other.
pub(super) const SOCKETS: &str = "NGINX";
/// The number of a file in memory with a snapshot of the peers.
pub(super) const STATE: &str = "HEADWATER_STATE";
/// The longest state that is taken over, bytes.
const MAX_STATE: u64 = 64 << 20;

/// Descriptors that are ours now, and how they came.
#[derive(Debug, Default)]
pub struct Inherited {
    /// The value of [`SOCKETS`].
    text: Option<String>,
    upgraded: Vec<OwnedFd>,
    activated: Vec<OwnedFd>,
    state: Option<String>,
}

impl Inherited {
    /// Takes over what there is. Called once, before anything is opened.
    pub fn take() -> Self {
        let text = env::var(SOCKETS).ok();
        let upgraded = text.as_deref().map_or(Vec::new(), |text| numbers(text).0);
        let activated = sd_notify::listen_fds().map_or(Vec::new(), Iterator::collect);
        let take = |numbers: Vec<RawFd>| {
            let mut taken = numbers;
            taken.sort_unstable();
            taken.dedup();
            taken.into_iter().filter_map(sys::take_descriptor).collect()
        };
        Self {
            text,
            upgraded: take(upgraded),
            activated: take(activated),
            state: env::var(STATE).ok().and_then(|number| read_state(&number)),
        }
    }

    /// Whether an older binary started this one.
    pub(super) fn is_upgrade(&self) -> bool {
        self.text.is_some()
    }

    /// What the older binary knew of the peers.
    pub(super) fn state(&mut self) -> Option<String> {
        self.state.take()
    }

    /// The sockets, for the first cycle.
    pub(super) fn listeners(&mut self, sink: ErrorSink) -> Listeners {
        if let Some(text) = &self.text {
            sink.emit(
                Level::Notice,
                None,
                format_args!("using inherited sockets from \"{text}\""),
            );
            if let Some((rest, ignored)) = numbers(text).1 {
                sink.emit(
                    Level::Emerg,
                    None,
                    format_args!(
                        "invalid socket number \"{rest}\" in {SOCKETS} environment variable, ignoring{ignored}"
                    ),
                );
            }
        }
        let mut report = reporter(sink);
        let upgraded = std::mem::take(&mut self.upgraded);
        let activated = std::mem::take(&mut self.activated);
        let mut listeners = Listeners::inherited(upgraded, Origin::OlderBinary, &mut report);
        listeners.add(activated, Origin::Manager, &mut report);
        listeners
    }
}

/// The numbers of [`SOCKETS`], and what of it is none, with the end of the message about it.
fn numbers(text: &str) -> (Vec<RawFd>, Option<(&str, &'static str)>) {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((number, after)) = rest.split_once([':', ';']) {
        match number.parse() {
            Ok(number) if !rest.starts_with('+') && number >= 0 => found.push(number),
            _ => return (found, Some((rest, " the rest of the variable"))),
        }
        rest = after;
    }
    (found, (!rest.is_empty()).then_some((rest, "")))
}

fn read_state(number: &str) -> Option<String> {
    let mut file = File::from(sys::take_descriptor(number.parse().ok()?)?);
    file.rewind().ok()?;
    let mut text = String::new();
    file.take(MAX_STATE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A file in memory for [`STATE`], which a new binary inherits; None where the system has no memory for it.
pub(super) fn state_file(snapshot: &str) -> Option<(File, RawFd)> {
    let mut file = File::from(memfd_create("headwater-state", MFdFlags::empty()).ok()?);
    file.write_all(snapshot.as_bytes()).ok()?;
    let number = file.as_raw_fd();
    Some((file, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_nginx_reads_them() {
        assert_eq!(numbers("6;7:"), (vec![6, 7], None));
        assert_eq!(numbers(""), (vec![], None));
        assert_eq!(numbers("6;7"), (vec![6], Some(("7", ""))));
        assert_eq!(
            numbers("6;x;8;"),
            (vec![6], Some(("x;8;", " the rest of the variable")))
        );
        assert_eq!(numbers("-6;").0.len(), 0);
        assert_eq!(numbers("+6;").0.len(), 0);
    }

    #[test]
    fn a_state_is_read_back_by_number() {
        let (file, _) = state_file("a\tb\n").unwrap();
        let copy = OwnedFd::from(file.try_clone().unwrap());
        let number = std::os::fd::IntoRawFd::into_raw_fd(copy);
        assert_eq!(read_state(&number.to_string()).as_deref(), Some("a\tb\n"));
        assert_eq!(read_state("x"), None);
        assert_eq!(read_state("1"), None);
    }
}
