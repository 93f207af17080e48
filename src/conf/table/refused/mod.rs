//! Directives that nginx has and headwater does not have yet: each is an error that names it, unless it only turns
//! something off.

/// Rows of directives that are not there yet, a line each: what the name begins with, once for all; the rest of the name, where
/// it may stand, its arguments, what it is for.
macro_rules! refused {
    ($prefix:literal; $($name:literal: $contexts:expr, $arguments:expr, $($doc:literal)+;)*) => {
        &[$(Row::refused(concat!($prefix, $name), $contexts, $arguments, concat!($($doc),+))),*]
    };
}

mod gateways;
mod http;
mod mail;
mod stream;

pub(super) use gateways::ROWS as GATEWAYS;
pub(super) use http::ROWS as HTTP;
pub(super) use mail::ROWS as MAIL;
pub(super) use stream::ROWS as STREAM;
