//! One session of datagrams: from its first datagram to the last that is awaited, or until nothing comes any more.
//!
//! Mirrors the parts for datagrams of `ngx_stream_proxy_process`, `ngx_stream_proxy_test_finalize`,
//! `ngx_stream_proxy_process_connection` and `ngx_stream_proxy_finalize` (`stream/ngx_stream_proxy_module.c`).

use std::{
    collections::VecDeque,
    fmt,
    io::{self, ErrorKind, IoSlice},
    mem,
    sync::Arc,
};

use socket2::Socket;

use super::{Udp, table::Key};
use crate::{
    common::{
        addr::Addr,
        clock::{self, Now},
    },
    conf::model::{Level, ProxyProtocol},
    net::{
        connect::connect_datagrams,
        datagrams::{Datagrams, Room},
        proxy_protocol::write,
    },
    stream::{
        log,
        proxy::{
            connect,
            rate::Rate,
            relay::{rate, report},
        },
        session::{Action, Session},
    },
    upstream::{Group, Lease, Outcome},
};

/// A session with an upstream, or one that will have it. `E` is its place among the connections of the thread.
#[derive(Debug)]
pub(super) struct Flow<'g, E> {
    pub(super) s: Session<'g, Udp>,
    key: Key,
    upstream: Option<Upstream>,
    /// Datagrams of the client.
    requests: u64,
    /// Datagrams of the upstream; an error counts as one.
    responses: u64,
    /// Second of the day's clock in which it began.
    start: i64,
    up: Option<Box<Rate>>,
    down: Option<Box<Rate>>,
    /// Datagrams that cannot go to the upstream yet.
    waiting: Waiting,
    /// The upstream's socket is being watched for room.
    pub(super) is_writing: bool,
    /// The next datagram of its client makes another session.
    pub(super) is_detached: bool,
    /// Sending to the upstream or reading from it failed, or it was silent for too long.
    has_failed: bool,
    /// When it has been idle for too long; None before there is an upstream, and while a rate makes it wait.
    deadline: Option<Now>,
    _place: E,
}

/// A socket whose other end is a peer.
#[derive(Debug)]
struct Upstream {
    socket: Socket,
    lease: Lease,
}

/// Datagrams that wait.
#[derive(Debug, Default)]
struct Waiting {
    list: VecDeque<Vec<u8>>,
    /// What they hold; an empty one counts as a byte.
    bytes: usize,
}

impl Waiting {
    fn push(&mut self, datagram: Vec<u8>) {
        self.bytes += datagram.len().max(1);
        self.list.push_back(datagram);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let datagram = self.list.pop_front()?;
        self.bytes -= datagram.len().max(1);
        Some(datagram)
    }
}

/// What a datagram, or the lack of one, led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum After {
    /// The session goes on.
    Stay,
    /// There may be more to read at once.
    Again,
    /// It ends with this status.
    Over(u16),
}

/// How often an upstream is read from before others have their turn.
const READS: usize = 8;

impl<'g, E> Flow<'g, E> {
    /// A session that its client's first datagram began.
    pub(super) fn new(s: Session<'g, Udp>, key: Key, place: E) -> Self {
        Self {
            s,
            key,
            upstream: None,
            requests: 1,
            responses: 0,
            start: clock::wall().secs,
            up: None,
            down: None,
            waiting: Waiting::default(),
            is_writing: false,
            is_detached: false,
            has_failed: false,
            deadline: None,
            _place: place,
        }
    }

    /// The socket to watch.
    pub(super) fn socket(&self) -> Option<&Socket> {
        self.upstream.as_ref().map(|upstream| &upstream.socket)
    }

    /// Whether there are datagrams that wait for room.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.list.is_empty()
    }

    /// Picks a peer and sends it the first datagram, or the status that the session ends with.
    pub(super) fn connect(
        &mut self,
        group: Arc<Group>,
        bind: Option<Addr>,
        first: &[u8],
    ) -> Result<After, u16> {
        let s = &mut self.s;
        let options = connect::options(s, bind);
        let (mut tries, hash_key) = connect::walk(s, group);
        let (socket, lease) = loop {
            let mut lease = connect::pick(s, &mut tries, &hash_key)?;
            match connect_datagrams(&lease.peer().addr, &options) {
                Ok(socket) => {
                    connect::connected(s, || local(&socket), &mut lease);
                    break (socket, lease);
                }
                Err(error) => {
                    let fail = connect::refused(s, &error);
                    connect::failed(s, lease, &fail, &tries)?;
                }
            }
        };
        let conf = &*s.server.proxy;
        let header = match conf.protocol {
            ProxyProtocol::Off => Vec::new(),
            ProxyProtocol::V1 => write::version1(&s.client.addr, s.local()),
            ProxyProtocol::V2 => write::version2(&s.client.addr, s.local(), true),
        };
        self.up = rate(s, &conf.upload_rate, self.start).map(Box::new);
        self.down = rate(s, &conf.download_rate, self.start).map(Box::new);
        self.upstream = Some(Upstream { socket, lease });
        let rest = mem::take(&mut self.waiting);
        if let Err(status) = self.send(&header, first) {
            return Ok(After::Over(status));
        }
        for datagram in rest.list {
            if let Err(status) = self.send(b"", &datagram) {
                return Ok(After::Over(status));
            }
        }
        Ok(self.judge())
    }

    /// A datagram of the client, not the first.
    pub(super) fn hear_client(&mut self, bytes: &[u8]) -> After {
        if let Some(rate) = &mut self.up {
            let now = clock::now();
            // What comes during a pause is lost.
            if rate.pausing(now).is_some() {
                return After::Stay;
            }
            let read = self.s.bytes.from_client;
            if rate.allowance(read, clock::wall().secs, now) == 0 {
                return self.judge();
            }
            rate.took(bytes.len() as u64, now);
        }
        self.requests += 1;
        self.s.bytes.from_client += bytes.len() as u64;
        let sent = if self.upstream.is_none() || self.is_waiting() {
            self.keep(bytes);
            Ok(())
        } else {
            // DIFFERS(udp-whole): nginx cuts all but the first to `proxy_buffer_size`.
            self.send(b"", bytes)
        };
        match sent {
            Ok(()) => self.judge(),
            Err(status) => After::Over(status),
        }
    }

    /// There is room to send to the upstream again.
    pub(super) fn drain(&mut self) -> After {
        while let Some(datagram) = self.waiting.pop() {
            let before = self.waiting.list.len();
            if let Err(status) = self.send(b"", &datagram) {
                return After::Over(status);
            }
            if self.waiting.list.len() > before {
                // It is the first again.
                self.waiting.list.rotate_right(1);
                return After::Stay;
            }
        }
        self.judge()
    }

    /// Something has come from the upstream: passes it to the client.
    pub(super) fn hear_upstream(&mut self, client: &Datagrams, room: &mut Room) -> After {
        let mut reads = 0;
        while let Some(upstream) = &self.upstream {
            let now = clock::now();
            let mut most = usize::MAX;
            if let Some(rate) = &mut self.down {
                let read = self.s.bytes.from_upstream;
                if rate.pausing(now).is_some() || rate.allowance(read, clock::wall().secs, now) == 0
                {
                    break;
                }
                most = 1;
            }
            if reads == READS {
                return After::Again;
            }
            reads += 1;
            let (count, is_all) = match room.take(&upstream.socket, most) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.has_failed = true;
                    self.count(now, 0);
                    report(&mut self.s, Action::ReadingFromUpstream, "recv()", &error);
                    continue;
                }
                Ok(taken) => taken,
            };
            for index in 0..count {
                let bytes = room.taken(index);
                self.count(now, bytes.len() as u64);
                if let Err(status) = self.pass_on(bytes, client) {
                    return After::Over(status);
                }
            }
            // Once no more is awaited, nobody asks what else may come.
            if is_all || self.is_complete() {
                break;
            }
        }
        self.judge()
    }

    /// The time that it was to come up has come.
    pub(super) fn wake(&mut self, now: Now, client: &Datagrams, room: &mut Room) -> After {
        if let Some(deadline) = self.deadline {
            return if deadline <= now {
                self.time_out()
            } else {
                After::Stay
            };
        }
        if self.pause(now).is_some() {
            return After::Stay;
        }
        self.hear_upstream(client, room)
    }

    /// When it is to come up; None while the upstream is being looked for.
    pub(super) fn due(&mut self) -> Option<Now> {
        let pause = self.pause(clock::now());
        pause.or(self.deadline)
    }

    /// Ends it: gives the peer back, writes the log, closes the socket.
    pub(super) fn finish(mut self, status: u16) {
        let s = &mut self.s;
        if let Some(Upstream { lease, .. }) = self.upstream {
            let now = clock::now().millis();
            let bytes = s.bytes;
            if let Some(record) = s.attempts.current() {
                record.response_time = Some(now.saturating_sub(lease.start()));
                record.bytes_received = bytes.from_upstream;
                record.bytes_sent = bytes.to_upstream;
            }
            let outcome = if self.has_failed {
                Outcome::Failed
            } else {
                Outcome::Ok
            };
            if lease.finish(outcome, now).disabled {
                s.log(
                    Level::Warn,
                    format_args!("upstream server temporarily disabled"),
                );
            }
        }
        s.status = status;
        log::lines(s);
    }

    /// Sends a datagram behind `header` to the upstream; the status that the session ends with when that fails.
    fn send(&mut self, header: &[u8], bytes: &[u8]) -> Result<(), u16> {
        let Some(Upstream { socket, .. }) = &self.upstream else {
            return Ok(());
        };
        let sent = if header.is_empty() {
            socket.send(bytes)
        } else {
            socket.send_vectored(&[IoSlice::new(header), IoSlice::new(bytes)])
        };
        match sent {
            Ok(n) => self.s.bytes.to_upstream += n as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.waiting.push([header, bytes].concat());
            }
            Err(error) => {
                self.has_failed = true;
                report(&mut self.s, Action::SendingToUpstream, "sendmsg()", &error);
                return Err(200);
            }
        }
        Ok(())
    }

    /// Keeps a datagram until it can be sent; lost when there are too many.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        if self.waiting.bytes + bytes.len().max(1) <= self.s.server.proxy.buffer_size
            || self.waiting.list.is_empty()
        {
            self.waiting.push(bytes.to_vec());
        }
    }

    /// The first datagram that was kept.
    pub(super) fn take_first(&mut self) -> Vec<u8> {
        self.waiting.pop().unwrap_or_default()
    }

    /// A datagram of so many bytes has come from the upstream, or an error.
    fn count(&mut self, now: Now, len: u64) {
        self.responses += 1;
        self.s.bytes.from_upstream += len;
        if let Some(rate) = &mut self.down {
            rate.took(len, now);
        }
        if self.responses == 1
            && let Some(upstream) = &mut self.upstream
            && let Some(record) = self.s.attempts.current()
        {
            upstream.lease.first_byte(now.millis());
            record.first_byte_time = Some(now.millis().saturating_sub(upstream.lease.start()));
        }
    }

    /// Sends a datagram to the client; the status that the session ends with when that fails.
    fn pass_on(&mut self, bytes: &[u8], client: &Datagrams) -> Result<(), u16> {
        match client.send(bytes, self.key.from, self.key.to) {
            Ok(()) => self.s.bytes.to_client += bytes.len() as u64,
            // DIFFERS(udp-busy): the datagram is lost, as it might be a step further; nginx ends the session.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                report(&mut self.s, Action::SendingToClient, "sendmsg()", &error);
                return Err(200);
            }
        }
        Ok(())
    }

    /// Whether as many datagrams have come from the upstream as are awaited for those of the client.
    fn has_answers(&self) -> bool {
        let each = self.s.server.proxy.responses;
        each.is_some_and(|each| self.responses >= each.saturating_mul(self.requests))
    }

    /// Whether nothing is awaited any more.
    fn is_complete(&self) -> bool {
        let requests = self.s.server.proxy.requests;
        self.requests >= requests && self.has_answers() && !self.is_waiting()
    }

    /// Looks at whether the session is over, and lets it begin to be idle if it is not.
    fn judge(&mut self) -> After {
        self.s.action = Action::Proxying;
        let requests = self.s.server.proxy.requests;
        if requests > 0 && self.requests >= requests {
            self.is_detached = true;
        }
        if self.upstream.is_none() {
            return After::Stay;
        }
        if self.is_complete() {
            self.note("udp done");
            return After::Over(200);
        }
        let now = clock::now();
        self.deadline = match self.pause(now) {
            Some(_) => None,
            None => Some(now.after(self.s.server.proxy.timeout)),
        };
        After::Stay
    }

    fn pause(&mut self, now: Now) -> Option<Now> {
        let rates = [&mut self.up, &mut self.down].into_iter().flatten();
        rates.filter_map(|rate| rate.pausing(now)).min()
    }

    /// Nothing has come for `proxy_timeout`.
    fn time_out(&mut self) -> After {
        if self.s.server.proxy.responses.is_none() || self.has_answers() {
            self.note("udp timed out");
            return After::Over(200);
        }
        self.has_failed = true;
        self.s.log(
            Level::Error,
            format_args!("upstream timed out (110: Connection timed out)"),
        );
        After::Over(502)
    }

    fn note(&self, what: impl fmt::Display) {
        let (requests, responses, bytes) = (self.requests, self.responses, &self.s.bytes);
        self.s.log_plain(
            Level::Info,
            format_args!("{what}, packets from/to client:{requests}/{responses}, {bytes}"),
        );
    }
}

fn local(socket: &Socket) -> io::Result<Addr> {
    let addr = socket.local_addr()?;
    Ok(match addr.as_socket() {
        Some(addr) => Addr::Inet(addr),
        None => Addr::Unix(addr.as_pathname().unwrap_or("".as_ref()).into()),
    })
}
