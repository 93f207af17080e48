//! The core module's settings of a location, and those of small filters.

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use super::{ErrorLog, OpenFileCache, Resolver};
use crate::{common::addr::Addr, vars::Template};

/// Content types by lower-case file extension.
pub type Types = HashMap<Box<[u8]>, Arc<[u8]>>;

layered! {
    /// Core module, location level.
    pub struct Core / CoreDraft {
        /// `root` or `alias`, made absolute where it begins with text.
        root: Root = Root { path: Template::literal(b"html"), alias: false, alias_len: Some(0) },
        /// `client_max_body_size`, bytes; 0 = no limit.
        client_max_body_size: u64 = 1 << 20,
        /// `client_body_buffer_size`, bytes.
        client_body_buffer_size: usize = 16384,
        /// `client_body_in_file_only`
        client_body_in_file_only: BodyInFile = BodyInFile::Off,
        /// `client_body_in_single_buffer`
        client_body_in_single_buffer: bool = false,
        /// `client_body_temp_path`
        client_body_temp_path: TempPath = TempPath::new("client_body_temp"),
        /// `client_body_timeout`
        client_body_timeout: Duration = Duration::from_mins(1),
        /// `satisfy any`
        satisfy_any: bool = false,
        /// `send_timeout`
        send_timeout: Duration = Duration::from_mins(1),
        /// `send_lowat`, bytes.
        send_lowat: usize = 0,
        /// `sendfile`
        sendfile: bool = false,
        /// `tcp_nodelay`
        tcp_nodelay: bool = true,
        /// `tcp_nopush`
        tcp_nopush: bool = false,
        /// `postpone_output`, bytes.
        postpone_output: usize = 1460,
        /// `limit_rate`, bytes per second; empty or 0 = no limit.
        limit_rate: Template = Template::default(),
        /// `limit_rate_after`, bytes.
        limit_rate_after: Template = Template::default(),
        /// `keepalive_requests`
        keepalive_requests: u64 = 1000,
        /// `keepalive_time`
        keepalive_time: Duration = Duration::from_hours(1),
        /// `keepalive_timeout`: zero turns keep-alive off.
        keepalive_timeout: Duration = Duration::from_secs(75),
        /// Second argument of `keepalive_timeout`: the `Keep-Alive: timeout=` header.
        keepalive_header: Option<Duration> = None,
        /// `keepalive_min_timeout`
        keepalive_min_timeout: Duration = Duration::ZERO,
        /// `keepalive_disable`
        keepalive_disable: KeepaliveDisable = KeepaliveDisable { none: false, msie6: true, safari: false },
        /// `lingering_close`
        lingering_close: LingeringClose = LingeringClose::On,
        /// `lingering_time`
        lingering_time: Duration = Duration::from_secs(30),
        /// `lingering_timeout`
        lingering_timeout: Duration = Duration::from_secs(5),
        /// `reset_timedout_connection`
        reset_timedout_connection: bool = false,
        /// `absolute_redirect`
        absolute_redirect: bool = true,
        /// `server_name_in_redirect`
        server_name_in_redirect: bool = false,
        /// `port_in_redirect`
        port_in_redirect: bool = true,
        /// `msie_padding`
        msie_padding: bool = true,
        /// `msie_refresh`
        msie_refresh: bool = false,
        /// `log_not_found`
        log_not_found: bool = true,
        /// `log_subrequest`
        log_subrequest: bool = false,
        /// `recursive_error_pages`
        recursive_error_pages: bool = false,
        /// `chunked_transfer_encoding`
        chunked_transfer_encoding: bool = true,
        /// `etag`
        etag: bool = true,
        /// `early_hints`
        early_hints: Vec<Template> = Vec::new(),
        /// `server_tokens`
        server_tokens: ServerTokens = ServerTokens::On,
        /// `if_modified_since`
        if_modified_since: IfModifiedSince = IfModifiedSince::Exact,
        /// `max_ranges`; None = no limit, 0 = ranges off.
        max_ranges: Option<u64> = None,
        /// `default_type`
        default_type: Arc<[u8]> = Arc::from(&b"text/plain"[..]),
        /// `types`
        types: Arc<Types> = Arc::new(default_types()),
        /// `error_page`, in order.
        error_pages: Arc<[ErrorPage]> = Arc::from([]),
        /// `error_log`; None here = that of the main context.
        error_log: Option<Arc<[ErrorLog]>> = None,
        /// `open_log_file_cache`
        open_log_file_cache: Option<OpenFileCache> = None,
        /// `disable_symlinks`
        disable_symlinks: bool = false,
        /// `subrequest_output_buffer_size`, bytes.
        subrequest_output_buffer_size: usize = 4096,
        /// `post_action`
        post_action: Option<Template> = None,
        /// `auth_delay`
        auth_delay: Duration = Duration::ZERO,
        /// `directio`, bytes; no meaning here.
        directio: Option<u64> = None,
        /// `http2_chunk_size`, bytes: the most of a response in one frame of HTTP/2.
        http2_chunk_size: usize = 8192,
        /// `output_buffers`: number and size.
        output_buffers: (usize, usize) = (2, 32768),
        /// `read_ahead`, bytes.
        read_ahead: u64 = 0,
        /// `resolver`; blocks that inherit one share it.
        resolver: Option<Arc<Resolver>> = None,
        /// `resolver_timeout`; zero = no limit.
        resolver_timeout: Duration = Duration::from_secs(30),
    }
}

/// `root` or `alias`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The path; literal text that is relative has the prefix in front already.
    pub path: Template,
    /// Whether the path replaces the location's name.
    pub alias: bool,
    /// How much of the URI an `alias` replaces: the length of the name of the location that it stands in;
    /// None is all of it (a pattern location). 0 for a `root`.
    pub alias_len: Option<usize>,
}

/// `client_body_in_file_only`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyInFile {
    /// `off`
    Off,
    /// `on`: files stay.
    On,
    /// `clean`
    Clean,
}

/// `client_body_temp_path path [level1 [level2 [level3]]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TempPath {
    /// The directory, absolute (or relative to the prefix when it is the default).
    pub path: Arc<Path>,
    /// Digits of the subdirectory levels; 0 = no level.
    pub levels: [u8; 3],
}

impl TempPath {
    /// A directory without levels.
    pub fn new(path: &str) -> Self {
        Self {
            path: Path::new(path).into(),
            levels: [0; 3],
        }
    }
}

/// `keepalive_disable`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepaliveDisable {
    /// `none`: nobody, if it stands alone.
    pub none: bool,
    /// Old MSIE after a POST.
    pub msie6: bool,
    /// Safari on macOS.
    pub safari: bool,
}

/// `lingering_close`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LingeringClose {
    /// `off`
    Off,
    /// `on`: where the client may still be sending.
    On,
    /// `always`
    Always,
}

/// `server_tokens`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTokens {
    /// `headwater/VERSION`
    On,
    /// `headwater`
    Off,
    /// `build`: as `on`, with the build's name if it has one.
    Build,
    /// A string; empty = no `Server` header.
    Text(Template),
}

/// `if_modified_since`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// `off`
    Off,
    /// `exact`
    Exact,
    /// `before`
    Before,
}

/// One `error_page`.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// The status it is for.
    pub status: u16,
    /// `=200` gives a number, `=` gives `Response`, nothing keeps the status.
    pub overwrite: ErrorPageStatus,
    /// A URI, an absolute address, or `@name`.
    pub target: Template,
    /// Arguments after `?` in a literal target.
    pub args: Option<Box<[u8]>>,
}

/// How `error_page` changes the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPageStatus {
    /// Keeps the original one.
    Keep,
    /// `=`: the one of the page's own answer.
    Response,
    /// `=CODE`
    Code(u16),
}

/// `types` when there are none.
pub fn default_types() -> Types {
    [
        ("html", "text/html"),
        ("gif", "image/gif"),
        ("jpg", "image/jpeg"),
    ]
    .into_iter()
    .map(|(ext, kind)| (ext.as_bytes().into(), kind.as_bytes().into()))
    .collect()
}

layered! {
    /// `add_header`, `add_trailer` and `expires`.
    pub struct Headers / HeadersDraft {
        /// `add_header`, in order.
        add: Vec<AddHeader> = Vec::new(),
        /// `add_trailer`, in order.
        trailers: Vec<AddHeader> = Vec::new(),
        /// `expires`
        expires: Expires = Expires::Off,
    }
}

/// One `add_header` or `add_trailer`.
#[derive(Clone, Debug)]
pub struct AddHeader {
    /// Its name, as written.
    pub name: Arc<[u8]>,
    /// Its value.
    pub value: Template,
    /// `always`: whatever the status.
    pub always: bool,
}

/// `expires`
#[derive(Clone, Debug)]
pub enum Expires {
    /// `off`
    Off,
    /// `epoch`
    Epoch,
    /// `max`
    Max,
    /// `TIME`: seconds from now, may be negative.
    Access(i64),
    /// `modified TIME`: seconds from the last modification.
    Modified(i64),
    /// `@TIME`: seconds of the day, local time.
    Daily(i64),
    /// With variables; read again for each response. True: after `modified`.
    Template(Template, bool),
}

layered! {
    /// gzip module.
    pub struct Gzip / GzipDraft {
        /// `gzip`
        on: bool = false,
        /// `gzip_buffers`: number and size.
        buffers: (usize, usize) = (32, 4096),
        /// `gzip_types`, without parameters, lower case; `*` is [`TypeSet::All`].
        types: TypeSet = TypeSet::html(),
        /// `gzip_comp_level`, 1 to 9.
        level: u32 = 1,
        /// `gzip_min_length`, bytes.
        min_length: u64 = 20,
        /// `gzip_http_version 1.0`
        http_version_10: bool = false,
        /// `gzip_proxied`
        proxied: GzipProxied = GzipProxied::default(),
        /// `gzip_vary`
        vary: bool = false,
        /// `gzip_disable`: patterns for User-Agent.
        disable: Arc<[crate::vars::Pattern]> = Arc::from([]),
        /// `gzip_static`
        static_files: GzipStatic = GzipStatic::Off,
        /// `gunzip`
        gunzip: bool = false,
    }
}

/// `gzip_types` and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeSet {
    /// `*`
    All,
    /// These; `text/html` is always among them.
    Some(Arc<[Box<[u8]>]>),
}

impl TypeSet {
    /// `text/html` alone.
    pub fn html() -> Self {
        Self::Some(Arc::from([Box::from(&b"text/html"[..])]))
    }
}

/// `gzip_proxied`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GzipProxied {
    /// `off`
    pub off: bool,
    /// `any`
    pub any: bool,
    /// `expired`
    pub expired: bool,
    /// `no-cache`
    pub no_cache: bool,
    /// `no-store`
    pub no_store: bool,
    /// `private`
    pub private: bool,
    /// `no_last_modified`
    pub no_last_modified: bool,
    /// `no_etag`
    pub no_etag: bool,
    /// `auth`
    pub auth: bool,
}

/// `gzip_static`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GzipStatic {
    /// `off`
    Off,
    /// `on`
    On,
    /// `always`
    Always,
}

layered! {
    /// realip module.
    pub struct Realip / RealipDraft {
        /// `set_real_ip_from`: networks.
        from: Vec<ipnet::IpNet> = Vec::new(),
        /// `set_real_ip_from unix:`
        from_unix: bool = false,
        /// `real_ip_header`
        header: RealipHeader = RealipHeader::XRealIp,
        /// `real_ip_recursive`
        recursive: bool = false,
    }
}

impl Realip {
    /// Whether what `addr` says of its client is believed.
    pub fn trusts(&self, addr: &Addr) -> bool {
        match addr {
            Addr::Unix(_) => self.from_unix,
            Addr::Inet(addr) => {
                let ip = addr.ip();
                self.from
                    .iter()
                    .any(|net| net.contains(&ip) || net.contains(&ip.to_canonical()))
            }
        }
    }
}

/// `real_ip_header`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealipHeader {
    /// `X-Real-IP`
    XRealIp,
    /// `X-Forwarded-For`
    XForwardedFor,
    /// `proxy_protocol`
    ProxyProtocol,
    /// Another header, lower case.
    Name(Arc<str>),
}
