//! Directives that nginx has and headwater does not have yet: each is an error that names it, unless it only turns
//! something off.

mod gateways;
mod http;
mod mail;
mod stream;

pub(super) use gateways::ROWS as GATEWAYS;
pub(super) use http::ROWS as HTTP;
pub(super) use mail::ROWS as MAIL;
pub(super) use stream::ROWS as STREAM;
