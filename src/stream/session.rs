//! One session, filled phase by phase and read by the log.
//!
//! It is generic over what the client's bytes come by, so that the phases before the first byte and the log are the same
//! for every kind. Mirrors `ngx_stream_session_t` and `ngx_stream_log_error`.

use std::{cell::OnceCell, fmt, io, path::Path, sync::Arc};

use smallvec::SmallVec;

use super::{live::Live, preread::client_hello::ClientHello, thread::Thread};
use crate::{
    common::{
        addr::Addr,
        clock::{self, Now},
        occupancy::{LimitStatus, Place},
    },
    conf::model::{Level, Listen, StreamServer},
    log::ErrorSink,
    net::{Io, Timer, TlsIo, client::Client, proxy_protocol::Header},
    tls::{Facts, Greeting},
    upstream::Attempts,
    vars::Slots,
};

/// What a client's bytes come by.
pub(super) trait Downstream {
    /// `$protocol`
    const PROTOCOL: &'static str;
    /// What messages say in front of "client".
    const KIND: &'static str;

    /// The address that the client sends to.
    fn local_addr(&self) -> io::Result<Addr>;

    /// Its TLS, if there is any.
    fn tls(&self) -> Option<&TlsIo>;
}

impl Downstream for Io {
    const PROTOCOL: &'static str = "TCP";
    const KIND: &'static str = "";

    fn local_addr(&self) -> io::Result<Addr> {
        Self::local_addr(self)
    }

    fn tls(&self) -> Option<&TlsIo> {
        Self::tls(self)
    }
}

/// A session under way.
#[derive(Debug)]
pub(super) struct Session<'g, D> {
    /// What this thread owns.
    pub thread: &'g Thread,
    /// What all threads share.
    pub live: &'g Live,
    /// Where the client connected.
    pub listen: &'g Listen<StreamServer>,
    /// The server; use [`set_server`](Self::set_server).
    pub server: &'g StreamServer,
    /// What the client's bytes come by.
    pub downstream: D,
    /// `$connection`
    pub number: u64,
    /// Who connected.
    pub peer: Addr,
    /// Who the client is, after realip.
    pub client: Client,
    /// Who connected, as a proxy said.
    pub proxied: Option<Box<Header>>,
    /// When it began.
    pub started: Now,
    /// Bytes from and to the client, and the upstream.
    pub bytes: Bytes,
    /// `$status`; 0 before the end.
    pub status: u16,
    /// Tries.
    pub attempts: Attempts,
    /// The address of the peer, for messages; None: it is not proxied. Empty before a peer is picked.
    pub upstream: Option<Arc<str>>,
    /// What is being done, for messages.
    pub action: Action,
    /// Variables of the configuration, and captures.
    pub slots: Slots,
    /// TLS's greeting, as far as `ssl_preread` has read it; None when it did not, or there was none.
    pub hello: Option<Box<ClientHello>>,
    /// What the client has said in TLS, and with whose settings it is spoken.
    pub tls: Option<Box<Greeting>>,
    /// `$limit_conn_status`
    pub limit_status: Option<LimitStatus>,
    /// Its places in the tables of `limit_conn`.
    pub places: SmallVec<[Place; 1]>,
    /// How often `pass` has handed it on.
    pub passes: u32,
    /// Whatever it waits for: a timer that is set already costs less than a new one.
    pub timer: Timer,
    /// `TCP_NODELAY` is set on the client's socket.
    pub is_nodelay: bool,
    sink: ErrorSink,
    local: OnceCell<Addr>,
}

/// What went through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bytes {
    /// `$bytes_received`
    pub from_client: u64,
    /// `$bytes_sent`
    pub to_client: u64,
    /// From the present peer.
    pub from_upstream: u64,
    /// To the present peer, with our PROXY header.
    pub to_upstream: u64,
}

/// What is being done, as messages say after "while".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Action {
    #[default]
    Initializing,
    ReadingProxyProtocol,
    Handshaking,
    Prereading,
    Content,
    Returning,
    Passing,
    Connecting,
    HandshakingUpstream,
    Proxying,
    ReadingFromClient,
    ReadingFromUpstream,
    SendingToClient,
    SendingToUpstream,
}

impl Action {
    fn text(self) -> &'static str {
        match self {
            Self::Initializing => " while initializing session",
            Self::ReadingProxyProtocol => " while reading PROXY protocol",
            Self::Handshaking => " while SSL handshaking",
            Self::Prereading => " while prereading client data",
            Self::Content => "",
            Self::Returning => " while returning text",
            Self::Passing => " while passing connection to port",
            Self::Connecting => " while connecting to upstream",
            Self::HandshakingUpstream => " while SSL handshaking to upstream",
            Self::Proxying => " while proxying connection",
            Self::ReadingFromClient => " while proxying and reading from client",
            Self::ReadingFromUpstream => " while proxying and reading from upstream",
            Self::SendingToClient => " while proxying and sending to client",
            Self::SendingToUpstream => " while proxying and sending to upstream",
        }
    }
}

/// Who a session is about, as known when it begins.
#[derive(Debug)]
pub(super) struct Origin {
    pub number: u64,
    pub peer: Addr,
    pub local: Option<Addr>,
    pub proxied: Option<Box<Header>>,
}

impl<'g, D: Downstream> Session<'g, D> {
    /// A session that begins now.
    pub(super) fn new(
        thread: &'g Thread,
        listen: &'g Listen<StreamServer>,
        downstream: D,
        origin: Origin,
    ) -> Self {
        let live = &*thread.live;
        let server = &*listen.default_server;
        Self {
            thread,
            live,
            listen,
            server,
            downstream,
            number: origin.number,
            client: Client::of(&origin.peer),
            peer: origin.peer,
            proxied: origin.proxied,
            started: clock::now(),
            bytes: Bytes::default(),
            status: 0,
            attempts: Attempts::default(),
            upstream: None,
            action: Action::default(),
            slots: Slots::new(live.stream().slots.len()),
            hello: None,
            tls: None,
            limit_status: None,
            places: SmallVec::new(),
            passes: 0,
            is_nodelay: false,
            timer: Timer::default(),
            sink: live.error_sink(server),
            local: origin.local.map_or_else(OnceCell::new, OnceCell::from),
        }
    }

    /// Another server of the same listener goes on with it, because of a name that was read.
    pub(super) fn set_server(&mut self, name: &[u8]) {
        let Some((server, pattern)) = self.listen.names.find(name) else {
            return;
        };
        if let Some(pattern) = pattern {
            self.slots.matches(pattern, name);
        }
        self.server = server;
        self.sink = self.live.error_sink(server);
    }

    /// What there is to know of the client's TLS, if it speaks it.
    pub(super) fn tls(&self) -> Option<Facts<'_>> {
        let greeting = self.tls.as_deref()?;
        Some(Facts {
            session: self.downstream.tls().map(TlsIo::session),
            greeting: Some(greeting),
            now: clock::wall().secs,
        })
    }

    /// The address that the client connected to; asked of the system once.
    pub(super) fn local(&self) -> &Addr {
        self.local.get_or_init(|| {
            self.downstream
                .local_addr()
                .unwrap_or(Addr::Unix(Path::new("").into()))
        })
    }

    /// The error log of its server.
    pub(super) fn sink(&self) -> ErrorSink {
        self.sink
    }

    /// Writes a line to the error log of the server, with nginx's context.
    pub(super) fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        if self.sink.enabled(level) {
            let context = Context(self);
            self.log_plain(level, format_args!("{message}{context}"));
        }
    }

    /// What ends such a line.
    pub(super) fn context(&self) -> impl fmt::Display {
        Context(self)
    }

    /// Writes a line that says everything itself.
    pub(super) fn log_plain(&self, level: Level, message: fmt::Arguments<'_>) {
        self.sink.emit(level, Some(self.number), message);
    }
}

impl Session<'_, Io> {
    /// Sends small pieces to the client at once from now on, if the server says so (`ngx_tcp_nodelay`): what waits for the
    /// acknowledgement of a ticket of TLS is lost in a close.
    pub(super) fn nodelay(&mut self) {
        if self.server.core.tcp_nodelay && !self.is_nodelay {
            self.is_nodelay = true;
            // Otherwise it is later at worst.
            drop(self.downstream.set_nodelay(true));
        }
    }
}

/// The end of a message: what is being done, and for whom.
struct Context<'a, 'g, D>(&'a Session<'g, D>);

impl<D: Downstream> fmt::Display for Context<'_, '_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0;
        let (kind, client) = (D::KIND, &s.client.text);
        write!(
            f,
            "{}, {kind}client: {client}, server: {}",
            s.action.text(),
            s.listen.bind_addr
        )?;
        let Some(upstream) = &s.upstream else {
            return Ok(());
        };
        if !upstream.is_empty() {
            write!(f, ", upstream: \"{upstream}\"")?;
        }
        write!(f, ", {}", s.bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bytes from/to client:{}/{}, bytes from/to upstream:{}/{}",
            self.from_client, self.to_client, self.from_upstream, self.to_upstream
        )
    }
}
