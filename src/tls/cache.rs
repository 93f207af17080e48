//! Certificates and keys whose names have variables, kept for later connections (`ssl_certificate_cache` and its kin).
//!
//! Mirrors `ngx_ssl_cache_connection_fetch` and `ngx_ssl_cache_expire` (`event/ngx_event_openssl_cache.c`). Keys with a
//! password are not kept: who has no password must not get them.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lru::LruCache;
use rustls::{
    pki_types::CertificateDer,
    sign::{CertifiedKey, SigningKey},
};

use super::pem;
use crate::conf::model::{CertificateCache, Passwords, Pem};

/// What one directive keeps.
pub(super) struct Cache {
    rule: CertificateCache,
    entries: Mutex<LruCache<Id, Entry>>,
}

/// A certificate with its chain, or a key.
#[derive(Clone)]
enum Object {
    Chain(Vec<CertificateDer<'static>>),
    Key(Arc<dyn SigningKey>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Id {
    is_key: bool,
    source: Pem,
}

struct Entry {
    object: Object,
    /// When it was read or its file was looked at, seconds.
    checked: i64,
    /// When it was used, seconds.
    used: i64,
    file: Option<Stamp>,
}

/// Tells that a file is another one: its number, and when it was changed.
type Stamp = (u64, i64);

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

impl Cache {
    pub(super) fn new(rule: CertificateCache) -> Self {
        Self {
            rule,
            entries: LruCache::unbounded().into(),
        }
    }

    pub(super) fn rule(&self) -> CertificateCache {
        self.rule
    }

    /// A certificate with its key, kept or read now; `now` is in seconds of the day's clock. The error is nginx's message.
    pub(super) fn certified_key(
        &self,
        certificate: &Pem,
        key: &Pem,
        passwords: &Passwords,
        now: i64,
    ) -> Result<CertifiedKey, String> {
        let parts = |anew: bool| {
            let chain = self.find(false, certificate, passwords, (now, anew))?;
            let signing = self.find(true, key, passwords, (now, anew))?;
            match (chain, signing) {
                (Object::Chain(chain), Object::Key(signing)) => Ok((chain, signing)),
                _ => Err("a key is no certificate".to_owned()),
            }
        };
        let (chain, signing) = parts(false)?;
        pem::pair(chain, signing, key).or_else(|_| {
            // One of them may have been older than the other.
            let (chain, signing) = parts(true)?;
            pem::pair(chain, signing, key)
        })
    }

    fn find(
        &self,
        is_key: bool,
        source: &Pem,
        passwords: &Passwords,
        (now, anew): (i64, bool),
    ) -> Result<Object, String> {
        let id = Id {
            is_key,
            source: source.clone(),
        };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(&id)
            && entry.is_good(source, now, (anew, self.rule.valid))
        {
            entry.used = now;
            return Ok(entry.object.clone());
        }
        entries.pop(&id);
        let file = stamp(source);
        let (object, may_be_kept) = if is_key {
            let (key, is_open) = pem::signing_key(source, passwords)?;
            (Object::Key(key), is_open)
        } else {
            (Object::Chain(pem::chain(source)?), true)
        };
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
    /// Whether it still stands for `source`, which is looked at now and then.
    fn is_good(&mut self, source: &Pem, now: i64, (anew, valid): (bool, Duration)) -> bool {
        if matches!(source, Pem::Data(_)) || (!anew && is_within(self.checked, now, valid)) {
            return true;
        }
        let is_same = !anew && self.file.is_some() && self.file == stamp(source);
        if is_same {
            self.checked = now;
        }
        is_same
    }
}

fn is_within(then: i64, now: i64, time: Duration) -> bool {
    now.saturating_sub(then) <= i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn stamp(source: &Pem) -> Option<Stamp> {
    let stamp = |path: &Path| {
        fs::metadata(path)
            .map(|file| (file.ino(), file.mtime()))
            .ok()
    };
    match source {
        Pem::File(path) => stamp(path),
        Pem::Data(_) | Pem::Engine(_) | Pem::Store(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let cache = Cache::new(CertificateCache {
            max: 4,
            inactive: Duration::from_secs(10),
            valid: Duration::from_secs(2),
        });
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
            is_key: true,
            source: pair(directory, "ecdsa").1,
        });
        assert_eq!(get("ecdsa", 5), changed);
    }
}
