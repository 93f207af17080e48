//! A client's connection from accept to close: one session.
//!
//! Mirrors `ngx_stream_init_connection` and `ngx_stream_finalize_session` (`stream/ngx_stream_handler.c`).

use std::{future::poll_fn, path::Path, rc::Rc, task::Poll};

use smallvec::SmallVec;

use super::{
    content::{self, End},
    log, phases, preread, proxy_line,
    session::{Origin, Session},
    thread::Thread,
    tls,
};
use crate::{
    common::{addr::Addr, occupancy::Place},
    conf::model::Level,
    net::{Arrival, Io, listen},
};

/// A connection that `pass` hands to another listener.
#[derive(Debug)]
pub struct Passed {
    /// The connection.
    pub arrival: Arrival,
    /// Number of that listener's socket among all of the generation.
    pub door: usize,
    /// What the session has behind it.
    pub past: Past,
}

/// What a session that was handed on has behind it.
#[derive(Debug, Default)]
pub struct Past {
    passes: u32,
    /// Places of `limit_conn` stay taken.
    places: SmallVec<[Place; 1]>,
}

impl Thread {
    /// Serves a connection that came in at socket number `socket` of the stream block, to its end or until another
    /// listener takes over.
    pub async fn serve(
        self: Rc<Self>,
        arrival: Arrival,
        socket: usize,
        past: Past,
    ) -> Option<Passed> {
        let s = begin(&self, arrival, socket, past)?;
        let number = s.number;
        poll_fn(|cx| {
            self.enter(number, cx.waker());
            Poll::Ready(())
        })
        .await;
        let (mut s, end) = run(s).await;
        self.leave(number);
        match end {
            End::Status(status) => {
                s.status = status;
                log::session(&mut s);
                None
            }
            End::Passed(door, local) => Some(s.pass_on(door, local)),
        }
    }
}

/// A session for a connection; None when nobody listens for it.
fn begin(
    thread: &Thread,
    arrival: Arrival,
    socket: usize,
    past: Past,
) -> Option<Box<Session<'_, Io>>> {
    let listens = &thread.live.stream().listens;
    let behind = thread.live.sockets.get(socket)?;
    let listen = listen::listen(listens, behind, || {
        let own = || arrival.io.local_addr().ok();
        let local = arrival.local.clone().or_else(own);
        local.unwrap_or(Addr::Unix(Path::new("").into()))
    })?;
    let origin = Origin {
        number: arrival.number,
        peer: arrival.peer,
        local: arrival.local,
        proxied: arrival.proxied,
    };
    let mut s = Box::new(Session::new(thread, listen, arrival.io, origin));
    s.passes = past.passes;
    s.places = past.places;
    if s.sink().enabled(Level::Info) {
        let (peer, at) = (&s.peer, &listen.bind_addr);
        s.log_plain(Level::Info, format_args!("client {peer} connected to {at}"));
    }
    Some(s)
}

async fn run(mut s: Box<Session<'_, Io>>) -> (Box<Session<'_, Io>>, End) {
    // What comes only once is boxed, so that a session that only waits is small.
    if s.listen.proxy_protocol
        && let Err(status) = Box::pin(proxy_line::read(&mut s)).await
    {
        return (s, End::Status(status));
    }
    if let Err(status) = phases::admit(&mut s) {
        return (s, End::Status(status));
    }
    if s.listen.ssl && s.downstream.is_plain() {
        let (shaken, done) = Box::pin(tls::shake(s)).await;
        s = shaken;
        if let Err(status) = done {
            return (s, End::Status(status));
        }
    }
    if let Some(reader) = preread::reader(&s)
        && let Err(status) = Box::pin(preread::run(&mut s, reader)).await
    {
        return (s, End::Status(status));
    }
    let end = content::run(&mut s).await;
    (s, end)
}

impl Session<'_, Io> {
    fn pass_on(self, door: usize, local: Addr) -> Passed {
        Passed {
            arrival: Arrival {
                io: self.downstream,
                number: self.number,
                peer: self.client.addr,
                local: Some(local),
                proxied: self.proxied,
            },
            door,
            past: Past {
                passes: self.passes,
                places: self.places,
            },
        }
    }
}
