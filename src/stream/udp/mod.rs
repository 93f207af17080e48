//! Datagrams: sessions of clients that have no connections.
//!
//! ```text
//! datagrams -> known client: its session -> upstream
//!           -> a new one: Session -> realip -> set -> limit_conn -> access -> content -> upstream
//! upstreams -> sessions -> client
//! ```
//! One task serves all sessions of a socket: none is started for a session or a datagram, and a session is its entry in a
//! table and a socket to its upstream. All datagrams of a client come to the same socket of a thread, see
//! [`listen`](crate::net::listen). Mirrors `event/ngx_event_udp.c`.

mod flow;
mod table;

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use flow::{After, Flow};
use table::{Id, Key, Table};

use super::{
    phases,
    proxy::{
        connect,
        relay::report,
        target::{self, Target},
    },
    session::{Action, Downstream, Origin, Session},
    thread::Thread,
};
use crate::{
    common::{addr::Addr, clock, errno::Errno},
    conf::model::{Level, Listen, StreamHandler, StreamServer},
    net::{
        Event, Timer, TlsIo, Watch,
        datagrams::{Arrived, Datagrams, Inbox, Room},
        listen, serial,
    },
    upstream::Group,
    vars::Template,
};

/// What a client's bytes come by, in a session of datagrams: a socket that it has in common with others.
#[derive(Debug)]
pub(super) struct Udp(Addr);

impl Downstream for Udp {
    const PROTOCOL: &'static str = "UDP";
    const KIND: &'static str = "udp ";

    fn local_addr(&self) -> io::Result<Addr> {
        Ok(self.0.clone())
    }

    fn tls(&self) -> Option<&TlsIo> {
        None
    }
}

/// A socket and its sessions.
struct Door<'g, E, F> {
    thread: &'g Thread,
    listens: &'g [Listen<StreamServer>],
    /// The listens behind the socket.
    behind: &'g [usize],
    socket: &'g Datagrams,
    room: &'g RefCell<Room>,
    enter: F,
    flows: Table<Box<Flow<'g, E>>>,
    watch: Watch,
    events: Vec<Event>,
    /// Sessions whose upstreams may have more to read.
    again: Vec<Id>,
    resolving: Vec<Resolving<'g>>,
    timer: Timer,
}

/// A session that waits for the addresses of its peers.
struct Resolving<'g> {
    id: Id,
    bind: Option<Addr>,
    group: Pin<Box<dyn Future<Output = Result<Arc<Group>, String>> + 'g>>,
}

/// How often all of a door is looked at before the thread's other tasks have their turn.
const ROUNDS: usize = 4;

impl Thread {
    /// Serves the datagrams that come in at socket number `socket` of the stream block, until the thread is to take no
    /// more and the last session has ended. `enter` gives a session its place among the thread's connections, or none.
    pub async fn serve_datagrams<E>(
        self: Rc<Self>,
        datagrams: &Datagrams,
        socket: usize,
        enter: impl Fn() -> Option<E>,
    ) -> io::Result<()> {
        let Some(behind) = self.live.sockets.get(socket) else {
            return Ok(());
        };
        let mut inbox = Inbox::default();
        let mut door = Door {
            thread: &self,
            listens: &self.live.stream().listens,
            behind,
            socket: datagrams,
            room: self.room.get_or_init(RefCell::default),
            enter,
            flows: Table::default(),
            watch: Watch::new()?,
            events: Vec::new(),
            again: Vec::new(),
            resolving: Vec::new(),
            timer: Timer::default(),
        };
        let number = serial();
        poll_fn(|cx| {
            self.enter(number, cx.waker());
            Poll::Ready(())
        })
        .await;
        poll_fn(|cx| door.poll(&mut inbox, cx)).await;
        self.leave(number);
        Ok(())
    }
}

impl<'g, E, F: Fn() -> Option<E>> Door<'g, E, F> {
    /// Serves what there is; ready when nothing more is to come.
    fn poll(&mut self, inbox: &mut Inbox, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS {
            if self.thread.is_ending() {
                self.end_all();
                return Poll::Ready(());
            }
            let mut moved = self.poll_clients(inbox, cx);
            moved |= self.poll_upstreams(cx);
            moved |= self.poll_resolved(cx);
            moved |= self.poll_due(cx);
            // Who gets the last datagram of a session finds the line in the log.
            self.thread.access.flush_lines();
            if self.thread.is_leaving() && self.flows.is_empty() {
                return Poll::Ready(());
            }
            if !moved {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what clients have sent; whether there was something.
    fn poll_clients(&mut self, inbox: &mut Inbox, cx: &mut Context<'_>) -> bool {
        // DIFFERS(udp-reload): sessions of a worker that is being replaced get what their upstreams still send; nginx drops
        // it and ends them.
        if self.thread.is_leaving() {
            return false;
        }
        match inbox.poll(self.socket, self.room, cx) {
            Poll::Ready(Ok(arrived)) => {
                let room = self.room.borrow();
                for datagram in arrived {
                    self.arrive(datagram, room.bytes(datagram));
                }
                true
            }
            Poll::Ready(Err(error)) => {
                self.alert("recvmsg()", &error);
                false
            }
            Poll::Pending => false,
        }
    }

    fn arrive(&mut self, datagram: &Arrived, bytes: &[u8]) {
        let key = Key {
            from: datagram.from,
            to: datagram.to,
        };
        if let Some(id) = self.flows.find(&key) {
            if let Some(flow) = self.flows.get_mut(id) {
                let after = flow.hear_client(bytes);
                self.settle(id, after);
            }
        } else if let Some(place) = (self.enter)() {
            self.begin(key, place, bytes);
        }
    }

    /// A session begins with its first datagram.
    fn begin(&mut self, key: Key, place: E, bytes: &[u8]) {
        let local = Addr::Inet(self.socket.local(key.to));
        let Some(listen) = listen::listen(self.listens, self.behind, || local.clone()) else {
            return;
        };
        let origin = Origin {
            number: serial(),
            peer: Addr::Inet(key.from),
            local: Some(local.clone()),
            proxied: None,
        };
        let mut s = Session::new(self.thread, listen, Udp(local), origin);
        s.bytes.from_client = bytes.len() as u64;
        if s.sink().enabled(Level::Info) {
            let (peer, at) = (&s.peer, &listen.bind_addr);
            s.log_plain(
                Level::Info,
                format_args!("udp client {peer} connected to {at}"),
            );
        }
        let mut flow = Box::new(Flow::new(s, key, place));
        match self.content(&mut flow, key, bytes) {
            Ok(None) => self.open(key, flow),
            Ok(Some(resolving)) => {
                flow.keep(bytes);
                let id = self.flows.insert(key, flow);
                self.resolving.push(Resolving { id, ..resolving });
            }
            Err(status) => flow.finish(status),
        }
    }

    /// Does with a new session what is to be done: it has an upstream then, or has to wait for one. Otherwise the status
    /// that it ends with.
    fn content(
        &self,
        flow: &mut Flow<'g, E>,
        key: Key,
        bytes: &[u8],
    ) -> Result<Option<Resolving<'g>>, u16> {
        let s = &mut flow.s;
        phases::admit(s)?;
        s.action = Action::Content;
        match &s.server.handler {
            StreamHandler::None => Err(500),
            StreamHandler::Return(text) => Err(self.answer(s, key, text)),
            StreamHandler::Pass(_) => {
                s.action = Action::Passing;
                s.log(Level::Error, format_args!("cannot pass udp connection"));
                Err(500)
            }
            StreamHandler::Proxy => {
                s.upstream = Some(Arc::from(""));
                let bind = connect::bind(s);
                match target::read(s)? {
                    Target::Group(group) => match flow.connect(group, bind, bytes)? {
                        After::Over(status) => Err(status),
                        After::Stay | After::Again => Ok(None),
                    },
                    Target::Host(host, port) => Ok(Some(Resolving {
                        id: Id::from_bits(0),
                        bind,
                        group: Box::pin(target::resolve(s, host, port)?),
                    })),
                }
            }
        }
    }

    /// `return`: one datagram; the session's status.
    fn answer(&self, s: &mut Session<'g, Udp>, key: Key, text: &Template) -> u16 {
        s.action = Action::Returning;
        let text = text.to_vec(s);
        if text.is_empty() {
            return 200;
        }
        match self.socket.send(&text, key.from, key.to) {
            Ok(()) => s.bytes.to_client += text.len() as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                report(s, Action::SendingToClient, "sendmsg()", &error);
                return 500;
            }
        }
        200
    }

    /// A session has its upstream and goes on.
    fn open(&mut self, key: Key, flow: Box<Flow<'g, E>>) {
        let id = self.flows.insert(key, flow);
        self.watch(id);
        self.settle(id, After::Stay);
    }

    /// Waits for what a session's upstream sends.
    fn watch(&mut self, id: Id) {
        let socket = self.flows.get_mut(id).and_then(|flow| flow.socket());
        let Some(socket) = socket else { return };
        if let Err(error) = self.watch.add(socket, id.to_bits()) {
            self.alert("epoll_ctl()", &error);
            self.settle(id, After::Over(500));
        }
    }

    /// Takes what upstreams have sent; whether there was something.
    fn poll_upstreams(&mut self, cx: &mut Context<'_>) -> bool {
        let mut again = std::mem::take(&mut self.again);
        let mut moved = !again.is_empty();
        for id in again.drain(..) {
            self.read(id);
        }
        if self.again.is_empty() {
            self.again = again;
        }
        let mut events = std::mem::take(&mut self.events);
        match self.watch.poll(cx, &mut events) {
            Poll::Ready(Err(error)) => self.alert("epoll_wait()", &error),
            Poll::Ready(Ok(())) => moved = true,
            Poll::Pending => {}
        }
        for event in events.drain(..) {
            let id = Id::from_bits(event.number);
            self.read(id);
            if event.is_writable
                && let Some(flow) = self.flows.get_mut(id)
                && flow.is_waiting()
            {
                let after = flow.drain();
                self.settle(id, after);
            }
        }
        self.events = events;
        moved
    }

    fn read(&mut self, id: Id) {
        if let Some(flow) = self.flows.get_mut(id) {
            let mut room = self.room.borrow_mut();
            let after = flow.hear_upstream(self.socket, &mut room);
            drop(room);
            self.settle(id, after);
        }
    }

    /// Goes on with sessions whose peers' addresses are known now; whether there were some.
    fn poll_resolved(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        let mut index = 0;
        while let Some(resolving) = self.resolving.get_mut(index) {
            let Poll::Ready(result) = resolving.group.as_mut().poll(cx) else {
                index += 1;
                continue;
            };
            moved = true;
            let Resolving { id, bind, .. } = self.resolving.swap_remove(index);
            self.resolved(id, bind, result);
        }
        moved
    }

    fn resolved(&mut self, id: Id, bind: Option<Addr>, result: Result<Arc<Group>, String>) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        let after = match result {
            Ok(group) => {
                let first = flow.take_first();
                flow.connect(group, bind, &first)
            }
            Err(message) => {
                flow.s.log(Level::Error, format_args!("{message}"));
                Err(500)
            }
        };
        let after = after.unwrap_or_else(After::Over);
        if after == After::Stay {
            self.watch(id);
        }
        self.settle(id, after);
    }

    /// Looks after sessions that have come up; whether there were some.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> bool {
        let due = self.flows.next_due();
        if self.timer.poll(cx, due).is_pending() {
            return false;
        }
        let now = clock::precise();
        while let Some(id) = self.flows.pop_due(now) {
            if let Some(flow) = self.flows.get_mut(id) {
                let mut room = self.room.borrow_mut();
                let after = flow.wake(now, self.socket, &mut room);
                drop(room);
                self.settle(id, after);
            }
        }
        true
    }

    /// Draws the consequences of what happened in a session.
    fn settle(&mut self, id: Id, after: After) {
        match after {
            After::Over(status) => {
                if let Some(flow) = self.flows.remove(id) {
                    flow.finish(status);
                }
                return;
            }
            After::Again => self.again.push(id),
            After::Stay => {}
        }
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        if flow.is_waiting() != flow.is_writing
            && let Some(socket) = flow.socket()
        {
            let waits = flow.is_waiting();
            // Without it the datagrams wait until others come.
            drop(self.watch.set_writing(socket, id.to_bits(), waits));
            flow.is_writing = waits;
        }
        let (due, is_detached) = (flow.due(), flow.is_detached);
        if is_detached {
            self.flows.detach(id);
        }
        if let Some(due) = due {
            self.flows.set_due(id, due);
        }
    }

    fn end_all(&mut self) {
        for id in self.flows.ids() {
            if let Some(flow) = self.flows.remove(id) {
                flow.s.log(Level::Info, format_args!("shutdown timeout"));
                flow.finish(200);
            }
        }
        self.thread.access.flush_lines();
    }

    fn alert(&self, call: &str, error: &io::Error) {
        let sink = self.thread.live.main_sink();
        let error = Errno(error);
        sink.emit(Level::Alert, None, format_args!("{call} failed ({error})"));
    }
}
