//! Certificates and keys whose names have variables, kept for later connections (`ssl_certificate_cache` and its kin).
//!
//! Mirrors `ngx_ssl_cache_connection_fetch` and `ngx_ssl_cache_expire` (`event/ngx_event_openssl_cache.c`). Keys with a
//! password are not kept: who has no password must not get them.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lru::LruCache;
use rustls::sign::CertifiedKey;

use super::objects::{self, Id, Object, Stamp};
use crate::conf::model::{CertificateCache, Passwords, Pem};

/// What one directive keeps.
pub(super) struct Cache {
    rule: Arc<CertificateCache>,
    entries: Mutex<LruCache<Id, Entry>>,
}

struct Entry {
    object: Object,
    /// When it was read or its file was looked at, seconds.
    checked: i64,
    /// When it was used, seconds.
    used: i64,
    file: Option<Stamp>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

impl Cache {
    pub(super) fn new(rule: Arc<CertificateCache>) -> Self {
        Self {
            rule,
            entries: LruCache::unbounded().into(),
        }
    }

    /// Whether it is that of this directive, as blocks inherit it.
    pub(super) fn is_of(&self, rule: &Arc<CertificateCache>) -> bool {
        Arc::ptr_eq(&self.rule, rule)
    }

    /// A certificate with its key, kept or read now; `now` is in seconds of the day's clock. The error is nginx's message.
    pub(super) fn certified_key(
        &self,
        certificate: &Pem,
        key: &Pem,
        passwords: &Passwords,
        now: i64,
    ) -> Result<CertifiedKey, String> {
        objects::pair(certificate, key, |id, anew| {
            self.find(id, passwords, (now, anew))
        })
    }

    fn find(
        &self,
        id: Id,
        passwords: &Passwords,
        (now, anew): (i64, bool),
    ) -> Result<Object, String> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(&id)
            && entry.is_good(&id, now, (anew, self.rule.valid))
        {
            entry.used = now;
            return Ok(entry.object.clone());
        }
        entries.pop(&id);
        let file = id.stamp();
        let (object, may_be_kept) = id.read(passwords)?;
        if may_be_kept {
            self.make_room(&mut entries, now);
            let entry = Entry {
                object: object.clone(),
                checked: now,
                used: now,
                file,
            };
            entries.put(id, entry);
        }
        Ok(object)
    }

    /// Drops two at most that nobody has used for long, and when it is full one more.
    fn make_room(&self, entries: &mut LruCache<Id, Entry>, now: i64) {
        for _ in 0..2 {
            let oldest = entries.peek_lru();
            if oldest.is_none_or(|(_, entry)| is_within(entry.used, now, self.rule.inactive)) {
                break;
            }
            entries.pop_lru();
        }
        if entries.len() >= self.rule.max {
            entries.pop_lru();
        }
    }
}

impl Entry {
    /// Whether it still stands for `id`, which is looked at now and then.
    fn is_good(&mut self, id: &Id, now: i64, (anew, valid): (bool, Duration)) -> bool {
        if matches!(id.source, Pem::Data(_)) || (!anew && is_within(self.checked, now, valid)) {
            return true;
        }
        let is_same = !anew && self.file.is_some() && self.file == id.stamp();
        if is_same {
            self.checked = now;
        }
        is_same
    }
}

fn is_within(then: i64, now: i64, time: Duration) -> bool {
    now.saturating_sub(then) <= i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{super::objects::Kind, *};

    fn pair(directory: &Path, name: &str) -> (Pem, Pem) {
        let file = |kind: &str| Pem::File(directory.join(format!("{name}.{kind}")));
        (file("crt"), file("key"))
    }

    fn copy(directory: &Path, from: &str, to: &str) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls");
        for kind in ["crt", "key"] {
            let made = directory.join("made");
            fs::copy(source.join(format!("{from}.{kind}")), &made).unwrap();
            fs::rename(made, directory.join(format!("{to}.{kind}"))).unwrap();
        }
    }

    /// What is cached is not read again, until it is too old, its place is needed, or halves do not fit.
    #[test]
    fn what_is_kept_and_how_long() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let rule = CertificateCache {
            max: 4,
            inactive: Duration::from_secs(10),
            valid: Duration::from_secs(2),
        };
        let cache = Cache::new(rule.into());
        let get = |name: &str, now: i64| {
            let (certificate, key) = pair(directory, name);
            let found = cache.certified_key(&certificate, &key, &Passwords::default(), now);
            found.map(|certified| certified.cert[0].len()).ok()
        };
        for name in ["client", "rsa", "ecdsa"] {
            copy(directory, name, name);
        }
        let client = get("client", 0);
        copy(directory, "rsa", "client");
        assert!(client.is_some() && get("client", 2) == client);
        let changed = get("client", 3);
        assert!(changed == get("rsa", 3) && changed != client);
        fs::remove_file(directory.join("client.crt")).unwrap();
        fs::remove_file(directory.join("client.key")).unwrap();
        assert_eq!(get("client", 4), changed);
        // Two pairs are four, and the oldest goes.
        assert!(get("ecdsa", 4).is_some() && get("rsa", 4).is_some());
        assert_eq!(get("client", 4), None);
        // A key that fits no more is read again, and its certificate too.
        fs::remove_file(directory.join("ecdsa.key")).unwrap();
        copy(directory, "rsa", "ecdsa");
        cache.entries.lock().unwrap().pop(&Id {
            kind: Kind::Key,
            source: pair(directory, "ecdsa").1,
        });
        assert_eq!(get("ecdsa", 5), changed);
    }
}
