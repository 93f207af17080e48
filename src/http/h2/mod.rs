//! HTTP/2 from clients: a connection, and the requests on its streams.
//!
//! ```text
//! socket -> Gate { Scanner: frames, heads, floods } -> h2 (streams, windows) -> a task per stream -> Exchange -> phases
//!          Outgoing: heads     } <-
//! ```
//! The frames, windows and streams are the library's; heads are read here, because nginx answers what the library refuses,
//! and made here, because that costs a third of the library's way.
//! Mirrors `http/v2/ngx_http_v2.c`.

pub(super) mod block;
mod codes;
pub mod fault;
pub(super) mod frame;
mod gate;
pub mod hpack;
pub mod huffman;
pub(super) mod outgoing;
mod primitives;
mod request;
mod response;
mod runner;
pub mod scanner;
mod serve;
mod statics;
mod stream;
mod table;
pub(super) mod writer;

pub(super) use response::{end, send_head, send_hints};
pub(super) use runner::Runners;
pub(super) use serve::{Job, serve};
pub(super) use stream::Stream;
