//! HTTP: the engine from a client's connection to the log line.
//!
//! ```text
//! connection -> head -> Exchange -> phases { realip, rewrite, location, access, try_files, content } -> output -> log
//! ```
//! [`Live`] is what the threads of a worker share, [`Thread`] what one of them owns. HTTP/1 is ours in both directions.

mod access;
mod body;
mod conn;
mod connection;
mod content;
mod counts;
mod down;
mod error_page;
mod exchange;
mod filters;
mod grpc;
pub mod h1;
pub mod h2;
mod head;
mod limits;
mod live;
mod log;
mod out;
mod output;
mod phases;
mod proxy;
mod realip;
mod request;
mod response;
mod rewrite;
mod route;
mod status;
mod temp_file;
mod thread;
mod tls;
mod vars;

pub use live::Live;
pub use proxy::pool::watch;
pub use thread::Thread;
