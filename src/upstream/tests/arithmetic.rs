//! Cases computed by hand: what no recording of nginx can hold, and each difference from it.

use model::{LeastTimeMode, Method};

use super::*;
use crate::upstream::live::Times;

const HEADER: Method = Method::LeastTime {
    mode: LeastTimeMode::Header,
    inflight: false,
};

const INFLIGHT: Method = Method::LeastTime {
    mode: LeastTimeMode::Header,
    inflight: true,
};

/// A group of `count` equal servers.
fn group(method: Method, count: usize) -> Arc<Group> {
    let servers = (1..=count).map(|n| server(&format!("10.0.0.{n}:80")));
    Arc::new(Group::new(&upstream(method, servers.collect()), None, 0))
}

fn pick(tries: &mut Tries, now: u64) -> Result<Lease, NoPeer> {
    tries.next(&mut PickCx {
        now,
        random: &mut no_random,
        hash_key: b"",
        client: None,
    })
}

fn first(group: &Arc<Group>, now: u64) -> Lease {
    pick(&mut Tries::new(group.clone(), Limits::default(), now), now).unwrap()
}

/// A request whose peer answers after `times[peer]`; returns the peer.
fn serve(group: &Arc<Group>, now: &mut u64, times: &[u64]) -> usize {
    let mut lease = first(group, *now);
    let index = lease.index();
    *now += times[index];
    lease.header(*now);
    let released = lease.finish(Outcome::Ok, *now);
    assert!(!released.disabled);
    index
}

fn end(lease: Lease, outcome: Outcome, now: u64) -> bool {
    lease.finish(outcome, now).disabled
}

/// Behaviours B3: 3 and 17 ms are equal, 3 and 45 ms are not, slower than 5 s is equally bad.
#[test]
fn steps_decide_what_is_equal() {
    for (times, expected) in [([3, 17], 20), ([3, 45], 39), ([6000, 9000], 20)] {
        let group = group(HEADER, 2);
        // Slow requests would decay: they take no time here.
        let mut hits = [0; 2];
        for now in 1_000_000..1_000_040 {
            let lease = first(&group, now);
            let index = lease.index();
            let header = Average::from_millis(times[index]);
            let times = Times {
                header,
                ..Times::default()
            };
            group.state().memory[index].times = times;
            group.state().refresh(index);
            end(lease, Outcome::Ok, now);
            hits[index] += 1;
        }
        assert_eq!(hits, [expected, 40 - expected], "{times:?}");
    }
}

/// Behaviours B3: a slow peer is probed again once its average has halved often enough.
#[test]
fn a_slow_peer_is_probed_again() {
    let group = group(HEADER, 2);
    let mut now = 1_000_000;
    let times = [10, 100];
    assert_eq!(serve(&group, &mut now, &times), 0);
    assert_eq!(serve(&group, &mut now, &times), 1);
    assert_eq!(serve(&group, &mut now, &times), 0);
    // 100 >> 2 is above the 20 ms of the other, 100 >> 3 is not; it was asked in second 1000.
    now = 1_022_000;
    assert_eq!(serve(&group, &mut now, &times), 0);
    now = 1_033_000;
    assert_eq!(
        serve(&group, &mut now, &times),
        0,
        "equal now, and first in turn"
    );
    assert_eq!(serve(&group, &mut now, &times), 1);
    assert_eq!(serve(&group, &mut now, &times), 0);
}

/// Behaviours B4: `header` prefers early headers, `last_byte` early ends.
#[test]
fn the_mode_decides_which_time_counts() {
    for (mode, favourite) in [(LeastTimeMode::Header, 0), (LeastTimeMode::LastByte, 1)] {
        let inflight = false;
        let group = group(Method::LeastTime { mode, inflight }, 2);
        let mut hits = [0; 2];
        let mut now = 1_000_000;
        for _ in 0..20 {
            let mut lease = first(&group, now);
            let index = lease.index();
            let (header, last) = [(10, 2000), (100, 110)][index];
            lease.header(now + header);
            end(lease, Outcome::Ok, now + last);
            hits[index] += 1;
            now += 10;
        }
        assert_eq!(hits[favourite], 19, "{mode:?}");
    }
}

/// Behaviours B4: with `inflight` a hung peer is avoided before it has any sample.
#[test]
fn inflight_sees_a_hung_peer() {
    for (method, expected) in [(HEADER, 5), (INFLIGHT, 2)] {
        let group = group(method, 2);
        let mut hung = Vec::new();
        let mut now = 1_000_000;
        for _ in 0..10 {
            let mut lease = first(&group, now);
            if lease.index() == 0 {
                hung.push(lease);
            } else {
                lease.header(now + 30);
                end(lease, Outcome::Ok, now + 30);
            }
            now += 400;
        }
        assert!(hung.len() <= expected, "{}", hung.len());
    }
}

/// DIFFERS(early-sample): a header is sampled when it arrives, so long streams do not hide slow headers.
#[test]
fn headers_count_before_the_end_of_the_stream() {
    let group = group(HEADER, 2);
    let mut streams = Vec::new();
    let mut hits = [0; 2];
    for n in 0..20 {
        let now = 1_000_000 + n * 1000;
        streams.retain_mut(|(until, lease): &mut (u64, Option<Lease>)| {
            if *until <= now {
                end(lease.take().unwrap(), Outcome::Ok, *until);
            }
            lease.is_some()
        });
        let mut lease = first(&group, now);
        hits[lease.index()] += 1;
        lease.header(now + [20, 600][lease.index()]);
        streams.push((now + 4000, Some(lease)));
    }
    assert!(hits[0] >= 18, "{hits:?}");
}

/// DIFFERS(no-sample): 0 ms is a sample.
#[test]
fn an_outlier_at_a_fast_peer_is_smoothed() {
    let group = group(HEADER, 2);
    let mut now = 1_000_000;
    serve(&group, &mut now, &[0, 0]);
    serve(&group, &mut now, &[0, 0]);
    let index = serve(&group, &mut now, &[1000, 1000]);
    assert_eq!(group.state().memory[index].times.header.millis(), Some(50));
}

/// DIFFERS(connect-sample): a connect that never happened is no sample.
#[test]
fn no_connect_is_no_sample() {
    let mode = LeastTimeMode::Connect;
    let inflight = false;
    let group = group(Method::LeastTime { mode, inflight }, 2);
    end(first(&group, 1000), Outcome::Ok, 1500);
    assert_eq!(group.state().memory[0].times.connect, Average::default());
    assert_eq!(group.state().memory[0].times.response.millis(), Some(500));
    let mut lease = first(&group, 2000);
    lease.connected(2007);
    assert_eq!(group.state().memory[1].times.connect.millis(), Some(7));
    end(lease, Outcome::Failed, 2010);
    assert_eq!(group.state().memory[1].times.response, Average::default());
}

/// DIFFERS(one-clock): one clock, saturating; a thread whose clock is behind does no harm.
#[test]
fn clocks_of_two_threads_may_differ() {
    let group = group(INFLIGHT, 2);
    let ahead = [first(&group, 10_005), first(&group, 10_005)];
    let behind = [first(&group, 10_000), first(&group, 9_999)];
    for mut lease in behind.into_iter().chain(ahead) {
        lease.header(10_001);
        end(lease, Outcome::Ok, 10_001);
    }
    let state = group.state();
    for peer in &state.memory {
        assert_eq!(
            (peer.conns, peer.inflight.reqs, peer.inflight.ages),
            (0, 0, 0)
        );
        assert!(peer.inflight.time.millis().unwrap_or(0) < 10, "{peer:?}");
    }
}

/// Only a try that kept its response is sampled.
#[test]
fn what_is_sampled() {
    for (header, outcome, samples) in [
        (true, Outcome::Ok, true),
        (true, Outcome::Aborted, true),
        (false, Outcome::Aborted, false),
        (false, Outcome::Failed, false),
        (false, Outcome::Next, false),
    ] {
        let group = group(HEADER, 2);
        let mut lease = first(&group, 1000);
        if header {
            lease.header(1010);
        }
        end(lease, outcome, 1050);
        let times = group.state().memory[0].times;
        assert_eq!(
            times.response.millis(),
            samples.then_some(50),
            "{outcome:?}"
        );
        assert_eq!(times.header.millis(), samples.then_some(10), "{outcome:?}");
    }
}

#[test]
fn next_does_not_count_as_failure() {
    let group = group(Method::RoundRobin, 2);
    let mut tries = Tries::new(group.clone(), Limits::default(), 1000);
    assert!(!end(pick(&mut tries, 1000).unwrap(), Outcome::Next, 1000));
    assert!(tries.may_retry(1000));
    assert!(end(pick(&mut tries, 1000).unwrap(), Outcome::Failed, 1000));
    assert!(!tries.may_retry(1000));
    let fails: Vec<u32> = group.state().memory.iter().map(|peer| peer.fails).collect();
    assert_eq!(fails, [0, 1]);
}

/// Under a long session too: others need not wait for its end to see that the peer is back.
#[test]
fn a_connection_ends_a_bench() {
    let group = group(Method::RoundRobin, 2);
    assert!(end(first(&group, 0), Outcome::Failed, 0));
    let now = 11_000;
    let mut picks = (0..4).map(|_| first(&group, now));
    let back = picks.find(|lease| lease.index() == 0).unwrap();
    let fails = || group.state().memory[0].fails;
    assert_eq!(fails(), 1);
    back.alive();
    assert_eq!(fails(), 0);
}

#[test]
fn tries_and_time_are_limited() {
    let group = group(Method::RoundRobin, 5);
    let limits = Limits {
        tries: 2,
        timeout: Duration::from_millis(300),
    };
    let mut tries = Tries::new(group, limits, 1000);
    let lease = pick(&mut tries, 1000).unwrap();
    assert!(tries.may_retry(1299) && !tries.may_retry(1300));
    end(lease, Outcome::Failed, 1000);
    assert!(tries.may_retry(1000));
    drop(pick(&mut tries, 1000).unwrap());
    assert!(!tries.may_retry(1000));
}

/// Behaviours K1: one server, one try, four stale connections; then a bound for a peer that never stops closing.
#[test]
fn a_stale_connection_gives_the_try_back() {
    let limits = Limits {
        tries: 1,
        timeout: Duration::ZERO,
    };
    for count in [1, 2] {
        let group = group(Method::RoundRobin, count);
        let mut tries = Tries::new(group.clone(), limits, 1000);
        for idle in [3, 2, 1, 0, 9] {
            let lease = pick(&mut tries, 1000).unwrap();
            assert!(!tries.may_retry(1000));
            ignore(tries.give_back(lease, idle, 1000));
            assert!(tries.may_retry(1000), "{count} {idle}");
        }
        assert!(
            group
                .state()
                .memory
                .iter()
                .all(|peer| peer.fails == 0 && peer.conns == 0)
        );
        if count == 1 {
            let lease = pick(&mut tries, 1000).unwrap();
            ignore(tries.give_back(lease, 9, 1000));
            assert!(!tries.may_retry(1000), "the bound");
        }
    }
}

#[test]
fn a_dropped_lease_leaves_no_trace() {
    let group = group(INFLIGHT, 2);
    let kept = first(&group, 1000);
    drop(first(&group, 1010));
    drop(first(&group, 1020));
    drop(kept);
    let state = group.state();
    for peer in &state.memory {
        assert_eq!((peer.conns, peer.fails), (0, 0));
        assert_eq!((peer.inflight.reqs, peer.inflight.ages), (0, 0));
        assert_eq!(peer.times, Times::default());
    }
}

#[test]
fn implicit_upstreams_are_logged_by_host() {
    for (name, explicit, expected) in [
        ("localhost:8080", false, "localhost"),
        ("[::1]:80", false, "[::1]"),
        ("localhost", false, "localhost"),
        ("u:1", true, "u:1"),
    ] {
        let conf = model::Upstream {
            name: name.into(),
            explicit,
            ..upstream(Method::RoundRobin, Vec::new())
        };
        assert_eq!(&**Group::new(&conf, None, 0).log_name(), expected);
    }
}

/// DIFFERS(reload): averages, failures and weights outlive a reload.
#[test]
fn a_reload_keeps_what_was_learnt() {
    let conf = upstream(
        HEADER,
        vec![
            server("10.0.0.1:80"),
            server("10.0.0.2:80"),
            server("10.0.0.2:80"),
        ],
    );
    let old = Arc::new(Group::new(&conf, None, 0));
    let mut now = 1_000_000;
    for _ in 0..20 {
        serve(&old, &mut now, &[10, 100, 300]);
    }
    end(first(&old, now), Outcome::Failed, now);
    let text = Snapshot::take([&*old], now).to_text("http");
    let snapshot = Snapshot::from_text(&text, "http");
    assert_eq!(snapshot, Snapshot::take([&*old], now));

    // The new process's clock began later; one server went, one came, one has another weight.
    let now = now - 900_000;
    let mut new = conf;
    new.servers.insert(0, server("10.0.0.3:80"));
    new.servers[2].weight = 5;
    let new = Group::new(&new, Some(&snapshot), now);
    let (old, new) = (old.state(), new.state());
    assert_eq!(new.memory[0].times, Times::default());
    for index in 0..old.live.len() {
        let (before, after) = (&old.memory[index], &new.memory[index + 1]);
        assert_eq!(before.times, after.times);
        assert_eq!(before.accessed.max(-1), (after.accessed + 900).max(-1));
        assert_eq!(
            (before.fails, before.checked),
            (after.fails, after.checked + 900)
        );
        assert_eq!(old.live[index].load, new.live[index + 1].load);
    }
    assert_eq!(old.live[0].current_weight, new.live[1].current_weight);
    let other = &new.live[2];
    assert_eq!((other.current_weight, other.effective_weight), (0, 5));
}

/// Two reloads, each into a process whose clock has just begun.
#[test]
fn a_bench_outlives_reloads_in_a_row() {
    let conf = upstream(
        Method::RoundRobin,
        vec![server("10.0.0.1:80"), server("10.0.0.2:80")],
    );
    let mut group = Arc::new(Group::new(&conf, None, 0));
    let failed = first(&group, 5_000_000);
    let index = failed.index();
    end(failed, Outcome::Failed, 5_000_000);
    // The ends of three processes: two seconds each, out of ten that it is benched.
    for now in [5_002_000, 2_000, 2_000] {
        let snapshot = Snapshot::take([&*group], now);
        let snapshot = Snapshot::from_text(&snapshot.to_text("http"), "http");
        group = Arc::new(Group::new(&conf, Some(&snapshot), 0));
    }
    let benched = |second| group.state().memory[index].is_benched(second);
    assert!(benched(0) && benched(4) && !benched(5));
}

/// A snapshot is not thrown off by what it finds.
#[test]
fn a_snapshot_survives_any_text() {
    for text in [
        "",
        "\n\n",
        "http\tu",
        "http\tu\t1.2.3.4:80\t",
        "http\tu\ta\t0 1 1 1 x",
        "http\tu\ta\t0 1 1 0 0 - - - - - 99999999999",
    ] {
        assert_eq!(
            Snapshot::from_text(text, "http"),
            Snapshot::default(),
            "{text:?}"
        );
    }
    let name = "odd\tname\\n\n";
    let conf = model::Upstream {
        name: name.into(),
        ..upstream(Method::RoundRobin, vec![server("10.0.0.1:80")])
    };
    let snapshot = Snapshot::take([&Group::new(&conf, None, 0)], 0);
    let text = snapshot.to_text("http");
    assert_eq!(Snapshot::from_text(&text, "http"), snapshot);
    assert_eq!(Snapshot::from_text(&text, "stream"), Snapshot::default());
}
