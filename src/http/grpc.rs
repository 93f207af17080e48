//! What a gRPC client is told where others get a page.
//!
//! DIFFERS(grpc-status): nginx sends its page, of which a client can show nothing but the number of the status.

use super::{exchange::Exchange, h1::known::Known, output, phases::Next, status};
use crate::conf::model::Handler;

/// Whether the client has made a call, and of an upstream.
pub(super) fn is_call(x: &Exchange<'_>) -> bool {
    let is_grpc = |value: &[u8]| {
        let rest = value.strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    };
    matches!(x.location.handler, Handler::Grpc)
        && x.conn.io.is_stream()
        && x.request
            .headers
            .get(Known::ContentType)
            .is_some_and(is_grpc)
}

/// Answers with a head that is all of the response. The status stays, for logs and for who counts it.
pub(super) async fn refuse<'g>(x: &mut Exchange<'g>, code: u16) -> Next<'g> {
    let response = &mut x.response;
    response.content_type = b"application/grpc".to_vec();
    response.plain_type = true;
    let number = status_of(code).to_string();
    let headers = &mut response.headers;
    headers.push(Known::Other, b"grpc-status", number.as_bytes());
    let text = status::line(code).map_or_else(|| code.to_string(), str::to_owned);
    headers.push(Known::Other, b"grpc-message", text.as_bytes());
    response.content_length = Some(0);
    output::send_body(x, Vec::new()).await
}

/// The status that clients make of one of HTTP (gRPC, `doc/http-grpc-status-mapping.md`).
fn status_of(code: u16) -> u8 {
    match code {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502..=504 => 14,
        _ => 2,
    }
}
