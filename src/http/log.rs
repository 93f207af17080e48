//! Access logs at the end of a request. Mirrors `ngx_http_log_module.c`.

use std::ops::{Deref, DerefMut};

use super::{exchange::Exchange, phases::CLIENT_CLOSED};
use crate::{common::clock, log::Place};

/// A request that is served. It is logged too when `worker_shutdown_timeout` cuts it off: its task is dropped then.
// Being woken for it would cost each request something.
pub(super) struct Served<'a, 'g> {
    x: &'a mut Exchange<'g>,
    is_over: bool,
}

impl<'a, 'g> Served<'a, 'g> {
    /// The head of the request is known.
    pub(super) fn new(x: &'a mut Exchange<'g>) -> Self {
        Self { x, is_over: false }
    }

    /// The request is over, and somebody else logs it.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }
}

impl<'g> Deref for Served<'_, 'g> {
    type Target = Exchange<'g>;

    fn deref(&self) -> &Exchange<'g> {
        self.x
    }
}

impl<'g> DerefMut for Served<'_, 'g> {
    fn deref_mut(&mut self) -> &mut Exchange<'g> {
        self.x
    }
}

impl Drop for Served<'_, '_> {
    fn drop(&mut self) {
        if self.is_over || !self.x.thread.is_ending() {
            return;
        }
        let now = clock::now().millis();
        if let Some(record) = self.x.attempts.current() {
            let start = record.start;
            record
                .response_time
                .get_or_insert(now.saturating_sub(start));
        }
        if self.x.response.status == 0 && self.x.conn.io.is_stream() {
            self.x.response.status = CLIENT_CLOSED;
        }
        request(self.x);
    }
}

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
