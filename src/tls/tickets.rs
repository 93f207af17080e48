//! Session tickets: sealed with the keys of `ssl_session_ticket_key`, or with those of a [`Keyring`].
//!
//! A ticket is good where it was made: for servers with the same certificates that ask clients for the same ones
//! (`ngx_ssl_session_id_context`).

use std::{fmt, fs, path::PathBuf, sync::Arc, time::Duration};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    digest::{SHA256, digest},
};
use rustls::server::ProducesTickets;

use super::{keyring::Keyring, notes, sessions::Context};
use crate::common::{clock, errno::Errno};

/// A key: its name, which tickets begin with, and the secret.
#[derive(Clone)]
pub(super) struct TicketKey {
    name: [u8; NAME],
    secret: Arc<RandomizedNonceKey>,
}

const NAME: usize = 16;
const NONCE: usize = 12;

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey(..)")
    }
}

impl TicketKey {
    /// Of the bytes of a key file: 16 of its name, the others are secret.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let (name, secret) = bytes.split_first_chunk()?;
        let key = RandomizedNonceKey::new(&AES_256_GCM, digest(&SHA256, secret).as_ref()).ok()?;
        Some(Self {
            name: *name,
            secret: Arc::new(key),
        })
    }

    /// Of a file. The error is nginx's message.
    pub(super) fn read(path: &PathBuf) -> Result<Self, String> {
        let shown = path.display();
        let bytes = fs::read(path)
            .map_err(|error| format!("open() \"{shown}\" failed ({})", Errno(&error)))?;
        if bytes.len() != 48 && bytes.len() != 80 {
            return Err(format!("\"{shown}\" must be 48 or 80 bytes"));
        }
        Self::new(&bytes).ok_or_else(|| format!("\"{shown}\" is no key"))
    }
}

/// Where keys come from.
#[derive(Debug)]
pub(super) enum Keys {
    /// Files.
    Fixed(Vec<TicketKey>),
    /// Made here, and renewed with time.
    Renewed(Arc<Keyring>),
}

/// Seals with the first key, opens with any.
// DIFFERS(tickets): nginx's are in OpenSSL's form.
#[derive(Debug)]
pub(super) struct Tickets {
    pub(super) keys: Keys,
    pub(super) context: Context,
    pub(super) lifetime: Duration,
}

/// What is sealed has a multiple of this size, bytes.
const PADDED: usize = 128;

/// How long a ticket may live at most, seconds (RFC 8446, section 4.6.1).
const WEEK: u32 = 7 * 86400;

impl Tickets {
    fn with_keys<T>(&self, now: i64, with: impl FnOnce(&[TicketKey]) -> T) -> T {
        match &self.keys {
            Keys::Fixed(keys) => with(keys),
            Keys::Renewed(ring) => with(&ring.keys(now)),
        }
    }

    /// What is sealed with a ticket but not in it.
    fn bound(&self, name: &[u8; NAME]) -> Aad<Vec<u8>> {
        Aad::from([&name[..], &self.context[..]].concat())
    }

    fn seal(&self, plain: &[u8], now: i64) -> Option<Vec<u8>> {
        let key = self.with_keys(now, |keys| keys.first().cloned())?;
        let length = u16::try_from(plain.len()).ok()?;
        let mut sealed = [&now.to_be_bytes()[..], &length.to_be_bytes(), plain].concat();
        // Its size does not tell what is in it.
        sealed.resize(sealed.len().next_multiple_of(PADDED), 0);
        let bound = self.bound(&key.name);
        let nonce = key
            .secret
            .seal_in_place_append_tag(bound, &mut sealed)
            .ok()?;
        Some([&key.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn open(&self, cipher: &[u8], now: i64) -> Option<Vec<u8>> {
        let (name, rest) = cipher.split_first_chunk::<NAME>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>()?;
        let key = self.with_keys(now, |keys| {
            keys.iter().find(|key| key.name == *name).cloned()
        })?;
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key
            .secret
            .open_in_place(nonce, self.bound(name), &mut plain);
        let (begun, rest) = opened.ok()?.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let plain = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
        let age = now.saturating_sub(i64::from_be_bytes(*begun));
        let is_old = u64::try_from(age).is_ok_and(|age| age > self.lifetime.as_secs());
        (!is_old).then(|| plain.to_vec())
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        let seconds = u32::try_from(self.lifetime.as_secs());
        seconds.map_or(WEEK, |seconds| seconds.min(WEEK))
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        notes::ticket();
        self.seal(plain, clock::wall().secs)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, clock::wall().secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(keys: &[TicketKey]) -> Tickets {
        Tickets {
            keys: Keys::Fixed(keys.to_vec()),
            context: [1; 32],
            lifetime: Duration::from_secs(10),
        }
    }

    #[test]
    fn old_keys_open_and_the_first_seals() {
        let keys = [[1; 48], [2; 48]].map(|bytes| TicketKey::new(&bytes).unwrap());
        let old = tickets(&keys[1..]).encrypt(b"secret").unwrap();
        let both = tickets(&keys);
        assert_eq!(both.decrypt(&old).as_deref(), Some(&b"secret"[..]));
        assert_eq!(tickets(&keys[..1]).decrypt(&old), None);
        let mut new = both.encrypt(b"x").unwrap();
        assert_eq!(new[..NAME], keys[0].name);
        *new.last_mut().unwrap() ^= 1;
        assert_eq!(both.decrypt(&new), None);
        assert_eq!(both.decrypt(b"short"), None);
    }

    #[test]
    fn tickets_end_and_are_good_in_one_place() {
        let keys = [TicketKey::new(&[1; 48]).unwrap()];
        let own = tickets(&keys);
        let ticket = own.seal(b"x", 100).unwrap();
        assert_eq!(own.open(&ticket, 110).as_deref(), Some(&b"x"[..]));
        assert_eq!(own.open(&ticket, 111), None);
        let other = Tickets {
            context: [2; 32],
            ..tickets(&keys)
        };
        assert_eq!(other.open(&ticket, 100), None);
    }

    #[test]
    fn key_files_have_two_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert!(TicketKey::read(&path).unwrap_err().starts_with("open() \""));
        for (length, fits) in [(48, true), (80, true), (47, false), (0, false)] {
            fs::write(&path, vec![7; length]).unwrap();
            assert_eq!(TicketKey::read(&path).is_ok(), fits, "{length}");
        }
    }
}
