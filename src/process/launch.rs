//! Going to the background (`daemon on`).
//!
//! Mirrors `ngx_daemon` (`os/unix/ngx_daemon.c`). The process that was called stays until the service is there, so that
//! whoever called it finds its pid file and its sockets, and its exit code says whether it came up.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    process::ExitCode,
};

use super::sys::{self, Fork};

/// Which process this is.
#[derive(Debug)]
pub(super) enum Side {
    /// The one that was called: it ends with this code.
    Parent(ExitCode),
    /// The one that serves.
    Service(Launch),
}

/// Somebody may wait for the service to come up.
#[derive(Debug, Default)]
pub(super) struct Launch(Option<UnixStream>);

impl Launch {
    /// It is up: nobody has to wait any more.
    // DIFFERS(launch): nginx ends as soon as its copy is made, before that has written its pid file.
    pub(super) fn done(self) {
        if let Some(waiting) = self.0 {
            // Whoever does not wait any more does not care.
            (&waiting).write_all(b"+").ok();
        }
    }
}

/// Forks if `wanted`. The error says what failed.
pub(super) fn background(wanted: bool) -> Result<Side, (&'static str, io::Error)> {
    if !wanted {
        return Ok(Side::Service(Launch::default()));
    }
    let (mut parent, child) = UnixStream::pair().map_err(|error| ("socketpair()", error))?;
    match sys::fork().map_err(|error| ("fork()", error))? {
        Fork::Parent(_) => {
            drop(child);
            let came_up = parent.read_exact(&mut [0]).is_ok();
            let code = if came_up {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
            Ok(Side::Parent(code))
        }
        Fork::Child => {
            sys::detach()?;
            Ok(Side::Service(Launch(Some(child))))
        }
    }
}
