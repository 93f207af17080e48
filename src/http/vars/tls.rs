//! Variables of the client's TLS.

use crate::{http::exchange::Exchange, tls, vars::VarId};

/// Their values; false where there is none, or no TLS.
pub(super) fn variable(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    let facts = x.conn.tls();
    facts.is_some_and(|facts| tls::variable(&facts, id, out))
}
