//! Directives that nginx has and headwater does not have yet: each is an error that names it.

mod gateways;
mod http;
mod mail;
mod stream;

use super::Row;

/// All of them, by area.
pub(super) const AREAS: [&[Row]; 4] = [http::ROWS, gateways::ROWS, stream::ROWS, mail::ROWS];
