//! Accepting connections.
//!
//! Mirrors `ngx_event_accept` (`event/ngx_event_accept.c`): one connection at a time, so that threads with the same
//! socket share a burst; out of descriptors, nothing is accepted for a while.

use std::{io, rc::Rc, time::Duration};

use crate::{
    common::errno::Errno,
    conf::model::Level,
    http,
    log::ErrorSink,
    net::{Arrival, listen::Acceptor},
    stream::{self, Past},
};

use super::thread::Count;

/// A listening socket in one thread.
pub(super) struct Door {
    pub(super) acceptor: Acceptor,
    /// Its number among the sockets of the configuration.
    pub(super) number: usize,
    /// `worker_connections`
    // DIFFERS(worker-connections): of clients alone; nginx counts connections to upstreams too.
    pub(super) limit: usize,
    /// No other thread accepts from the socket.
    pub(super) alone: bool,
    pub(super) log: ErrorSink,
    pub(super) engines: Rc<Engines>,
    pub(super) count: Rc<Count>,
}

impl Door {
    /// Whether there are too many connections for another one; says so.
    fn is_full(&self) -> bool {
        let limit = self.limit;
        let is_full = self.count.open() >= limit;
        if is_full {
            self.log.emit(
                Level::Alert,
                None,
                format_args!("{limit} worker_connections are not enough"),
            );
        }
        is_full
    }
}

/// What serves connections in one thread.
pub(super) struct Engines {
    pub(super) http: Rc<http::Thread>,
    pub(super) stream: Rc<stream::Thread>,
}

impl Engines {
    /// Serves a connection that came in at a door, to its end.
    async fn serve(self: Rc<Self>, mut arrival: Arrival, mut door: usize) {
        let https = self.http.live.sockets.len();
        let mut past = Past::default();
        while let Some(socket) = door.checked_sub(https) {
            let stream = self.stream.clone();
            match stream.serve(arrival, socket, past).await {
                Some(passed) => (arrival, door, past) = (passed.arrival, passed.door, passed.past),
                None => return,
            }
        }
        // Rare enough to be boxed. What came before it holds its places to the end.
        let _past = past;
        Box::pin(self.http.clone().serve(arrival, door)).await;
    }
}

/// The pause when there are no descriptors left, nginx's `accept_mutex_delay`.
const PAUSE: Duration = Duration::from_millis(500);
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ECONNABORTED: i32 = 103;

/// Accepts and serves until it is aborted.
pub(super) async fn accept(door: Door) {
    loop {
        match door.acceptor.accept().await {
            Ok(_) if door.is_full() => door.engines.http.turn_away(),
            Ok((io, peer)) => {
                let arrival = Arrival::new(io, peer);
                let (number, entered) = (door.number, door.count.enter());
                if number < door.engines.http.live.sockets.len() {
                    let http = door.engines.http.clone();
                    tokio::task::spawn_local(async move {
                        http.serve(arrival, number).await;
                        drop(entered);
                    });
                } else {
                    let engines = door.engines.clone();
                    // A task is copied several times before it runs, and where it ends.
                    tokio::task::spawn_local(Box::pin(async move {
                        engines.serve(arrival, number).await;
                        drop(entered);
                    }));
                }
            }
            Err(error) => {
                if report(&error, door.log) {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        if !door.alone {
            tokio::task::yield_now().await;
        }
    }
}

/// Takes datagrams and serves them until the thread is to take no more.
pub(super) async fn receive(door: Door) {
    let enter = || (!door.is_full()).then(|| door.count.enter());
    let stream = door.engines.stream.clone();
    let Acceptor::Udp(socket) = &door.acceptor else {
        return;
    };
    let number = door.number - door.engines.http.live.sockets.len();
    if let Err(error) = stream.serve_datagrams(socket, number, enter).await {
        let error = Errno(&error);
        door.log.emit(
            Level::Alert,
            None,
            format_args!("epoll_create() failed ({error})"),
        );
    }
}

/// Logs a failure; true when there is no use in trying again soon.
fn report(error: &io::Error, log: ErrorSink) -> bool {
    let code = error.raw_os_error().unwrap_or(0);
    let level = match code {
        ECONNABORTED => Level::Error,
        EMFILE | ENFILE => Level::Crit,
        _ => Level::Alert,
    };
    log.emit(
        level,
        None,
        format_args!("accept4() failed ({})", Errno(error)),
    );
    code != ECONNABORTED
}
