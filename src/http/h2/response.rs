//! The head of a response on a stream, and the fields behind its body.
//!
//! The order is nginx's; what is about a connection of HTTP/1 is left out, whoever said it. Mirrors
//! `ngx_http_v2_header_filter` (`http/v2/ngx_http_v2_filter_module.c`).

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, LAST_MODIFIED, LOCATION, SERVER, VARY},
};

use crate::{
    common::{clock, date, decimal},
    http::{
        exchange::Exchange,
        h1::{headers::Headers, known::Known},
        output,
    },
};

/// Sends the head of the response.
pub(in crate::http) fn send_head(x: &mut Exchange<'_>) {
    let server = output::server(x);
    let location = output::location(x).map(<[u8]>::to_vec);
    let response = &x.response;
    let mut fields = Fields::default();
    if let Some(server) = &server {
        fields.add(SERVER, server);
    }
    if !response.headers.has(Known::Date) {
        fields.add(DATE, &clock::http_date());
    }
    if !response.content_type.is_empty() {
        fields.add(CONTENT_TYPE, &response.content_type);
    }
    if let Some(length) = response.content_length
        && !response.headers.has(Known::ContentLength)
    {
        let mut text = Vec::with_capacity(20);
        decimal::push(&mut text, length);
        fields.add(CONTENT_LENGTH, &text);
    }
    if let Some(secs) = response.last_modified
        && !response.headers.has(Known::LastModified)
    {
        fields.add(LAST_MODIFIED, &date::http(secs));
    }
    if let Some(location) = &location {
        fields.add(LOCATION, location);
    }
    if response.gzip_vary && x.location.gzip.vary {
        fields.add(VARY, b"Accept-Encoding");
    }
    fields.add_all(&response.headers);
    let is_all =
        response.header_only || (response.content_length == Some(0) && !response.expect_trailers);
    let Ok(status) = StatusCode::from_u16(response.status) else {
        // An upstream's: there is no way to say it.
        x.broken = true;
        return;
    };
    let (size, map) = fields.into_map();
    let mut head = Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = map;
    x.response.header_size = size;
    x.conn.sent += size;
    let chunk = x.location.core.http2_chunk_size;
    if let Some(stream) = x.conn.io.stream() {
        stream.set_chunk(chunk);
        stream.send_head(head, is_all);
    }
}

/// The body is complete: its end is said with its last bytes, or with the trailers.
pub(in crate::http) fn end(x: &mut Exchange<'_>) {
    let mut fields = Fields::default();
    fields.add_all(&x.response.trailers);
    if let Some(stream) = x.conn.io.stream().filter(|stream| !stream.has_ended()) {
        stream.set_trailers(fields.into_map().1);
        x.out.end();
    }
}

/// Fields on their way into the library's map: the values share one buffer.
#[derive(Default)]
struct Fields {
    values: Vec<u8>,
    ends: Vec<(HeaderName, usize)>,
}

impl Fields {
    fn add(&mut self, name: HeaderName, value: &[u8]) {
        self.values.extend_from_slice(value);
        self.ends.push((name, self.values.len()));
    }

    fn add_all(&mut self, headers: &Headers) {
        for (known, name, value) in headers.iter() {
            // A name that is none cannot be said.
            if !is_of_connection(known, name)
                && let Ok(name) = HeaderName::from_bytes(name)
            {
                self.add(name, value);
            }
        }
    }

    /// The map, and how many bytes the fields would be as text.
    // DIFFERS(head-bytes): nginx counts the compressed bytes, which the library does not tell.
    fn into_map(self) -> (u64, HeaderMap) {
        let values = Bytes::from(self.values);
        let mut map = HeaderMap::with_capacity(self.ends.len());
        let (mut start, mut size) = (0, 0);
        for (name, end) in self.ends {
            let value = HeaderValue::from_maybe_shared(values.slice(start..end));
            start = end;
            // Control characters cannot be said.
            if let Ok(value) = value {
                size += name.as_str().len() + value.len() + 4;
                map.append(name, value);
            }
        }
        (size as u64 + 9, map)
    }
}

/// Fields that mean something to the other end of a connection of HTTP/1 only. A client ends a stream that has one.
// DIFFERS(hop-fields): nginx passes on what an upstream says in `Proxy-Connection` and `TE`.
fn is_of_connection(known: Known, name: &[u8]) -> bool {
    matches!(
        known,
        Known::Connection | Known::KeepAlive | Known::TransferEncoding | Known::Upgrade | Known::Te
    ) || name.eq_ignore_ascii_case(b"proxy-connection")
}
