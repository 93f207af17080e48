//! `allow`, `deny`, `satisfy`. Mirrors `ngx_http_access_module.c`.

use super::{exchange::Exchange, phases::Next};
use crate::{
    common::addr::Addr,
    conf::model::{AccessRule, AccessSubject, Level},
};

/// Whether the client may go on.
pub(super) fn check<'g>(x: &Exchange<'g>) -> Result<(), Next<'g>> {
    let rule = x
        .location
        .access
        .iter()
        .find(|rule| applies(rule, &x.client.addr));
    match rule {
        Some(rule) if !rule.allow => {
            x.log(Level::Error, format_args!("access forbidden by rule"));
            Err(Next::Status(403))
        }
        _ => Ok(()),
    }
}

fn applies(rule: &AccessRule, client: &Addr) -> bool {
    match (&rule.subject, client) {
        (AccessSubject::All, _) | (AccessSubject::Unix, Addr::Unix(_)) => true,
        (AccessSubject::Net(net), Addr::Inet(addr)) => {
            net.contains(&addr.ip().to_canonical()) || net.contains(&addr.ip())
        }
        _ => false,
    }
}
