//! What the library's errors mean for a try, and nginx's words for them.

use std::io;

use h2::Reason;
use nix::errno::Errno;

use crate::{
    conf::model::Level,
    http::{
        exchange::Exchange,
        proxy::{attempt::Fail, tries},
    },
};

/// Why a body breaks off.
#[derive(Debug)]
pub(in crate::http::proxy) enum Cut {
    /// The stream was reset with this code.
    Reset(u32),
    /// More came for this stream after all had been said.
    Closed(u32),
    /// The library has given it up.
    Library(h2::Error),
}

/// Logs why a body breaks off.
pub(in crate::http::proxy) fn cut(x: &Exchange<'_>, cut: &Cut) {
    match cut {
        Cut::Reset(code) => rejected(x, *code),
        Cut::Closed(stream) => x.log(
            Level::Error,
            format_args!("upstream sent frame for closed stream {stream}"),
        ),
        Cut::Library(error) => drop(fail(x, error)),
    }
}

fn rejected(x: &Exchange<'_>, code: u32) {
    x.log(
        Level::Error,
        format_args!("upstream rejected request with error {code}"),
    );
}

/// Logs what went wrong with a stream, or with all of its connection.
pub(in crate::http::proxy) fn fail(x: &Exchange<'_>, error: &h2::Error) -> Fail {
    let code = error.reason().map_or(0, u32::from);
    if let Some(io) = error.get_io() {
        return broken(x, io);
    }
    if is_unprocessed(error) {
        let text = if error.is_reset() {
            "upstream refused the stream"
        } else {
            "upstream is closing the connection"
        };
        x.log(
            Level::Info,
            format_args!("{text} before it has looked at the request"),
        );
        return Fail::Unprocessed;
    }
    match (error.is_remote(), error.is_go_away()) {
        (true, true) => x.log(
            Level::Error,
            format_args!("upstream sent goaway with error {code}"),
        ),
        (true, false) => rejected(x, code),
        (false, _) => x.log(
            Level::Error,
            format_args!("upstream sent invalid http2 response: {error}"),
        ),
    }
    Fail::InvalidHeader
}

/// Whether the peer has said that it did nothing about the request (RFC 9113, 8.7).
fn is_unprocessed(error: &h2::Error) -> bool {
    let reason = error.reason();
    error.is_remote()
        && (error.is_go_away() && reason == Some(Reason::NO_ERROR)
            || error.is_reset() && reason == Some(Reason::REFUSED_STREAM))
}

/// The connection has failed. Of the system's error the library keeps the kind only.
fn broken(x: &Exchange<'_>, error: &io::Error) -> Fail {
    match error.kind() {
        io::ErrorKind::InvalidData => {
            x.log(Level::Error, format_args!("upstream sent {error}"));
            return Fail::InvalidHeader;
        }
        io::ErrorKind::ConnectionReset => {
            tries::log_recv(x, &io::Error::from_raw_os_error(Errno::ECONNRESET as i32));
        }
        io::ErrorKind::TimedOut => {
            tries::log_recv(x, &io::Error::from_raw_os_error(Errno::ETIMEDOUT as i32));
        }
        _ => x.log(
            Level::Error,
            format_args!("upstream prematurely closed connection"),
        ),
    }
    Fail::Error
}
