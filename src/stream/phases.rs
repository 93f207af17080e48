//! The phases that decide whether a session is served. None of them waits, so they are the same for every kind of client.
//!
//! Mirrors the order of `ngx_stream_init_phase_handlers`: realip, `set`, `limit_conn`, access.

use super::{
    limit_conn,
    session::{Downstream, Session},
};
use crate::{
    common::{addr::Addr, forwarded},
    conf::model::Level,
    net::client::Client,
};

/// Lets the session in, or says with which status it ends.
pub(super) fn admit<D: Downstream>(s: &mut Session<'_, D>) -> Result<(), u16> {
    realip(s);
    for (slot, value) in &s.server.assignments {
        let value = value.to_vec(s);
        s.slots.assign(*slot, Some(value));
    }
    limit_conn::check(s)?;
    access(s)
}

/// Puts the client that a trusted proxy names in place of the proxy. Mirrors `ngx_stream_realip_module.c`.
fn realip<D: Downstream>(s: &mut Session<'_, D>) {
    let Some(header) = &s.proxied else {
        return;
    };
    if !s.server.realip.trusts(&s.peer) {
        return;
    }
    if let Some(Addr::Inet(mut addr)) = forwarded::parse(header.source.as_bytes()) {
        addr.set_port(header.source_port);
        s.client = Client::of(&Addr::Inet(addr));
    }
}

/// `allow`, `deny`. Mirrors `ngx_stream_access_module.c`.
fn access<D: Downstream>(s: &Session<'_, D>) -> Result<(), u16> {
    let mut rules = s.server.access.iter();
    match rules.find(|rule| rule.applies(&s.client.addr)) {
        Some(rule) if !rule.allow => {
            s.log(Level::Error, format_args!("access forbidden by rule"));
            Err(403)
        }
        _ => Ok(()),
    }
}
