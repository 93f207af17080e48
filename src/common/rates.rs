//! How fast requests of each key come (`limit_req`): a leaky bucket for each.
//!
//! Mirrors the shared zone of `ngx_http_limit_req_module.c`. Amounts are thousandths of a request, times milliseconds.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use data_encoding::BASE64;
use lru::LruCache;

/// A table of keys.
#[derive(Debug)]
pub struct Rates {
    table: Mutex<Table>,
    /// Thousandths of a request that run out of a bucket in a second.
    rate: u64,
    /// Bytes that the keys may cost.
    room: usize,
}

#[derive(Debug)]
struct Table {
    buckets: LruCache<Arc<[u8]>, Bucket>,
    /// Bytes that the keys cost.
    used: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    excess: u64,
    /// When it was last looked at; None: it has never run.
    last: Option<u64>,
    /// Requests that have looked at it and are not decided yet.
    pending: u32,
}

/// What a table says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on, with so much in the bucket.
    Within(u64),
    /// The bucket runs over; so much would be in it.
    Over(u64),
    /// There is no memory for another key.
    NoRoom,
}

/// Bytes of a node of nginx's tree before its key.
const NODE: usize = 80;
/// A key that was idle for so long and has nothing in its bucket is forgotten.
const IDLE: u64 = 60_000;

/// What a key costs in nginx's zone: its slabs are powers of two.
fn cost(key: &[u8]) -> usize {
    (NODE + key.len()).next_power_of_two()
}

impl Rates {
    /// An empty table of `size` bytes.
    pub fn new(size: u64, rate: u64) -> Self {
        Self {
            table: Mutex::new(Table {
                buckets: LruCache::unbounded(),
                used: 0,
            }),
            rate,
            room: usize::try_from(size).unwrap_or(usize::MAX),
        }
    }

    /// Looks at the bucket of `key`, in which `burst` may be besides the request. With `last` it counts the request; without,
    /// [`account`](Self::account) or [`release`](Self::release) must follow.
    pub fn look(&self, key: &[u8], burst: u64, last: bool, now: u64) -> Verdict {
        let mut table = self.table();
        if let Some(bucket) = table.buckets.get_mut(key) {
            let (excess, age) = bucket.fill(self.rate, now);
            if excess > burst {
                return Verdict::Over(excess);
            }
            if last {
                bucket.set(excess, age, now);
            } else {
                bucket.pending += 1;
            }
            return Verdict::Within(excess);
        }
        table.forget_idle(self.rate, now);
        if table.used + cost(key) > self.room {
            table.forget_oldest();
            table.forget_idle(self.rate, now);
            if table.used + cost(key) > self.room {
                return Verdict::NoRoom;
            }
        }
        table.insert(
            key.into(),
            Bucket {
                excess: 0,
                last: last.then_some(now),
                pending: u32::from(!last),
            },
        );
        Verdict::Within(0)
    }

    /// Counts a request that was looked at: what is in the bucket with it.
    pub fn account(&self, key: &[u8], now: u64) -> u64 {
        let mut table = self.table();
        let Some(bucket) = table.buckets.peek_mut(key) else {
            return 0;
        };
        let (excess, age) = bucket.fill(self.rate, now);
        bucket.set(excess, age, now);
        bucket.pending = bucket.pending.saturating_sub(1);
        excess
    }

    /// A request that was looked at is not counted.
    pub fn release(&self, key: &[u8]) {
        if let Some(bucket) = self.table().buckets.peek_mut(key) {
            bucket.pending = bucket.pending.saturating_sub(1);
        }
    }

    /// How long a request waits when so much is in its bucket, of which `free` makes nobody wait; milliseconds.
    pub fn delay(&self, excess: u64, free: u64) -> u64 {
        excess.saturating_sub(free) * 1000 / self.rate.max(1)
    }

    /// The buckets as lines for the next generation: `start`, then key, content and age.
    pub fn write(&self, start: &str, now: u64, text: &mut String) {
        let table = self.table();
        for (key, bucket) in table.buckets.iter().rev() {
            let age = now.saturating_sub(bucket.last.unwrap_or(now));
            let key = BASE64.encode(key);
            // A string takes any text.
            writeln!(text, "{start}\t{key}\t{}\t{age}", bucket.excess).ok();
        }
    }

    /// Takes back what [`write`](Self::write) wrote after `start`; false when it is no such line.
    pub fn read(&self, line: &str, now: u64) -> bool {
        let mut fields = line.split('\t');
        let mut field = || fields.next();
        let parsed = (|| {
            let key = BASE64.decode(field()?.as_bytes()).ok()?;
            let excess = field()?.parse().ok()?;
            let age: u64 = field()?.parse().ok()?;
            Some((key, excess, age))
        })();
        let Some((key, excess, age)) = parsed else {
            return false;
        };
        let mut table = self.table();
        if table.used + cost(&key) <= self.room {
            let bucket = Bucket {
                excess,
                last: Some(now.saturating_sub(age)),
                pending: 0,
            };
            table.insert(key.into(), bucket);
        }
        true
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    /// What is in it with one more request, and how long it has run.
    fn fill(&self, rate: u64, now: u64) -> (u64, u64) {
        let age = self.last.map_or(u64::MAX, |last| now.saturating_sub(last));
        let left = self.excess.saturating_sub(rate.saturating_mul(age) / 1000);
        // One request runs in while the rest runs out: what would be below nothing is taken from it.
        let below = (rate.saturating_mul(age) / 1000).saturating_sub(self.excess);
        ((left + 1000).saturating_sub(below), age)
    }

    fn set(&mut self, excess: u64, age: u64, now: u64) {
        self.excess = excess;
        if age > 0 {
            self.last = Some(now);
        }
    }
}

impl Table {
    fn insert(&mut self, key: Arc<[u8]>, bucket: Bucket) {
        self.used += cost(&key);
        if let Some((old, _)) = self.buckets.push(key, bucket) {
            self.used -= cost(&old);
        }
    }

    /// Forgets up to two keys that are idle, of those that were not seen for longest.
    fn forget_idle(&mut self, rate: u64, now: u64) {
        for _ in 0..2 {
            let Some((_, bucket)) = self.buckets.peek_lru() else {
                return;
            };
            let age = bucket.last.map_or(0, |last| now.saturating_sub(last));
            let left = bucket
                .excess
                .saturating_sub(rate.saturating_mul(age) / 1000);
            if bucket.pending > 0 || age < IDLE || left > 0 {
                return;
            }
            self.forget_oldest();
        }
    }

    /// Forgets the key that was not seen for longest, unless somebody still looks at it.
    fn forget_oldest(&mut self) {
        if self
            .buckets
            .peek_lru()
            .is_some_and(|(_, bucket)| bucket.pending == 0)
            && let Some((key, _)) = self.buckets.pop_lru()
        {
            self.used -= cost(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_leaks() {
        let rates = Rates::new(1 << 20, 2000);
        let look = |now| rates.look(b"k", 1000, true, now);
        assert_eq!(look(0), Verdict::Within(0));
        assert_eq!(look(0), Verdict::Within(1000));
        assert_eq!(look(0), Verdict::Over(2000));
        assert_eq!(look(250), Verdict::Over(1500));
        assert_eq!(look(500), Verdict::Within(1000));
        assert_eq!(look(10_000), Verdict::Within(0));
        assert_eq!(rates.delay(1500, 500), 500);
        assert_eq!(rates.delay(500, 1000), 0);
    }

    #[test]
    fn of_two_tables_the_first_is_counted_later() {
        let rates = Rates::new(1 << 20, 1000);
        assert_eq!(rates.look(b"k", 0, false, 5), Verdict::Within(0));
        rates.release(b"k");
        assert_eq!(rates.look(b"k", 0, false, 5), Verdict::Within(0));
        assert_eq!(rates.account(b"k", 5), 0);
        assert_eq!(rates.look(b"k", 0, false, 5), Verdict::Over(1000));
    }

    #[test]
    fn the_oldest_makes_room() {
        let rates = Rates::new(256, 1000);
        for (now, key) in [b"a", b"b", b"c"].into_iter().enumerate() {
            assert_eq!(rates.look(key, 0, true, now as u64), Verdict::Within(0));
        }
        assert_eq!(rates.look(b"a", 0, false, 3), Verdict::Within(0));
        assert_eq!(rates.look(b"d", 0, false, 3), Verdict::Within(0));
        // Both are looked at and stay.
        assert_eq!(rates.look(b"e", 0, true, 3), Verdict::NoRoom);
    }

    #[test]
    fn buckets_cross_a_reload() {
        let old = Rates::new(1 << 20, 1000);
        old.look(b"a\t\n", 5000, true, 1000);
        old.look(b"a\t\n", 5000, true, 1000);
        let mut text = String::new();
        old.write("x", 1500, &mut text);
        let new = Rates::new(1 << 20, 1000);
        let line = text.trim_end().strip_prefix("x\t").unwrap();
        assert!(new.read(line, 70_000) && !new.read("nonsense", 0));
        assert_eq!(new.look(b"a\t\n", 0, true, 70_000), Verdict::Over(1500));
    }
}
