//! headwater: a drop-in upstream proxy that reads nginx.conf.
//!
//! # The path of a request
//! ```text
//! accept -> connection -> [PROXY line] -> head -> Exchange
//!   -> realip -> server rewrite -> location -> rewrite (at most 10 rounds) -> access -> try_files -> content
//!        content = proxy: Tries { pick a peer -> kept or new connection -> send -> head -> next try or relay } -> release
//!                | return | static file | error page (may go round again)
//!   -> header filters -> body filters -> write -> log -> next request of the connection
//! ```
//!
//! # The modules, each importing only from those above it
//! - [`common`]: addresses, clock and dates, hashes.
//! - [`vars`]: variables and their names, text with variables compiled once, patterns, `map`, `geo`, `split_clients`.
//! - [`conf`]: from the text of a configuration to [`conf::model`]; one table of all directives.
//! - [`net`] and [`log`]: sockets, listeners, the PROXY protocol; access and error logs.
//! - [`upstream`]: peers and how one is picked, tries, kept connections. No I/O.
//! - [`http`]: the engine; HTTP/1 on bytes is in `http::h1`, proxying in `http::proxy`.
//! - [`stream`]: the engine for connections that are passed on as they are.
//! - [`runtime`]: a generation of the configuration and the threads that serve it.
//! - [`process`]: master and worker, signals, privileges.
//! - [`cli`]: the command line.
//!
//! `common`, `vars`, `conf`, `upstream` and `http::h1` are functions over values: what time it is and random numbers are
//! arguments. A configuration is read into an immutable model; a generation of live things is built from it; each request
//! keeps the generation that it began with.

pub mod cli;
pub mod common;
pub mod conf;
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod log;
pub mod net;
pub mod process;
pub mod runtime;
pub mod stream;
pub mod tls;
pub mod upstream;
pub mod vars;
