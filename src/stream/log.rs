//! Access logs at the end of a session. Mirrors `ngx_stream_log_module.c`.

use super::session::{Downstream, Session};
use crate::log::Place;

/// Writes the session to every access log of its server; who sees the connection end finds the line there.
pub(super) fn session<D: Downstream>(s: &mut Session<'_, D>) {
    lines(s);
    s.thread.access.flush_lines();
}

/// Writes the session to every access log of its server. The lines are to be flushed.
pub(super) fn lines<D: Downstream>(s: &mut Session<'_, D>) {
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
}
