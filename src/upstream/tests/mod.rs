//! Pure replays of pick sequences that nginx made, hand-computed cases, and properties.
//!
//! `testdata/balance/*.seq`: `method` and `server` lines as in a configuration, then one line an event:
//! `get TIME [key=] [client=] [header= response=] : A! B` is a request that failed at A (the first server) and was
//! answered by B, `-` meaning that nobody was left; `hold` is a request that stays open until `end`. TIME is when the
//! line was logged, header and response are milliseconds from the start.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use super::*;
use crate::{conf::model, vars::Template};

mod arithmetic;
mod properties;

/// A request's random numbers where none should be needed.
fn no_random() -> u64 {
    unreachable!("this method draws no random numbers")
}

pub(super) fn server(name: &str) -> model::UpstreamServer {
    let addr: std::net::SocketAddr = name.parse().unwrap();
    model::UpstreamServer::new(name.into(), vec![addr.into()])
}

pub(super) fn upstream(
    method: model::Method,
    servers: Vec<model::UpstreamServer>,
) -> model::Upstream {
    model::Upstream {
        name: "u".into(),
        port: 0,
        explicit: true,
        servers,
        method,
        zone: None,
        keepalive: None,
    }
}

/// Ends a try whose effect on `disabled` does not matter.
fn ignore(_: Released) {}

/// Reads a `server` line.
fn parse_server(line: &str) -> model::UpstreamServer {
    let mut words = line.split_whitespace();
    let mut server = server(words.next().unwrap());
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("weight", value) => server.weight = value.parse().unwrap(),
            ("max_fails", value) => server.max_fails = value.parse().unwrap(),
            ("max_conns", value) => server.max_conns = value.parse().unwrap(),
            ("fail_timeout", "1h") => server.fail_timeout = Duration::from_hours(1),
            ("fail_timeout", value) => {
                server.fail_timeout = Duration::from_secs(value.parse().unwrap());
            }
            ("down", _) => server.down = true,
            ("backup", _) => server.backup = true,
            other => unreachable!("{other:?}"),
        }
    }
    server
}

/// Reads a `method` line.
fn parse_method(line: &str) -> model::Method {
    use model::LeastTimeMode::{Header, LastByte};
    let key = Template::literal(b"");
    let words: Vec<&str> = line.split_whitespace().collect();
    match *words.as_slice() {
        ["round_robin"] => model::Method::RoundRobin,
        ["least_conn"] => model::Method::LeastConn,
        ["ip_hash"] => model::Method::IpHash,
        ["hash", _, ref rest @ ..] => model::Method::Hash {
            key,
            consistent: !rest.is_empty(),
        },
        ["least_time", mode, ref rest @ ..] => model::Method::LeastTime {
            mode: if mode == "header" { Header } else { LastByte },
            inflight: !rest.is_empty(),
        },
        ref other => unreachable!("{other:?}"),
    }
}

/// A recorded sequence under way.
struct Replay {
    group: Arc<Group>,
    held: HashMap<String, Lease>,
    disabled: usize,
}

impl Replay {
    fn letter(index: usize) -> char {
        char::from(b'A' + u8::try_from(index).unwrap())
    }

    /// One request; returns what it did, in the notation of the file.
    fn request(&mut self, event: &Event<'_>) -> String {
        let start = event.time - event.response;
        let mut tries = Tries::new(self.group.clone(), Limits::default(), start);
        let mut cx = PickCx {
            now: start,
            random: &mut no_random,
            hash_key: event.key.as_bytes(),
            client: event.client,
        };
        let mut shown = Vec::new();
        for expected in event.tries.split(' ') {
            let mut lease = match tries.next(&mut cx) {
                Ok(lease) => lease,
                Err(NoPeer { name }) => {
                    assert_eq!(&*name, "u");
                    shown.push("-".to_owned());
                    break;
                }
            };
            let letter = Self::letter(lease.index());
            if expected.ends_with('!') {
                shown.push(format!("{letter}!"));
                self.disabled += usize::from(lease.finish(Outcome::Failed, start).disabled);
                if !tries.may_retry(start) {
                    break;
                }
                continue;
            }
            shown.push(letter.to_string());
            lease.header(start + event.header);
            if event.verb == "hold" {
                self.held.insert(event.id.to_owned(), lease);
            } else {
                assert!(!lease.finish(Outcome::Ok, event.time).disabled);
            }
        }
        shown.join(" ")
    }
}

/// One line of a sequence.
#[derive(Default)]
struct Event<'a> {
    verb: &'a str,
    time: u64,
    key: &'a str,
    client: Option<IpAddr>,
    id: &'a str,
    header: u64,
    response: u64,
    tries: &'a str,
}

impl<'a> Event<'a> {
    fn parse(line: &'a str) -> Self {
        let (head, tries) = line.split_once(" : ").unwrap_or((line, ""));
        let mut words = head.split(' ');
        let mut event = Self {
            verb: words.next().unwrap(),
            time: words.next().unwrap().parse().unwrap(),
            tries,
            ..Self::default()
        };
        for (name, value) in words.map(|word| word.split_once('=').unwrap()) {
            match name {
                "key" => event.key = value,
                "client" => event.client = Some(value.parse().unwrap()),
                "id" => event.id = value,
                "header" => event.header = value.parse().unwrap(),
                "response" => event.response = value.parse().unwrap(),
                other => unreachable!("{other}"),
            }
        }
        event
    }
}

fn replay(text: &str) {
    let mut method = model::Method::RoundRobin;
    let mut servers = Vec::new();
    let mut events = Vec::new();
    let mut disabled = 0;
    for line in text.lines() {
        match line.split_once(' ').unwrap() {
            ("method", rest) => method = parse_method(rest),
            ("server", rest) => servers.push(parse_server(rest)),
            ("#", rest) => {
                if let Some(count) = rest.strip_prefix("disabled ") {
                    disabled = count.parse().unwrap();
                }
            }
            _ => events.push(line),
        }
    }
    let mut replay = Replay {
        group: Arc::new(Group::new(&upstream(method, servers), None, 0)),
        held: HashMap::new(),
        disabled: 0,
    };
    for line in events {
        let event = Event::parse(line);
        if event.verb == "end" {
            let lease = replay.held.remove(event.id).unwrap();
            assert!(!lease.finish(Outcome::Ok, event.time).disabled);
            continue;
        }
        assert_eq!(replay.request(&event), event.tries, "{line}");
    }
    assert_eq!(replay.disabled, disabled, "temporarily disabled");
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(include_str!(concat!("../../../testdata/balance/", stringify!($name), ".seq")));
            }
        )*

        #[test]
        fn every_recording_is_replayed() {
            let replayed = [$(concat!(stringify!($name), ".seq")),*];
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/balance");
            for file in std::fs::read_dir(folder).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                assert!(replayed.contains(&&*name), "{name}");
            }
        }
    };
}

replays! {
    all_fail
    backups
    bench_and_return
    failures_lower_weight
    hash
    hash_consistent
    hash_consistent_many
    hash_two_down
    ip_hash
    least_conn_busy
    least_conn_idle
    least_time_decay
    least_time_header
    least_time_inflight
    least_time_last_byte
    least_time_ties
    max_conns
    max_conns_single
    single_is_never_benched
    weights_5_1_1
    weights_mixed
}
