//! Sockets: listeners, connections to peers, and one type for a connection of any kind.

mod bind;
pub mod client;
pub mod connect;
mod io;
pub mod listen;
pub mod proxy_protocol;
pub mod resolver;
mod sockopt;
pub mod splice;
mod timer;

pub use connect::{ConnectError, ConnectOptions, connect};
pub use io::{Arrival, Io, TcpInfo};
pub use timer::Timer;
