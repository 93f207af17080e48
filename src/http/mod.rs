//! http
pub mod buffer;
pub mod h1;
