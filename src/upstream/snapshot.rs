//! What is known of the peers, as text: the old worker's gift to the new one at a reload.
//!
//! A line a peer; seconds are ages, because two processes need not share a clock. A line that cannot be read is left
//! out: then the peer starts afresh, as it does under nginx.

use std::collections::HashMap;

use super::{
    Average, Group, Peer,
    live::{NEVER, State, Times},
    tries::seconds,
};

/// State of the peers of many groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    groups: HashMap<String, Vec<Saved>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Saved {
    addr: String,
    backup: bool,
    weight: u32,
    effective_weight: u32,
    current_weight: i64,
    fails: u32,
    /// Seconds since then; None for never.
    accessed: Option<i64>,
    checked: Option<i64>,
    times: Times,
}

impl Snapshot {
    /// The state of `groups` now. An upstream's name should not occur twice.
    pub fn take<'a>(groups: impl IntoIterator<Item = &'a Group>, now: u64) -> Self {
        let groups = groups.into_iter().map(|group| {
            let state = group.state();
            let saved = group.peers().iter().enumerate();
            let saved = saved.map(|(index, peer)| Saved::new(peer, &state, index, seconds(now)));
            (group.name().to_string(), saved.collect())
        });
        Self {
            groups: groups.collect(),
        }
    }

    /// The state as text, each line marked with `scope`: http and stream may have groups of the same name.
    pub fn to_text(&self, scope: &str) -> String {
        let mut text = String::new();
        for (name, peers) in &self.groups {
            for peer in peers {
                peer.write([scope, name], &mut text);
            }
        }
        text
    }

    /// Reads what [`to_text`](Self::to_text) marked with `scope`.
    pub fn from_text(text: &str, scope: &str) -> Self {
        let mut snapshot = Self::default();
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        let lines = lines.filter(|(of, _)| *of == scope);
        for (name, saved) in lines.filter_map(|(_, line)| Saved::parse(line)) {
            snapshot.groups.entry(name).or_default().push(saved);
        }
        snapshot
    }

    /// Gives the peers of group `name` their state back. An address that is listed twice is matched in order.
    pub(super) fn restore(&self, name: &str, peers: &[Peer], state: &mut State, now: u64) {
        let mut saved: Vec<&Saved> = self.groups.get(name).into_iter().flatten().collect();
        for (index, peer) in peers.iter().enumerate() {
            let same = |s: &&Saved| s.addr == *peer.text && s.backup == peer.backup;
            if let Some(position) = saved.iter().position(same) {
                saved.remove(position).restore(state, index, seconds(now));
            }
        }
    }
}

impl Saved {
    fn new(peer: &Peer, state: &State, index: usize, now: i64) -> Self {
        // What an older process told may have happened before this one's clock began.
        let age = |then: i64| (then != NEVER).then(|| now.saturating_sub(then));
        let (live, memory) = (&state.live[index], &state.memory[index]);
        Self {
            addr: peer.text.to_string(),
            backup: peer.backup,
            weight: live.weight,
            effective_weight: live.effective_weight,
            current_weight: live.current_weight,
            fails: memory.fails,
            accessed: age(memory.accessed),
            checked: age(memory.checked),
            times: memory.times,
        }
    }

    fn restore(&self, state: &mut State, index: usize, now: i64) {
        let (live, memory) = (&mut state.live[index], &mut state.memory[index]);
        memory.times = self.times;
        memory.fails = self.fails;
        if let Some(age) = self.accessed {
            memory.accessed = now.saturating_sub(age);
        }
        if let Some(age) = self.checked {
            memory.checked = now.saturating_sub(age);
        }
        // Under another weight the old balance means nothing.
        if self.weight == live.weight {
            live.effective_weight = self.effective_weight.min(live.weight);
            live.current_weight = self.current_weight;
        }
        state.refresh(index);
    }

    fn write(&self, [scope, name]: [&str; 2], text: &mut String) {
        for field in [scope, name, &self.addr] {
            escape(field, text);
            text.push('\t');
        }
        let numbers = [
            i64::from(self.backup),
            self.weight.into(),
            self.effective_weight.into(),
            self.current_weight,
            self.fails.into(),
        ];
        let times = self.times;
        let times = [
            times.connect,
            times.header,
            times.first_byte,
            times.response,
        ]
        .map(|time| time.millis().map(i64::from));
        let numbers = numbers
            .into_iter()
            .map(Some)
            .chain([self.accessed, self.checked])
            .chain(times)
            .map(|number| number.map_or("-".to_owned(), |number| number.to_string()))
            .collect::<Vec<_>>();
        text.push_str(&numbers.join(" "));
        text.push('\n');
    }

    fn parse(line: &str) -> Option<(String, Self)> {
        let mut fields = line.split('\t');
        let (name, addr) = (unescape(fields.next()?), unescape(fields.next()?));
        let mut numbers = fields.next()?.split(' ');
        let mut number = || -> Option<Option<i64>> {
            match numbers.next()? {
                "-" => Some(None),
                digits => digits.parse().ok().map(Some),
            }
        };
        let saved = Self {
            addr,
            backup: number()?? != 0,
            weight: number()??.try_into().ok()?,
            effective_weight: number()??.try_into().ok()?,
            current_weight: number()??,
            fails: number()??.try_into().ok()?,
            accessed: number()?,
            checked: number()?,
            times: Times {
                connect: average(number()?)?,
                header: average(number()?)?,
                first_byte: average(number()?)?,
                response: average(number()?)?,
            },
        };
        Some((name, saved))
    }
}

fn average(millis: Option<i64>) -> Option<Average> {
    match millis {
        None => Some(Average::default()),
        Some(millis) => u32::try_from(millis).ok().map(Average::from_millis),
    }
}

fn escape(field: &str, text: &mut String) {
    for c in field.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            c => text.push(c),
        }
    }
}

fn unescape(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some(c) => c,
                None => break,
            },
            c => c,
        });
    }
    text
}
