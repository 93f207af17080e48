//! Variables of the client's TLS.

use crate::{http::exchange::Exchange, tls, vars::VarId};

/// Their values; false where there is none, or no TLS.
pub(super) fn variable(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    let value = |facts: &tls::Facts<'_>| tls::variable(facts, id, out);
    x.conn.with_tls(value).unwrap_or(false)
}
