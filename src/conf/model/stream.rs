//! `stream` and its servers: connections and datagrams that are passed on as they are.
//!
//! Mirrors the main and server configurations of `stream/ngx_stream_core_module.c` and the modules beside it. There are
//! two levels, `stream` and `server`, so that everything of a session hangs on its [`StreamServer`].

use std::{path::Path, sync::Arc, time::Duration};

use super::{
    AccessLog, AccessRule, Bind, ErrorLog, Level, LimitConn, LimitZone, Listen, OpenFileCache,
    Realip, Resolver, ServerName, Slot, Ssl, Upstream, UpstreamSsl, UpstreamSslDraft,
};
use crate::{
    common::addr::Addr,
    vars::{SlotId, Template},
};

/// `stream { }`
#[derive(Debug)]
pub struct Stream {
    /// All servers, in order.
    pub servers: Vec<Arc<StreamServer>>,
    /// All addresses to listen on, each with its servers; a range of ports is one for each port.
    pub listens: Vec<Listen<StreamServer>>,
    /// Explicit and implicit groups; `proxy_pass` refers to them by index.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Variables of the configuration; [`SlotId`] is the index. They are not those of `http`.
    pub slots: Vec<Slot>,
    /// Every `limit_conn_zone`; [`LimitConn::zone`] is the index.
    pub limit_zones: Vec<LimitZone>,
    /// The settings of the block itself; logs named here are opened even where no server uses them.
    pub core: StreamCore,
    /// The block's own `access_log`s.
    pub access_log: Arc<[AccessLog]>,
}

/// `server { }` of `stream`, with what it inherits.
#[derive(Debug)]
pub struct StreamServer {
    /// First `server_name` (`$server_name`); empty when there is none.
    pub name: Arc<str>,
    /// All names.
    pub names: Vec<ServerName>,
    /// File and line of the block, for messages.
    pub origin: (Arc<Path>, usize),
    /// Core settings and those of small modules.
    pub core: StreamCore,
    /// `ssl_*`
    pub ssl: Arc<Ssl>,
    /// `set_real_ip_from`; the PROXY line says who the client is, no header does.
    pub realip: Arc<Realip>,
    /// Access rules, in order.
    pub access: Arc<[AccessRule]>,
    /// `access_log`s; empty is off.
    pub access_log: Arc<[AccessLog]>,
    /// `set`, in order.
    pub assignments: Vec<(SlotId, Template)>,
    /// What is done with a session.
    pub handler: StreamHandler,
    /// Proxy settings; read where the handler is [`StreamHandler::Proxy`].
    pub proxy: Arc<StreamProxy>,
}

/// What is done with a session.
#[derive(Clone, Debug)]
pub enum StreamHandler {
    /// Nothing: the session ends with status 500, and nothing is logged but that.
    None,
    /// `proxy_pass`
    Proxy,
    /// `return`: this text is sent.
    Return(Template),
    /// `pass`: another listener of this configuration takes over.
    Pass(PassAddr),
}

/// Argument of `pass`.
#[derive(Clone, Debug)]
pub enum PassAddr {
    /// An address and port, or a Unix socket.
    Fixed(Addr),
    /// Read for each session.
    Variable(Template),
}

layered! {
    /// Core settings of a server, and those of small modules.
    pub struct StreamCore / StreamCoreDraft {
        /// `tcp_nodelay`, on both sides.
        tcp_nodelay: bool = true,
        /// `preread_buffer_size`, bytes.
        preread_buffer_size: usize = 16384,
        /// `preread_timeout`, for all of it.
        preread_timeout: Duration = Duration::from_secs(30),
        /// `proxy_protocol_timeout`: how long the PROXY line may take.
        proxy_protocol_timeout: Duration = Duration::from_secs(30),
        /// `resolver`; blocks that inherit one share it.
        resolver: Option<Arc<Resolver>> = None,
        /// `resolver_timeout`; zero = no limit.
        resolver_timeout: Duration = Duration::from_secs(30),
        /// `error_log`; None = that of the main context.
        error_log: Option<Arc<[ErrorLog]>> = None,
        /// `open_log_file_cache`
        open_log_file_cache: Option<OpenFileCache> = None,
        /// `ssl_preread`
        ssl_preread: bool = false,
        /// `limit_conn`, in order.
        limit_conn: Arc<[LimitConn]> = Arc::from([]),
        /// `limit_conn_log_level`, of a refused session; one milder in a dry run.
        limit_conn_log_level: Level = Level::Error,
        /// `limit_conn_dry_run`: nobody is refused.
        limit_conn_dry_run: bool = false,
    }
}

layered! {
    /// `proxy_*` settings.
    pub struct StreamProxy / StreamProxyDraft {
        /// `proxy_pass`, not inherited; None where the server does not proxy.
        pass: Option<StreamPass> = None,
        /// `proxy_connect_timeout`
        connect_timeout: Duration = Duration::from_mins(1),
        /// `proxy_timeout`: how long a session may be idle in both directions.
        timeout: Duration = Duration::from_mins(10),
        /// `proxy_buffer_size`, bytes, of each direction.
        buffer_size: usize = 16384,
        /// `proxy_upload_rate`, bytes per second from the client; empty or 0 = no limit.
        upload_rate: Template = Template::default(),
        /// `proxy_download_rate`, bytes per second from the upstream; empty or 0 = no limit.
        download_rate: Template = Template::default(),
        /// `proxy_requests`: datagrams of a client that make a session; 0 = no limit.
        requests: u64 = 0,
        /// `proxy_responses`: datagrams of the upstream that end a session; None = no limit, 0 = none is awaited.
        responses: Option<u64> = None,
        /// `proxy_next_upstream`: another peer is tried when one cannot be reached.
        next_upstream: bool = true,
        /// `proxy_next_upstream_tries`, 0 = no limit.
        next_upstream_tries: u32 = 0,
        /// `proxy_next_upstream_timeout`, zero = no limit.
        next_upstream_timeout: Duration = Duration::ZERO,
        /// `proxy_protocol`
        protocol: ProxyProtocol = ProxyProtocol::Off,
        /// `proxy_bind`; None = off.
        bind: Option<Bind> = None,
        /// `proxy_socket_keepalive`
        socket_keepalive: bool = false,
        /// `proxy_socket_sndbuf`, bytes; None or 0 = the system's.
        socket_sndbuf: Option<usize> = None,
        /// `proxy_socket_rcvbuf`, bytes; None or 0 = the system's.
        socket_rcvbuf: Option<usize> = None,
        /// `proxy_half_close`: each direction of a TCP session ends by itself.
        half_close: bool = false,
        /// `proxy_ssl_*`
        ssl: Arc<UpstreamSsl> = Arc::new(UpstreamSslDraft::default().build()),
    }
}

/// Argument of `proxy_pass` in `stream`.
#[derive(Clone, Debug)]
pub enum StreamPass {
    /// An upstream of [`Stream::upstreams`], explicit or implicit.
    Upstream(usize),
    /// Known for each session only: the name of an upstream, or an address with a port.
    Variable(Template),
}

/// Which PROXY line a session with an upstream begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// None.
    Off,
    /// `on`: version 1, text.
    V1,
    /// `v2`: version 2, binary.
    V2,
}
