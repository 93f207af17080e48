//! Access logs at the end of a request. Mirrors `ngx_http_log_module.c`.

use super::exchange::Exchange;
use crate::log::Place;

/// Writes the request to every access log of its location.
pub(super) fn request(x: &mut Exchange<'_>) {
    if x.request.line.is_empty() && x.response.status == 0 {
        return;
    }
    let location = x.location;
    for log in location.access_log.iter() {
        let place = Place {
            error: x.live.error_sink(location),
            conn: x.conn.id,
            root: Some(&location.core.root),
            cache: location.core.open_log_file_cache,
        };
        let access = x.thread.access.clone();
        access.write(log, x, place);
    }
}
