//! HTTP/1 on bytes: parsing and writing heads, chunked bodies, URIs. No socket, no clock.
//!
//! Our own parser and not httparse, because nginx's rules are the contract and differ from RFC 9112 in detail: which
//! malformed line is ignored, which gives 400 and with which log line, bare LF, HTTP/0.9, digits in versions.
//! Mirrors `http/ngx_http_parse.c`.

pub mod chunked;
pub mod headers;
pub mod known;
pub mod line;
pub mod request_line;
pub mod status_line;
pub mod uri;
