//! Variables of the client's TLS.

use crate::{http::exchange::Exchange, tls, vars::VarId};

/// Their values; false where there is none, or no TLS.
pub(super) fn variable(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    let tls = x.conn.io.tls();
    tls.is_some_and(|io| tls::variable(io.session(), id, out))
}
