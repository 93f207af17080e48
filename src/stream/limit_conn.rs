//! `limit_conn`: how many sessions at once may share a key. Mirrors `ngx_stream_limit_conn_module.c`.

use super::session::{Downstream, Session};
use crate::{
    common::occupancy::{LimitStatus, NoPlace},
    conf::model::Level,
};

/// Takes the session's places, or says with which status it ends.
pub(super) fn check<D: Downstream>(s: &mut Session<'_, D>) -> Result<(), u16> {
    let core = &s.server.core;
    let zones = &s.live.stream().limit_zones;
    for limit in &*core.limit_conn {
        let (Some(zone), Some(table)) = (zones.get(limit.zone), s.live.zones.get(limit.zone))
        else {
            continue;
        };
        let key = zone.key.to_vec(s);
        if key.is_empty() {
            continue;
        }
        let entered = table.enter(&key, limit.connections);
        if matches!(entered, Err(NoPlace::TooLong)) {
            let (name, key) = (&zone.name, String::from_utf8_lossy(&key));
            s.log(
                Level::Error,
                format_args!("the value of the \"{name}\" key is more than 255 bytes: \"{key}\""),
            );
            continue;
        }
        s.limit_status = Some(LimitStatus::Passed);
        match entered {
            Ok(place) => s.places.push(place),
            Err(reason) => {
                if reason == NoPlace::Key {
                    let dry_run = if core.limit_conn_dry_run {
                        ", dry run,"
                    } else {
                        ""
                    };
                    let name = &zone.name;
                    s.log(
                        core.limit_conn_log_level,
                        format_args!("limiting connections{dry_run} by zone \"{name}\""),
                    );
                }
                s.places.clear();
                if core.limit_conn_dry_run {
                    s.limit_status = Some(LimitStatus::RejectedDryRun);
                    return Ok(());
                }
                s.limit_status = Some(LimitStatus::Rejected);
                return Err(503);
            }
        }
    }
    Ok(())
}
