//! What responders say of certificates: of a server's own, for its clients (stapling), and of clients' certificates.
//!
//! What is asked and what an answer means is here; who goes and asks is [`crate::net::responder`]'s business, and who lets it
//! that of `http` and `stream`. Mirrors `event/ngx_event_openssl_stapling.c`.

mod cache;
mod clients;
mod staple;

use std::fmt;

use crate::{common::addr::Addr, conf::model::Level};

pub(super) use cache::Cache;
pub use cache::Statuses;
pub use clients::Doubt;
pub(super) use clients::{Asker, Clients};
pub use staple::Staple;
pub(super) use staple::{from_file, staple};

/// What a responder has answered, and at which of its addresses; None when it has not.
pub type Answer = Option<(Vec<u8>, Addr)>;

/// Takes lines for the error log.
pub type Report<'a> = dyn Fn(Level, fmt::Arguments<'_>) + 'a;
