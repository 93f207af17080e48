//! What a pick costs: nanoseconds for `Tries::new`, `next`, `header` and `finish`, for every method and size of a group.
//!
//! `--check` fails when `least_time` costs more than 150 ns at 3 peers or 3 us at 1,000.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench prints, and measures with the real clock"
)]

use std::{
    hint::black_box,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

use headwater::{
    conf::model::{LeastTimeMode, Method, Upstream, UpstreamServer},
    upstream::{Group, Limits, Outcome, PickCx, Tries},
    vars::Template,
};

fn main() -> ExitCode {
    let check = std::env::args().any(|arg| arg == "--check");
    let sizes = [1, 3, 10, 100, 1000];
    println!(
        "{:<24}{}",
        "ns a request",
        sizes.map(|n| format!("{n:>9}")).concat()
    );
    let mut failed = false;
    for (name, method) in methods() {
        let costs = sizes.map(|size| cost(&method, size));
        println!(
            "{name:<24}{}",
            costs.map(|ns| format!("{ns:>9.0}")).concat()
        );
        failed |= name.starts_with("least_time") && (costs[1] > 150.0 || costs[4] > 3000.0);
    }
    if check && failed {
        println!("least_time is over 150 ns at 3 peers or over 3000 ns at 1000");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn methods() -> Vec<(&'static str, Method)> {
    let hash = |consistent| Method::Hash {
        key: Template::literal(b""),
        consistent,
    };
    let least_time = |inflight| Method::LeastTime {
        mode: LeastTimeMode::Header,
        inflight,
    };
    vec![
        ("round_robin", Method::RoundRobin),
        ("least_conn", Method::LeastConn),
        ("least_time", least_time(false)),
        ("least_time inflight", least_time(true)),
        ("hash", hash(false)),
        ("hash consistent", hash(true)),
        ("ip_hash", Method::IpHash),
        ("random", Method::Random { two: false }),
        ("random two", Method::Random { two: true }),
    ]
}

fn group(method: &Method, size: u32) -> Arc<Group> {
    let servers = (0..size).map(|n| {
        let addr = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + n), 80));
        UpstreamServer::new(addr.to_string().into(), vec![addr.into()])
    });
    let conf = Upstream {
        name: "bench".into(),
        explicit: true,
        port: 0,
        servers: servers.collect(),
        method: method.clone(),
        zone: None,
        keepalive: None,
    };
    Arc::new(Group::new(&conf, None, 0))
}

/// Nanoseconds of one request: the best of many short rounds, so that a busy machine does not show.
fn cost(method: &Method, size: u32) -> f64 {
    let group = group(method, size);
    let requests = 200_000 / (size + 20) + 50;
    (0..100)
        .map(|round| {
            let start = Instant::now();
            for n in 0..requests {
                request(&group, u64::from(round * requests + n));
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(requests)
        })
        .fold(f64::INFINITY, f64::min)
}

fn request(group: &Arc<Group>, n: u64) {
    let now = 1_000_000 + n / 50;
    let mut random = n;
    let mut tries = Tries::new(group.clone(), Limits::default(), now);
    let mut cx = PickCx {
        now,
        random: &mut || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        },
        hash_key: &n.to_le_bytes(),
        client: Some(IpAddr::from([10, 0, n.to_le_bytes()[0], 1])),
    };
    if let Ok(mut lease) = tries.next(&mut cx) {
        lease.header(now + n % 7);
        let _released = black_box(lease.finish(Outcome::Ok, now + n % 7));
    }
}
