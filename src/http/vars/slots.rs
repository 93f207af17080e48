//! The configuration's own variables: `set`, `map`, `geo`, `split_clients`. Each is computed once in a request.

use std::net::IpAddr;

use super::{put, put_some};
use crate::{
    common::addr::Addr,
    conf::model::{Level, SlotSource},
    http::exchange::Exchange,
    vars::{SlotId, geo::Geo, map::Map},
};

/// Appends the value of a variable; false when it has none.
pub(super) fn value(x: &mut Exchange<'_>, slot: SlotId, out: &mut Vec<u8>) -> bool {
    let live = x.live;
    let Some(definition) = live.http().slots.get(slot.0 as usize) else {
        return false;
    };
    match &definition.source {
        SlotSource::Assigned => {
            if let Some(value) = x.slot(slot, |_| None) {
                put(out, value)
            } else {
                if x.location.uninitialized_variable_warn {
                    let name = &definition.name;
                    x.log(
                        Level::Warn,
                        format_args!("using uninitialized \"{name}\" variable"),
                    );
                }
                x.assign(slot, Some(Vec::new()));
                true
            }
        }
        SlotSource::Map(map) => {
            let value = x.slot(slot, |x| Some(map_value(x, map)));
            let found = put_some(out, value);
            if map.is_volatile() {
                x.forget_computed(slot);
            }
            found
        }
        SlotSource::Geo(geo) => {
            let value = x.slot(slot, |x| Some(geo_value(x, geo)));
            let found = put_some(out, value);
            if geo.is_volatile() {
                x.forget_computed(slot);
            }
            found
        }
        SlotSource::SplitClients(split) => {
            let value = x.slot(slot, |x| {
                let key = split.key().to_vec(x);
                split.lookup(&key).map(<[u8]>::to_vec)
            });
            put_some(out, value)
        }
    }
}

fn map_value(x: &mut Exchange<'_>, map: &Map) -> Vec<u8> {
    let key = map.key().to_vec(x);
    let hit = map.lookup(&key);
    if let Some((pattern, captures)) = hit.captures {
        x.set_captures(pattern, &key, captures);
    }
    hit.value.to_vec(x)
}

fn geo_value(x: &mut Exchange<'_>, geo: &Geo) -> Vec<u8> {
    let source = match geo.variable() {
        Some(template) => {
            let text = template.to_vec(x);
            std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse::<IpAddr>().ok())
                .map(|ip| Addr::Inet((ip, 0u16).into()))
        }
        None => Some(x.client.addr.clone()),
    };
    let mut forwarded = Vec::new();
    x.request
        .headers
        .join_variable("x_forwarded_for", b", ", &mut forwarded);
    geo.lookup(source.as_ref(), &forwarded).to_vec()
}
