//! The configuration's own variables in one request or session: `set`, `map`, `geo`, `split_clients`, and what patterns
//! captured. Each is computed once, when it is asked for.
//!
//! Mirrors `ngx_http_get_indexed_variable` and `ngx_http_map_variable` with its sisters, and their stream twins.

use std::{net::IpAddr, sync::Arc};

use super::{
    BoundPattern, SlotId, Source, geo::Geo, map::Map, pattern::Captures,
    split_clients::SplitClients,
};
use crate::common::addr::Addr;

/// A variable that the configuration defines.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Name without `$`.
    pub name: Arc<str>,
    /// Where its value comes from until something assigns it.
    pub source: SlotSource,
}

/// Where a [`Slot`] gets its value.
#[derive(Clone, Debug)]
pub enum SlotSource {
    /// `set` or a named capture: nothing until assigned.
    Assigned,
    /// `map`
    Map(Arc<Map>),
    /// `geo`
    Geo(Arc<Geo>),
    /// `split_clients`
    SplitClients(Arc<SplitClients>),
}

/// The values of all slots in one request or session, and the captures of the last pattern that matched.
#[derive(Debug)]
pub struct Slots {
    /// How many the configuration has.
    count: usize,
    /// Without memory until one is asked for.
    states: Vec<State>,
    captures: Captures,
    captured: Vec<u8>,
}

/// Value of a variable of the configuration in one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not asked for yet.
    #[default]
    Unknown,
    /// Is being computed; asking again is a cycle.
    Busy,
    /// Computed or assigned; None is "not found".
    Value(Option<Vec<u8>>, Origin),
}

/// How a variable got its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// By `set` or a named capture.
    Assigned,
    /// From its `map` or the like.
    Computed,
}

/// A request or a session: whatever has variables of a configuration.
pub trait Scope<'g>: Source {
    /// The variables that its configuration defines; [`SlotId`] is the index.
    fn definitions(&self) -> &'g [Slot];

    /// Their values.
    fn slots(&mut self) -> &mut Slots;

    /// Whose address `geo` looks up when it names no variable.
    fn client(&self) -> &Addr;

    /// Appends what proxies say of the client (`X-Forwarded-For`).
    fn forwarded(&self, _out: &mut Vec<u8>) {}

    /// A variable is asked for while it is being computed.
    fn report_cycle(&self);

    /// A variable is used that nothing has assigned.
    fn report_unassigned(&self, _name: &str) {}
}

impl Slots {
    /// No values yet for the `count` variables of a configuration.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            states: Vec::new(),
            captures: Captures::new(),
            captured: Vec::new(),
        }
    }

    /// Remembers what a pattern captured in `subject`; named groups become variables.
    pub fn set_captures(&mut self, pattern: &BoundPattern, subject: &[u8], captures: Captures) {
        for &(group, slot) in &pattern.slots {
            let value = captures
                .get(group)
                .copied()
                .flatten()
                .map(|(start, end)| subject[start..end].to_vec());
            self.assign(slot, Some(value.unwrap_or_default()));
        }
        self.captured.clear();
        self.captured.extend_from_slice(subject);
        self.captures = captures;
    }

    /// Runs `pattern` on `subject`; remembers the captures when it matches.
    pub fn matches(&mut self, pattern: &BoundPattern, subject: &[u8]) -> bool {
        match pattern.pattern.captures(subject) {
            Some(captures) => {
                self.set_captures(pattern, subject, captures);
                true
            }
            None => false,
        }
    }

    /// What the last pattern captured in group `n`.
    pub fn capture(&self, n: usize) -> Option<&[u8]> {
        let (start, end) = self.captures.get(n).copied().flatten()?;
        self.captured.get(start..end)
    }

    /// Forgets all captures.
    pub fn clear_captures(&mut self) {
        self.captures.clear();
    }

    /// Gives a variable of the configuration a value.
    pub fn assign(&mut self, slot: SlotId, value: Option<Vec<u8>>) {
        *self.state(slot) = State::Value(value, Origin::Assigned);
    }

    fn state(&mut self, slot: SlotId) -> &mut State {
        let at = slot.0 as usize;
        if self.states.len() <= at {
            self.states.resize(self.count.max(at + 1), State::Unknown);
        }
        &mut self.states[at]
    }

    /// Forgets a computed value (`volatile`); an assigned one stays.
    fn forget_computed(&mut self, slot: SlotId) {
        let state = self.state(slot);
        if matches!(state, State::Value(_, Origin::Computed)) {
            *state = State::Unknown;
        }
    }
}

/// Appends the value of a variable of the configuration; false when it has none.
pub fn value<'g, S: Scope<'g>>(scope: &mut S, slot: SlotId, out: &mut Vec<u8>) -> bool {
    let Some(definition) = scope.definitions().get(slot.0 as usize) else {
        return false;
    };
    match &definition.source {
        SlotSource::Assigned => {
            if let State::Value(Some(value), _) = scope.slots().state(slot) {
                out.extend_from_slice(value);
            } else {
                scope.report_unassigned(&definition.name);
                scope.slots().assign(slot, Some(Vec::new()));
            }
            true
        }
        SlotSource::Map(map) => {
            let found = computed(scope, slot, out, |scope| Some(map_value(scope, map)));
            if map.is_volatile() {
                scope.slots().forget_computed(slot);
            }
            found
        }
        SlotSource::Geo(geo) => {
            let found = computed(scope, slot, out, |scope| Some(geo_value(scope, geo)));
            if geo.is_volatile() {
                scope.slots().forget_computed(slot);
            }
            found
        }
        SlotSource::SplitClients(split) => computed(scope, slot, out, |scope| {
            let key = split.key().to_vec(scope);
            split.lookup(&key).map(<[u8]>::to_vec)
        }),
    }
}

/// Appends a value that is computed by `compute` unless it is known.
fn computed<'g, S: Scope<'g>>(
    scope: &mut S,
    slot: SlotId,
    out: &mut Vec<u8>,
    compute: impl FnOnce(&mut S) -> Option<Vec<u8>>,
) -> bool {
    match scope.slots().state(slot) {
        State::Value(..) => {}
        State::Busy => {
            scope.report_cycle();
            return false;
        }
        state @ State::Unknown => {
            *state = State::Busy;
            let value = compute(scope);
            *scope.slots().state(slot) = State::Value(value, Origin::Computed);
        }
    }
    match scope.slots().state(slot) {
        State::Value(Some(value), _) => {
            out.extend_from_slice(value);
            true
        }
        _ => false,
    }
}

fn map_value<'g, S: Scope<'g>>(scope: &mut S, map: &Map) -> Vec<u8> {
    let key = map.key().to_vec(scope);
    let hit = map.lookup(&key);
    if let Some((pattern, captures)) = hit.captures {
        scope.slots().set_captures(pattern, &key, captures);
    }
    hit.value.to_vec(scope)
}

fn geo_value<'g, S: Scope<'g>>(scope: &mut S, geo: &Geo) -> Vec<u8> {
    let source = match geo.variable() {
        Some(template) => {
            let text = template.to_vec(scope);
            std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse::<IpAddr>().ok())
                .map(|ip| Addr::Inet((ip, 0u16).into()))
        }
        None => Some(scope.client().clone()),
    };
    let mut forwarded = Vec::new();
    scope.forwarded(&mut forwarded);
    geo.lookup(source.as_ref(), &forwarded).to_vec()
}
