//! `limit_req` and `limit_conn`: how fast requests that share a key come, and how many there are at once.
//!
//! Mirrors `ngx_http_limit_req_module.c` and `ngx_http_limit_conn_module.c`, in the order in which nginx asks them.

use std::{
    future::poll_fn,
    task::{Poll, ready},
};

use super::{
    exchange::Exchange,
    phases::{CLIENT_CLOSED, Next},
};
use crate::{
    common::{
        clock,
        occupancy::{LimitStatus, NoPlace, Place},
        rates::{Rates, Verdict},
    },
    conf::model::{Level, LimitReq},
};

/// What the limits have decided about a request; each decides once.
#[derive(Debug, Default)]
pub(super) struct Limited {
    /// `$limit_req_status`
    pub(super) req: Option<ReqStatus>,
    /// `$limit_conn_status`
    pub(super) conn: Option<LimitStatus>,
    /// What it takes of `limit_conn` until it is over.
    places: Vec<Place>,
}

/// `$limit_req_status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReqStatus {
    Passed,
    Delayed,
    Rejected,
    DelayedDryRun,
    RejectedDryRun,
}

impl ReqStatus {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Delayed => "DELAYED",
            Self::Rejected => "REJECTED",
            Self::DelayedDryRun => "DELAYED_DRY_RUN",
            Self::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// The longest key of `limit_req`, bytes.
const MAX_KEY: usize = 65535;

/// Lets the request go on, perhaps later.
pub(super) async fn check<'g>(x: &mut Exchange<'g>) -> Result<(), Next<'g>> {
    let limits = &x.location.limits;
    if !limits.req.is_empty() && x.limited.req.is_none() {
        rate(x).await?;
    }
    if !limits.conn.is_empty() && x.limited.conn.is_none() {
        occupancy(x)?;
    }
    Ok(())
}

/// What was looked at and is not counted yet: the limit, and its key.
type Looked<'g> = Vec<(LimitReq, &'g Rates, Vec<u8>)>;

async fn rate<'g>(x: &mut Exchange<'g>) -> Result<(), Next<'g>> {
    let (limits, live) = (&x.location.limits, x.live);
    let zones = &live.http().rate_zones;
    let now = clock::now().millis();
    let mut looked = Looked::new();
    // The longest wait, and what is in its bucket and in which zone that is.
    let mut wait = (0, 0, 0);
    for (n, limit) in limits.req.iter().enumerate() {
        let (Some(zone), Some(table)) = (zones.get(limit.zone), live.rates.get(limit.zone)) else {
            continue;
        };
        let key = zone.zone.key.to_vec(x);
        if key.is_empty() {
            continue;
        }
        if key.len() > MAX_KEY {
            log_long_key(x, &zone.key_text, MAX_KEY, &key);
            continue;
        }
        let is_last = n + 1 == limits.req.len();
        match table.look(&key, limit.burst, is_last, now) {
            Verdict::Within(excess) if is_last => {
                wait = (table.delay(excess, limit.delay), excess, limit.zone);
            }
            Verdict::Within(_) => looked.push((*limit, table, key)),
            refused => {
                for (_, table, key) in &looked {
                    table.release(key);
                }
                return refuse(x, refused, limit.zone);
            }
        }
        if is_last {
            x.limited.req = Some(ReqStatus::Passed);
        }
    }
    if looked.is_empty() && x.limited.req.is_none() {
        return Ok(());
    }
    for (limit, table, key) in looked.iter().rev() {
        let excess = table.account(key, now);
        let delay = table.delay(excess, limit.delay);
        if delay > wait.0 {
            wait = (delay, excess, limit.zone);
        }
    }
    x.limited.req = Some(ReqStatus::Passed);
    if wait.0 > 0 {
        delay(x, wait).await
    } else {
        Ok(())
    }
}

/// The bucket runs over, or there is no memory for it.
fn refuse<'g>(x: &mut Exchange<'g>, verdict: Verdict, zone: usize) -> Result<(), Next<'g>> {
    let limits = &x.location.limits;
    let name = &x.live.http().rate_zones[zone].zone.name;
    match verdict {
        Verdict::Over(excess) => x.log(
            limits.req_log_level,
            format_args!(
                "limiting requests{}, excess: {}.{:03} by zone \"{name}\"",
                dry_run(limits.req_dry_run),
                excess / 1000,
                excess % 1000
            ),
        ),
        _ => x.live.main_sink().emit(
            Level::Alert,
            None,
            format_args!("could not allocate node in limit_req zone \"{name}\""),
        ),
    }
    if limits.req_dry_run {
        x.limited.req = Some(ReqStatus::RejectedDryRun);
        return Ok(());
    }
    x.limited.req = Some(ReqStatus::Rejected);
    Err(Next::Status(limits.req_status))
}

fn dry_run(on: bool) -> &'static str {
    if on { ", dry run" } else { "" }
}

/// Waits as long as the client does: milliseconds, what is in the bucket, the zone.
async fn delay<'g>(
    x: &mut Exchange<'g>,
    (millis, excess, zone): (u64, u64, usize),
) -> Result<(), Next<'g>> {
    let limits = &x.location.limits;
    let name = &x.live.http().rate_zones[zone].zone.name;
    x.log(
        limits.req_log_level.milder(),
        format_args!(
            "delaying request{}, excess: {}.{:03}, by zone \"{name}\"",
            dry_run(limits.req_dry_run),
            excess / 1000,
            excess % 1000
        ),
    );
    if limits.req_dry_run {
        x.limited.req = Some(ReqStatus::DelayedDryRun);
        return Ok(());
    }
    x.limited.req = Some(ReqStatus::Delayed);
    let until = clock::now().after(std::time::Duration::from_millis(millis));
    let conn = &mut x.conn;
    let is_there = poll_fn(|cx| {
        if conn.poll_closed(cx).is_ready() {
            return Poll::Ready(false);
        }
        ready!(conn.timer.poll(cx, Some(until)));
        Poll::Ready(true)
    })
    .await;
    if is_there {
        return Ok(());
    }
    x.log(
        Level::Info,
        format_args!("client prematurely closed connection"),
    );
    Err(Next::Status(CLIENT_CLOSED))
}

fn occupancy<'g>(x: &mut Exchange<'g>) -> Result<(), Next<'g>> {
    let (limits, live) = (&x.location.limits, x.live);
    let zones = &live.http().limit_zones;
    for limit in &*limits.conn {
        let (Some(zone), Some(table)) = (zones.get(limit.zone), live.places.get(limit.zone)) else {
            continue;
        };
        let key = zone.key.to_vec(x);
        if key.is_empty() {
            continue;
        }
        let entered = table.enter(&key, limit.connections);
        if matches!(entered, Err(NoPlace::TooLong)) {
            log_long_key(x, &zone.name, 255, &key);
            continue;
        }
        x.limited.conn = Some(LimitStatus::Passed);
        match entered {
            Ok(place) => x.limited.places.push(place),
            Err(reason) => {
                if reason == NoPlace::Key {
                    let (name, comma) = (&zone.name, if limits.conn_dry_run { "," } else { "" });
                    x.log(
                        limits.conn_log_level,
                        format_args!(
                            "limiting connections{}{comma} by zone \"{name}\"",
                            dry_run(limits.conn_dry_run)
                        ),
                    );
                }
                x.limited.places.clear();
                if limits.conn_dry_run {
                    x.limited.conn = Some(LimitStatus::RejectedDryRun);
                    return Ok(());
                }
                x.limited.conn = Some(LimitStatus::Rejected);
                return Err(Next::Status(limits.conn_status));
            }
        }
    }
    Ok(())
}

fn log_long_key(x: &Exchange<'_>, name: &str, most: usize, key: &[u8]) {
    let key = String::from_utf8_lossy(key);
    x.log(
        Level::Error,
        format_args!("the value of the \"{name}\" key is more than {most} bytes: \"{key}\""),
    );
}
