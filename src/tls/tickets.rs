//! Session tickets: sealed with the keys of `ssl_session_ticket_key`, or with random ones that outlive a reload.

use std::{fmt, fs, path::PathBuf, sync::Arc, time::Duration};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    digest::{SHA256, digest},
    rand,
};
use rustls::server::ProducesTickets;

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
    fn new(bytes: &[u8]) -> Option<Self> {
        let (name, secret) = bytes.split_first_chunk()?;
        let key = RandomizedNonceKey::new(&AES_256_GCM, digest(&SHA256, secret).as_ref()).ok()?;
        Some(Self {
            name: *name,
            secret: Arc::new(key),
        })
    }

    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; 48];
        rand::fill(&mut bytes).ok()?;
        Self::new(&bytes)
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

/// Seals with the first key, opens with any.
// DIFFERS(tickets): nginx's are in OpenSSL's form, and random keys of a zone are renewed with time.
#[derive(Debug)]
pub(super) struct Tickets {
    pub(super) keys: Vec<TicketKey>,
    pub(super) lifetime: Duration,
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.lifetime.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.first()?;
        let mut sealed = [&clock::wall().secs.to_be_bytes()[..], plain].concat();
        let nonce = key
            .secret
            .seal_in_place_append_tag(Aad::from(&key.name), &mut sealed)
            .ok()?;
        Some([&key.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = cipher.split_first_chunk::<NAME>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>()?;
        let key = self.keys.iter().find(|key| key.name == *name)?;
        let mut plain = sealed.to_vec();
        let opened = key.secret.open_in_place(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(name),
            &mut plain,
        );
        let (begun, plain) = opened.ok()?.split_first_chunk()?;
        let age = clock::wall()
            .secs
            .saturating_sub(i64::from_be_bytes(*begun));
        let is_old = u64::try_from(age).is_ok_and(|age| age > self.lifetime.as_secs());
        (!is_old).then(|| plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_keys_open_and_the_first_seals() {
        let keys = [TicketKey::random().unwrap(), TicketKey::random().unwrap()];
        let tickets = |keys: &[TicketKey]| Tickets {
            keys: keys.to_vec(),
            lifetime: Duration::from_mins(5),
        };
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
    fn old_tickets_are_worth_nothing() {
        let keys = vec![TicketKey::random().unwrap()];
        let sealed = |ago: i64| {
            let begun = (clock::wall().secs - ago).to_be_bytes();
            let mut sealed = [&begun[..], b"x"].concat();
            let key = &keys[0];
            let nonce = key
                .secret
                .seal_in_place_append_tag(Aad::from(&key.name), &mut sealed)
                .unwrap();
            [&key.name[..], nonce.as_ref(), &sealed].concat()
        };
        let tickets = Tickets {
            keys: keys.clone(),
            lifetime: Duration::from_secs(10),
        };
        assert_eq!(tickets.decrypt(&sealed(5)).as_deref(), Some(&b"x"[..]));
        assert_eq!(tickets.decrypt(&sealed(20)), None);
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
