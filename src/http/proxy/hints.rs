//! Early hints: responses of status 103 on their way to the client.
//!
//! Mirrors `ngx_http_upstream_process_early_hints` and the filters of early hints.

use super::headers::is_hidden;
use crate::{
    conf::model::{Level, Proxy},
    http::{
        exchange::Exchange,
        h1::{headers::Headers, known::Known},
        h2,
        out::Piece,
        output::field,
    },
};

/// Sends hints on, if `early_hints` says so. `length` counts all of a try, which `proxy_buffer_size` bounds.
pub(super) async fn send(x: &mut Exchange<'_>, proxy: &Proxy, hints: &Headers, length: &mut usize) {
    let size = hints
        .iter()
        .map(|(_, name, value)| name.len() + value.len() + 4);
    *length += size.sum::<usize>();
    if *length > proxy.buffer_size {
        x.log(
            Level::Info,
            format_args!("upstream sent too big early hints"),
        );
        return;
    }
    let is_shown = |(known, name, _): &(Known, &[u8], &[u8])| {
        !is_hidden(proxy, *known, name) && !h2::block::is_of_connection(*known, name)
    };
    let mut shown = hints.iter().filter(is_shown).peekable();
    if shown.peek().is_none() || x.request.version < 1001 || !are_wanted(x) {
        return;
    }
    let sent = x.conn.sent;
    if x.conn.io.is_stream() {
        h2::send_hints(x, shown);
    } else {
        let mut bytes = b"HTTP/1.1 103 Early Hints\r\n".to_vec();
        for (_, name, value) in shown {
            field(&mut bytes, name, value);
        }
        bytes.extend_from_slice(b"\r\n");
        let mut out = std::mem::take(&mut x.out);
        out.push(Piece::Vec(bytes, 0));
        // Whether the client is gone, the response finds out.
        drop(x.conn.flush(&mut out, x.location.core.send_timeout).await);
        x.out = out;
    }
    // DIFFERS(continue): they do not count in $bytes_sent either.
    x.sent_before += x.conn.sent - sent;
}

/// Whether a value of `early_hints` is neither empty nor 0.
fn are_wanted(x: &mut Exchange<'_>) -> bool {
    let location = x.location;
    let mut values = location.core.early_hints.iter();
    values.any(|value| {
        let value = value.to_vec(x);
        !value.is_empty() && value != b"0"
    })
}
