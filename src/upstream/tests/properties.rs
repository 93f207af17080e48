//! What must hold for every method under any course of events.

use model::{LeastTimeMode, Method};
use proptest::prelude::*;

use super::*;

fn method() -> impl Strategy<Value = Method> {
    let modes = [
        LeastTimeMode::Header,
        LeastTimeMode::Connect,
        LeastTimeMode::FirstByte,
        LeastTimeMode::LastByte,
    ];
    let key = || Template::literal(b"");
    prop_oneof![
        Just(Method::RoundRobin),
        Just(Method::LeastConn),
        Just(Method::IpHash),
        any::<bool>().prop_map(|two| Method::Random { two }),
        any::<bool>().prop_map(move |consistent| Method::Hash {
            key: key(),
            consistent
        }),
        (prop::sample::select(modes.to_vec()), any::<bool>())
            .prop_map(|(mode, inflight)| Method::LeastTime { mode, inflight }),
    ]
}

fn peer() -> impl Strategy<Value = model::UpstreamServer> {
    (
        1..20u32,
        0..3u32,
        0..3u64,
        0..3u32,
        prop::bool::weighted(0.2),
        any::<bool>(),
    )
        .prop_map(
            |(weight, max_fails, fail_timeout, max_conns, down, backup)| model::UpstreamServer {
                weight,
                max_fails,
                fail_timeout: Duration::from_secs(fail_timeout),
                max_conns,
                down,
                backup,
                ..server("10.0.0.1:80")
            },
        )
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Retry,
    Stale,
    Header,
    End(Outcome),
    Forget,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        1 => Just(Step::Retry),
        1 => Just(Step::Stale),
        1 => Just(Step::Header),
        1 => Just(Step::End(Outcome::Ok)),
        2 => Just(Step::End(Outcome::Failed)),
        1 => Just(Step::End(Outcome::Aborted)),
        1 => Just(Step::End(Outcome::Next)),
        1 => Just(Step::Forget),
        1 => (0..3000u64).prop_map(Step::Wait),
    ]
}

/// Picks, and checks what every pick must keep to.
fn pick(tries: &mut Tries, tried: &mut Vec<usize>, now: u64, random: u64) -> Option<Lease> {
    let group = tries.group().clone();
    let before = group.state().memory.clone();
    let mut random = random;
    let lease = tries.next(&mut PickCx {
        now,
        random: &mut || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 33
        },
        hash_key: &now.to_le_bytes(),
        client: Some(IpAddr::from([10, 0, now.to_le_bytes()[0], 1])),
    });
    let Ok(lease) = lease else {
        return None;
    };
    let peer = &before[lease.index()];
    assert!(peer.has_room());
    if !group.is_single() {
        assert!(!peer.is_benched(i64::try_from(now / 1000).unwrap()));
        assert!(!tried.contains(&lease.index()), "tried twice");
        tried.push(lease.index());
    }
    Some(lease)
}

proptest! {
    #[test]
    fn leases_are_returned_and_picks_are_usable(
        method in method(),
        peers in prop::collection::vec(peer(), 1..6),
        steps in prop::collection::vec((step(), any::<u64>()), 1..80),
    ) {
        let mut conf = upstream(method, peers);
        conf.servers[0].backup = false;
        let group = Arc::new(Group::new(&conf, None, 0));
        let mut now = 1000;
        let mut open: Vec<(Tries, Vec<usize>, Lease)> = Vec::new();
        for (step, random) in steps {
            match (step, open.pop()) {
                (Step::Wait(millis), last) => {
                    now += millis;
                    open.extend(last);
                }
                (Step::Begin, last) => {
                    open.extend(last);
                    let mut tries = Tries::new(group.clone(), Limits::default(), now);
                    let mut tried = Vec::new();
                    let lease = pick(&mut tries, &mut tried, now, random);
                    open.extend(lease.map(|lease| (tries, tried, lease)));
                }
                (Step::Header, Some((tries, tried, mut lease))) => {
                    lease.connected(now);
                    lease.header(now);
                    lease.first_byte(now);
                    open.insert(0, (tries, tried, lease));
                }
                (Step::Retry, Some((mut tries, mut tried, lease))) => {
                    ignore(lease.finish(Outcome::Failed, now));
                    let lease = pick(&mut tries, &mut tried, now, random);
                    open.extend(lease.map(|lease| (tries, tried, lease)));
                }
                (Step::Stale, Some((mut tries, mut tried, lease))) => {
                    let index = lease.index();
                    let fails = group.state().memory[index].fails;
                    ignore(tries.give_back(lease, 1, now));
                    if group.state().memory[index].fails == fails {
                        tried.retain(|tried| *tried != index);
                    }
                    let lease = pick(&mut tries, &mut tried, now, random);
                    open.extend(lease.map(|lease| (tries, tried, lease)));
                }
                (Step::End(outcome), Some((_, _, lease))) => {
                    ignore(lease.finish(outcome, now));
                }
                (Step::Forget | Step::Header | Step::Retry | Step::Stale | Step::End(_), _) => {}
            }
            let live = group.state().memory.clone();
            for (index, peer) in live.iter().enumerate() {
                let leases = open.iter().filter(|(_, _, lease)| lease.index() == index).count();
                prop_assert_eq!(peer.conns as usize, leases);
                prop_assert!(peer.inflight.reqs as usize <= leases);
            }
        }
        drop(open);
        for peer in &group.state().memory {
            prop_assert_eq!((peer.conns, peer.inflight.reqs, peer.inflight.ages), (0, 0, 0));
        }
    }

    #[test]
    fn every_usable_peer_is_tried_before_giving_up(
        method in method(),
        count in 1..150usize,
        random in any::<u64>(),
    ) {
        let servers = (0..count).map(|n| server(&format!("10.0.{}.1:80", n % 250))).collect();
        let group = Arc::new(Group::new(&upstream(method, servers), None, 0));
        let mut tries = Tries::new(group, Limits::default(), 1000);
        let mut tried = Vec::new();
        for _ in 0..count {
            let lease = pick(&mut tries, &mut tried, 1000, random).unwrap();
            ignore(lease.finish(Outcome::Next, 1000));
        }
        if count > 1 {
            prop_assert!(pick(&mut tries, &mut tried, 1000, random).is_none());
        }
    }
}
