//! HTTP/2 to upstreams: `proxy_http_version 2` and `grpc_pass`.
//!
//! ```text
//! Head (fields, made once) -> Mux { Line per connection, shared } -> Stream { Upload | head, DATA, trailers } -> relay
//! ```
//! Requests to the same peer share a connection, whose frames, windows and streams are the library's; each is a try with a
//! peer of its own, so that balancing counts requests and not connections. The request goes on being sent while the
//! response comes. Mirrors `ngx_http_grpc_module.c` and `ngx_http_proxy_v2_module.c`.
//!
//! DIFFERS(multiplexed): nginx has one request at a time on a connection.

mod attempt;
mod fault;
mod gate;
mod heads;
mod line;
mod mux;
mod request;
mod response;
mod stream;
mod upload;

pub(super) use fault::{Cut, cut};
pub(super) use mux::Mux;
pub(super) use request::{Head, build};
pub(super) use response::trailers;
pub(super) use stream::Stream;
