//! Names resolved while running (`resolver`): asynchronous, cached, one resolver a thread and directive.
//!
//! ```text
//! resolve -> cache -> a look-up that all who want the name wait for -> cache
//!            | alias: again with the other name
//! ```
//! Queries go to the servers in turn. One that is not answered, or not sensibly, within five seconds goes to the next server,
//! for as long as somebody waits. Mirrors `core/ngx_resolver.c`; [`ResolveError`] has its words.

mod cache;
mod lookup;
mod message;
mod wire;

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, hash_map::Entry},
    fmt,
    future::{Future, poll_fn},
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{sync::oneshot, time::sleep};

use self::{
    cache::Cache,
    lookup::{Found, Lookup, Outcome, Step},
    message::HOST_NOT_FOUND,
    wire::Wire,
};
use crate::{common::clock, conf::model};

/// How long an answer is waited for before the next server is asked.
const RESEND: Duration = Duration::from_secs(5);
/// How many aliases in a row are followed.
const MAX_ALIASES: usize = 50;

/// Where messages for the error log go, all of level `error`.
pub type Complain = Box<dyn Fn(fmt::Arguments<'_>)>;

/// Why a name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// The servers say so: a response code of DNS.
    Code(u8),
    /// Nobody answered in time.
    TimedOut,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{code}: {}", message::code_text(*code)),
            Self::TimedOut => f.write_str("110: Operation timed out"),
        }
    }
}

impl std::error::Error for ResolveError {}

/// The resolvers of a thread, one for each directive.
pub struct Resolvers {
    known: RefCell<Vec<(Arc<model::Resolver>, Rc<Resolver>)>>,
    complain: Rc<dyn Fn(fmt::Arguments<'_>)>,
}

impl Resolvers {
    /// None yet; their messages go to `complain`.
    pub fn new(complain: impl Fn(fmt::Arguments<'_>) + 'static) -> Self {
        Self {
            known: RefCell::default(),
            complain: Rc::new(complain),
        }
    }

    /// The resolver for a directive.
    pub fn get(&self, conf: &Arc<model::Resolver>) -> Rc<Resolver> {
        let mut known = self.known.borrow_mut();
        if let Some((_, resolver)) = known.iter().find(|(of, _)| Arc::ptr_eq(of, conf)) {
            return resolver.clone();
        }
        let complain = self.complain.clone();
        let resolver = Resolver::new((**conf).clone(), Box::new(move |message| complain(message)));
        known.push((conf.clone(), resolver.clone()));
        resolver
    }
}

impl fmt::Debug for Resolvers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resolvers").field(&self.known).finish()
    }
}

/// Who waits for one look-up.
type Waiters = Vec<oneshot::Sender<Outcome>>;

/// A resolver of one thread.
pub struct Resolver {
    conf: model::Resolver,
    complain: Complain,
    cache: RefCell<Cache>,
    /// Who waits for the look-ups under way.
    waiting: RefCell<HashMap<Box<[u8]>, Waiters>>,
    /// The server that is asked next.
    turn: Cell<usize>,
    resend: Duration,
    /// With the counter it makes random numbers that nobody can guess: `SipHash` under a secret key.
    secret: RandomState,
    counter: Cell<u64>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("conf", &self.conf)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// The resolver that a directive describes.
    pub fn new(conf: model::Resolver, complain: Complain) -> Rc<Self> {
        Self::with_resend(conf, complain, RESEND)
    }

    fn with_resend(conf: model::Resolver, complain: Complain, resend: Duration) -> Rc<Self> {
        Rc::new(Self {
            conf,
            complain,
            cache: RefCell::default(),
            waiting: RefCell::default(),
            turn: Cell::new(0),
            resend,
            secret: RandomState::new(),
            counter: Cell::new(0),
        })
    }

    /// The addresses of `name`; a zero `timeout` is none. Must be called on a [`LocalSet`](tokio::task::LocalSet).
    pub async fn resolve(
        self: &Rc<Self>,
        name: &[u8],
        timeout: Duration,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        let search = self.search(normal(name));
        if timeout.is_zero() {
            return search.await;
        }
        tokio::time::timeout(timeout, search)
            .await
            .unwrap_or(Err(ResolveError::TimedOut))
    }

    async fn search(self: &Rc<Self>, mut name: Vec<u8>) -> Result<Vec<IpAddr>, ResolveError> {
        for _ in 0..=MAX_ALIASES {
            let cached = self
                .cache
                .borrow_mut()
                .find(&name, seconds(), || self.random());
            let found = match cached {
                Some(found) => found,
                None => self.ask(&name).await?,
            };
            match found {
                Found::Addrs(addrs) => return Ok(addrs),
                Found::Alias(other) => name = other,
            }
        }
        Err(ResolveError::Code(HOST_NOT_FOUND))
    }

    /// Waits for the look-up of `name`, and begins it if there is none.
    async fn ask(self: &Rc<Self>, name: &[u8]) -> Result<Found, ResolveError> {
        let (sender, answer) = oneshot::channel();
        match self.waiting.borrow_mut().entry(name.into()) {
            Entry::Occupied(mut entry) => entry.get_mut().push(sender),
            Entry::Vacant(entry) => {
                let [a, b, c, d, ..] = self.random().to_ne_bytes();
                let ids = [
                    self.conf.ipv4.then(|| u16::from_ne_bytes([a, b])),
                    self.conf.ipv6.then(|| u16::from_ne_bytes([c, d])),
                ];
                let lookup = Lookup::new(name, ids).ok_or(ResolveError::Code(HOST_NOT_FOUND))?;
                entry.insert(vec![sender]);
                tokio::task::spawn_local(self.clone().look_up(lookup));
            }
        }
        match answer.await {
            Ok(Outcome::Found(found, _)) => Ok(found),
            Ok(Outcome::Failed(code)) => Err(ResolveError::Code(code)),
            // The look-up was given up: nobody was waiting any more.
            Err(_) => Err(ResolveError::TimedOut),
        }
    }

    /// Asks the servers until there is an answer, or until nobody waits for one.
    async fn look_up(self: Rc<Self>, mut lookup: Lookup) {
        let servers = self.conf.servers.len();
        let mut server = self.turn.get() % servers;
        self.turn.set(server + 1);
        let mut wire = Wire::new(&self.conf.servers, &self.complain);
        if !send(&mut wire, server, &lookup) {
            server = (server + 1) % servers;
            send(&mut wire, server, &lookup);
        }
        let mut resend = pin!(sleep(self.resend));
        loop {
            let packet = poll_fn(|cx| match wire.poll_receive(cx) {
                Poll::Ready(packet) => Poll::Ready(Some(packet)),
                Poll::Pending => resend.as_mut().poll(cx).map(|()| None),
            })
            .await;
            let Some(packet) = packet else {
                if self.is_abandoned(lookup.name()) {
                    return;
                }
                server = (server + 1) % servers;
                send(&mut wire, server, &lookup);
                resend.set(sleep(self.resend));
                continue;
            };
            match lookup.take(&packet.bytes, packet.over_tcp, &self.complain) {
                Step::Wait => {}
                Step::OverTcp(kind) => {
                    let query = lookup.queries().find(|(open, ..)| *open == kind);
                    if let Some((_, query, _)) = query {
                        wire.send_over_tcp(server, kind, query);
                    }
                    resend.set(sleep(self.resend));
                }
                Step::End(outcome) => return self.finish(lookup.name(), &outcome),
            }
        }
    }

    /// Whether nobody waits for `name`; the look-up is forgotten then.
    fn is_abandoned(&self, name: &[u8]) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let abandoned = waiting
            .get(name)
            .is_none_or(|list| list.iter().all(oneshot::Sender::is_closed));
        if abandoned {
            waiting.remove(name);
        }
        abandoned
    }

    fn finish(&self, name: &[u8], outcome: &Outcome) {
        if let Outcome::Found(found, ttl) = outcome {
            let now = seconds();
            let valid = now.saturating_add(match self.conf.valid {
                Some(valid) => valid.as_secs(),
                None => u64::from(*ttl),
            });
            self.cache.borrow_mut().put(name, found.clone(), valid, now);
        }
        let waiting = self.waiting.borrow_mut().remove(name);
        for sender in waiting.into_iter().flatten() {
            // Who no longer waits needs no answer.
            drop(sender.send(outcome.clone()));
        }
    }

    fn random(&self) -> u64 {
        let count = self.counter.get();
        self.counter.set(count.wrapping_add(1));
        self.secret.hash_one(count)
    }
}

/// Sends the open queries; whether they could be sent.
fn send(wire: &mut Wire<'_>, server: usize, lookup: &Lookup) -> bool {
    lookup.queries().all(|(kind, query, over_tcp)| {
        if over_tcp {
            wire.send_over_tcp(server, kind, query);
            true
        } else {
            wire.send(server, query)
        }
    })
}

/// The name as it is asked for and kept: in lower case, without the dot at the end.
pub fn normal(name: &[u8]) -> Vec<u8> {
    name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase()
}

fn seconds() -> u64 {
    clock::now().millis() / 1000
}

#[cfg(test)]
mod tests;
