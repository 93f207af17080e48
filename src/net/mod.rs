//! Sockets: listeners, connections to peers, and one type for a connection of any kind.

mod bind;
pub mod client;
pub mod connect;
pub mod datagrams;
pub mod handshake;
mod io;
pub mod listen;
pub mod proxy_protocol;
pub mod resolver;
pub mod responder;
mod sockopt;
pub mod splice;
mod timer;
pub mod tls;
mod watch;

pub use connect::{ConnectError, ConnectOptions, connect};
pub use io::{Arrival, Io, TcpInfo, serial};
pub use timer::Timer;
pub use tls::TlsIo;
pub use watch::{Event, Watch};
