//! The stream engine: connections and datagrams that are passed on as they are.
//!
//! ```text
//! accept -> Session -> [PROXY line] -> realip -> set -> limit_conn -> access -> preread
//!   -> content = proxy: Tries { pick a peer -> connect -> next try } -> relay
//!              | return | pass: another listener takes over
//!   -> log
//! ```
//! Datagrams come in at `udp`, which has no preread and a relay of its own.
//!
//! A `Session` holds what is known of a client whatever its bytes come by; only the phases that read
//! or write know the kind of connection. Mirrors `stream/ngx_stream_handler.c` and `stream/ngx_stream_core_module.c`.

mod connection;
mod content;
mod limit_conn;
mod live;
mod log;
mod phases;
pub(crate) mod preread;
mod proxy;
mod proxy_line;
mod session;
mod thread;
mod tls;
mod udp;
mod vars;

pub use connection::{Passed, Past};
pub use live::Live;
pub use thread::Thread;
