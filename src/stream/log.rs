//! Access logs at the end of a session. Mirrors `ngx_stream_log_module.c`.

use super::session::{Downstream, Session};
use crate::log::Place;

/// Writes the session to every access log of its server.
pub(super) fn session<D: Downstream>(s: &mut Session<'_, D>) {
    let server = s.server;
    let thread = s.thread;
    for log in &*server.access_log {
        let place = Place {
            error: s.sink(),
            conn: s.number,
            root: None,
            cache: server.core.open_log_file_cache,
        };
        thread.access.write(log, s, place);
    }
    // Who sees the connection end finds the line in the log.
    thread.access.flush_lines();
}
