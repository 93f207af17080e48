//! What every layer may use: addresses, clocks and their formats, hashes. Nothing here knows of HTTP or of configuration.

pub mod addr;
pub mod buffer;
pub(crate) mod bytes;
pub mod clock;
pub mod date;
pub mod decimal;
pub mod errno;
pub mod forwarded;
pub mod hash;
pub mod host;
pub mod occupancy;
pub mod prefetch;
pub mod random;
pub mod rates;
pub mod recycle;
