//! Keys of session tickets that are made here, and renewed with time.
//!
//! A key seals for a while, and opens for as long again: tickets have ended by then. Each key follows from the one before,
//! which cannot be had back from it, so that processes which were forked from one another agree without asking, over a
//! reload too. Does for all servers what `ngx_ssl_rotate_ticket_keys` does for those with a zone.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use aws_lc_rs::{
    digest::{SHA256, digest},
    rand,
};

use super::tickets::TicketKey;

/// The key that seals and the one before.
#[derive(Debug)]
pub(super) struct Keyring(Mutex<State>);

#[derive(Clone)]
struct State {
    /// Of what the present key is made, and all later ones.
    secret: [u8; 32],
    /// Since when it seals, seconds of the day's clock.
    since: i64,
    /// How long each one seals, seconds.
    period: i64,
    /// The present key, and the one before.
    keys: Vec<TicketKey>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("since", &self.since)
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

impl Keyring {
    /// A new one at `now`, for tickets that live for so long; None when there is no randomness.
    pub(super) fn random(now: i64, lifetime: Duration) -> Option<Self> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).ok()?;
        Some(Self::new(secret, now, lifetime))
    }

    fn new(secret: [u8; 32], since: i64, lifetime: Duration) -> Self {
        let state = State {
            secret,
            since,
            period: period(lifetime),
            keys: key(&secret).into_iter().collect(),
        };
        Self(state.into())
    }

    /// One with the same keys, for tickets that live for so long from `now` on.
    pub(super) fn renewed(&self, now: i64, lifetime: Duration) -> Self {
        let mut state = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        state.advance(now);
        state.period = period(lifetime);
        Self(state.into())
    }

    /// The keys at `now`: the first seals, all open.
    pub(super) fn keys(&self, now: i64) -> Vec<TicketKey> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(now);
        state.keys.clone()
    }
}

impl State {
    fn advance(&mut self, now: i64) {
        let steps = now.saturating_sub(self.since) / self.period;
        for left in (0..steps).rev() {
            self.secret = next(&self.secret);
            self.since += self.period;
            if left < 2 {
                let old = self.keys.first().filter(|_| left == 0).cloned();
                self.keys = key(&self.secret).into_iter().chain(old).collect();
            }
        }
    }
}

/// Longer than tickets live, so that two keys are enough.
fn period(lifetime: Duration) -> i64 {
    i64::try_from(lifetime.as_secs()).map_or(i64::MAX, |seconds| seconds.saturating_add(1))
}

fn next(secret: &[u8; 32]) -> [u8; 32] {
    derive(secret, b"next")
}

fn key(secret: &[u8; 32]) -> Option<TicketKey> {
    let name = derive(secret, b"name");
    TicketKey::new(&[&name[..16], &derive(secret, b"secret")].concat())
}

fn derive(secret: &[u8; 32], what: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, &[&secret[..], what].concat()).as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::{
        super::tickets::{Keys, Tickets},
        *,
    };

    const TEN: Duration = Duration::from_secs(10);

    fn sealed(ring: &Keyring, now: i64) -> Vec<u8> {
        tickets(ring, now).encrypt(b"x").unwrap()
    }

    /// Tickets with the keys at `now`.
    fn tickets(ring: &Keyring, now: i64) -> Tickets {
        Tickets {
            keys: Keys::Fixed(ring.keys(now)),
            context: [0; 32],
            lifetime: TEN,
        }
    }

    use rustls::server::ProducesTickets as _;

    #[test]
    fn keys_are_renewed_and_open_for_a_while() {
        let ring = Keyring::new([3; 32], 100, TEN);
        let first = sealed(&ring, 100);
        assert_eq!(first[..16], sealed(&ring, 110)[..16]);
        let second = sealed(&ring, 111);
        assert_ne!(first[..16], second[..16]);
        assert!(tickets(&ring, 121).decrypt(&first).is_some());
        assert!(tickets(&ring, 122).decrypt(&first).is_none());
        assert!(tickets(&ring, 122).decrypt(&second).is_some());
    }

    /// Who has slept for long comes to the same keys, and a reload changes none.
    #[test]
    fn all_processes_agree() {
        let master = Keyring::new([3; 32], 100, TEN);
        let worker = Keyring::new([3; 32], 100, TEN);
        let early = sealed(&worker, 120);
        let last = sealed(&worker, 155);
        assert!(tickets(&master, 160).decrypt(&last).is_some());
        assert!(tickets(&master, 160).decrypt(&early).is_none());
        let newer = master.renewed(160, Duration::from_mins(1));
        assert!(tickets(&newer, 200).decrypt(&last).is_some());
        assert!(tickets(&newer, 216).decrypt(&last).is_some());
        assert!(tickets(&newer, 300).decrypt(&last).is_none());
    }
}
