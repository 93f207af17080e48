//! The only place that reads the clocks.
//!
//! [`now`] is monotonic, for timers and measurements; [`wall`] is the time of day. The texts that headers and logs
//! need are formatted once a second in each thread, like nginx's cached times (`core/ngx_times.c`).

use std::{
    cell::{Cell, RefCell},
    sync::OnceLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::date::{self, Civil};

/// A monotonic moment; comparable within a process and the processes forked from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now(u64);

impl Now {
    /// A moment `millis` milliseconds after the clock's start; for tests and for timers.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Milliseconds since the clock's start.
    pub const fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Microseconds since the clock's start.
    pub const fn micros(self) -> u64 {
        self.0 / 1000
    }

    /// Time since `earlier`; zero if that is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// The same moment for timers of the standard library and of tokio.
    pub fn instant(self) -> Instant {
        // A year is as good as never and cannot overflow.
        const FAR: u64 = 365 * 86400 * 1_000_000_000;
        let start = *start();
        start
            .checked_add(Duration::from_nanos(self.0))
            .unwrap_or_else(|| start + Duration::from_nanos(FAR))
    }
}

/// The time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wall {
    /// Seconds since 1970.
    pub secs: i64,
    /// Milliseconds of the second.
    pub millis: u32,
}

/// The monotonic clock. On a thread that called [`keep_time`] it may be behind by as much as the thread has worked since
/// it last waited, but by no more than a few calls.
pub fn now() -> Now {
    let (kept, uses) = KEPT.get();
    if uses > 0 {
        KEPT.set((kept, uses - 1));
        return kept;
    }
    let now = precise();
    if KEEPS.get() {
        KEPT.set((now, USES));
        READING.set(READING.get() + 1);
    }
    now
}

/// The monotonic clock, read now.
pub fn precise() -> Now {
    let nanos = start().elapsed().as_nanos();
    Now(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How often a time is used before the clock is read again, when the thread never waits.
const USES: u32 = 15;

thread_local! {
    static KEPT: Cell<(Now, u32)> = const { Cell::new((Now(0), 0)) };
    /// Number of the reading that is kept.
    static READING: Cell<u64> = const { Cell::new(0) };
    /// The time of day at that reading.
    static KEPT_WALL: Cell<(u64, Wall)> = const { Cell::new((0, Wall { secs: 0, millis: 0 })) };
    static KEEPS: Cell<bool> = const { Cell::new(false) };
}

/// Makes [`now`] on this thread use one reading of the clock several times, as nginx does within a turn of its event loop.
/// The thread must call [`waited`] whenever it has waited for events.
pub fn keep_time() {
    KEEPS.set(true);
}

/// The thread has waited: the time it keeps is old.
pub fn waited() {
    KEPT.set((Now(0), 0));
}

/// Where the monotonic clock starts: the first use, in the master, so that all workers share it.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn start() -> &'static Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now)
}

/// The time of day; as far behind as [`now`] may be.
pub fn wall() -> Wall {
    if !KEEPS.get() {
        return read_wall();
    }
    let (reading, wall) = KEPT_WALL.get();
    let current = READING.get();
    if reading == current && KEPT.get().1 > 0 {
        return wall;
    }
    let wall = read_wall();
    KEPT_WALL.set((current, wall));
    wall
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn read_wall() -> Wall {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Wall {
        secs: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        millis: since.subsec_millis(),
    }
}

/// The current second in all the forms that headers and logs want.
#[derive(Clone, Debug)]
struct Texts {
    secs: i64,
    zone: jiff::tz::TimeZone,
    http: [u8; 29],
    local: [u8; 26],
    iso8601: [u8; 25],
    log: [u8; 19],
    syslog: [u8; 15],
}

thread_local! {
    static TEXTS: RefCell<Texts> = RefCell::new(Texts::new());
}

impl Texts {
    fn new() -> Self {
        let epoch = Civil::from_secs(0);
        Self {
            secs: i64::MIN,
            zone: jiff::tz::TimeZone::system(),
            http: date::http(0),
            local: date::local(epoch, 0),
            iso8601: date::iso8601(epoch, 0),
            log: date::log(epoch),
            syslog: date::syslog(epoch),
        }
    }

    fn update(&mut self, secs: i64) {
        let offset = offset_secs(&self.zone, secs);
        let local = Civil::from_secs(secs + i64::from(offset));
        self.secs = secs;
        self.http = date::http(secs);
        self.local = date::local(local, offset / 60);
        self.iso8601 = date::iso8601(local, offset / 60);
        self.log = date::log(local);
        self.syslog = date::syslog(local);
    }
}

/// Seconds that `zone` is ahead of GMT at `secs`.
fn offset_secs(zone: &jiff::tz::TimeZone, secs: i64) -> i32 {
    jiff::Timestamp::from_second(secs).map_or(0, |at| zone.to_offset(at).seconds())
}

fn text<T>(pick: impl FnOnce(&Texts) -> T) -> T {
    let secs = wall().secs;
    TEXTS.with_borrow_mut(|texts| {
        if texts.secs != secs {
            texts.update(secs);
        }
        pick(texts)
    })
}

/// Now, as in the `Date` header: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http_date() -> [u8; 29] {
    text(|texts| texts.http)
}

/// Now, as `$time_local`: `29/Nov/2026:19:00:00 +0000`.
pub fn time_local() -> [u8; 26] {
    text(|texts| texts.local)
}

/// Now, as `$time_iso8601`: `2026-11-29T19:00:00+00:00`.
pub fn time_iso8601() -> [u8; 25] {
    text(|texts| texts.iso8601)
}

/// Now, as in the error log: `2026/11/29 19:00:00`.
pub fn log_date() -> [u8; 19] {
    text(|texts| texts.log)
}

/// Now, as in a syslog datagram: `Nov 29 19:00:00`.
pub fn syslog_date() -> [u8; 15] {
    text(|texts| texts.syslog)
}

/// Now, as `$msec`: seconds, a point, milliseconds. Appended to `out`.
pub fn msec(out: &mut Vec<u8>) {
    use std::io::Write as _;

    let wall = wall();
    write!(out, "{}.{:03}", wall.secs, wall.millis).expect("a vector takes any text");
}

/// The next moment, today or tomorrow, when the local time of day is `secs_of_day`; for `expires @15h30m`.
pub fn next_daily(secs_of_day: i64) -> i64 {
    let secs = wall().secs;
    let offset = TEXTS.with_borrow(|texts| i64::from(offset_secs(&texts.zone, secs)));
    let midnight = secs - (secs + offset).rem_euclid(86400);
    let today = midnight + secs_of_day;
    if today > secs { today } else { today + 86400 }
}

/// Reads the system's time zone again (in this thread); at a reload.
pub fn reset_zone() {
    jiff::tz::reset_system_time_zone_cache();
    jiff::tz::db().reset();
    TEXTS.with_borrow_mut(|texts| *texts = Texts::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_add_and_subtract() {
        let start = Now::from_millis(1500);
        let later = start.after(Duration::from_millis(20));
        assert_eq!(later.millis(), 1520);
        assert_eq!(later.since(start), Duration::from_millis(20));
        assert_eq!(start.since(later), Duration::ZERO);
        let first = now();
        assert!(now() >= first);
        assert!(Now(u64::MAX).instant() > now().instant());
    }

    #[test]
    fn texts_agree_with_the_wall_clock() {
        let before = wall().secs;
        let date = http_date();
        let after = wall().secs;
        let secs = date::parse_http(&date).unwrap();
        assert!((before..=after).contains(&secs));
        let mut out = Vec::new();
        msec(&mut out);
        assert_eq!(out.len(), before.to_string().len() + 4);
        let daily = next_daily(3600);
        assert!(daily > before && daily <= after + 86400);
    }
}
