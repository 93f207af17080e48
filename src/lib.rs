//! headwater: a drop-in upstream proxy that reads nginx.conf.

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
pub mod upstream;
pub mod vars;
