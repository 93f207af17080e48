//! `allow`, `deny`, `satisfy`. Mirrors `ngx_http_access_module.c`.

use super::{exchange::Exchange, phases::Next};
use crate::conf::model::Level;

/// Whether the client may go on.
pub(super) fn check<'g>(x: &Exchange<'g>) -> Result<(), Next<'g>> {
    let rule = x
        .location
        .access
        .iter()
        .find(|rule| rule.applies(&x.client.addr));
    match rule {
        Some(rule) if !rule.allow => {
            x.log(Level::Error, format_args!("access forbidden by rule"));
            Err(Next::Status(403))
        }
        _ => Ok(()),
    }
}
