//! The proxy module.

use std::{sync::Arc, time::Duration};

use super::{TempPath, UpstreamSsl, UpstreamSslDraft};
use crate::{
    common::addr::Addr,
    vars::{BoundPattern, Template},
};

layered! {
    /// `proxy_*` settings.
    pub struct Proxy / ProxyDraft {
        /// `proxy_pass`; not inherited by a nested location (`if` and `limit_except` do take it). `None` where the
        /// location does not proxy.
        pass: Option<Arc<ProxyPass>> = None,
        /// `proxy_store` is on; unused until it is honoured.
        store: bool = false,
        /// `proxy_buffering`
        buffering: bool = true,
        /// `proxy_request_buffering`
        request_buffering: bool = true,
        /// `proxy_ignore_client_abort`
        ignore_client_abort: bool = false,
        /// `proxy_bind`; None = off.
        bind: Option<Bind> = None,
        /// `proxy_socket_keepalive`
        socket_keepalive: bool = false,
        /// `proxy_socket_sndbuf`, bytes.
        socket_sndbuf: Option<usize> = None,
        /// `proxy_socket_rcvbuf`, bytes.
        socket_rcvbuf: Option<usize> = None,
        /// `proxy_connect_timeout`
        connect_timeout: Duration = Duration::from_mins(1),
        /// `proxy_send_timeout`
        send_timeout: Duration = Duration::from_mins(1),
        /// `proxy_read_timeout`
        read_timeout: Duration = Duration::from_mins(1),
        /// `proxy_send_lowat`, bytes; no meaning on Linux.
        send_lowat: usize = 0,
        /// `proxy_intercept_errors`
        intercept_errors: bool = false,
        /// `proxy_set_header`, in order.
        set_header: Vec<(Arc<[u8]>, Template)> = Vec::new(),
        /// `proxy_method`
        method: Option<Template> = None,
        /// `proxy_pass_request_headers`
        pass_request_headers: bool = true,
        /// `proxy_pass_request_body`
        pass_request_body: bool = true,
        /// `proxy_pass_trailers`
        pass_trailers: bool = false,
        /// `proxy_set_body`
        set_body: Option<Template> = None,
        /// `proxy_buffer_size`, bytes.
        buffer_size: usize = 4096,
        /// `proxy_buffers`: number and size.
        buffers: (usize, usize) = (8, 4096),
        /// `proxy_busy_buffers_size`, bytes.
        busy_buffers_size: Option<usize> = None,
        /// `proxy_max_temp_file_size`, bytes; 0 = no temporary files.
        max_temp_file_size: u64 = 1 << 30,
        /// `proxy_temp_file_write_size`, bytes.
        temp_file_write_size: Option<usize> = None,
        /// `proxy_temp_path`
        temp_path: TempPath = TempPath::new("proxy_temp"),
        /// `proxy_limit_rate`, bytes per second.
        limit_rate: Template = Template::default(),
        /// `proxy_next_upstream`
        next_upstream: NextUpstream = NextUpstream { error: true, timeout: true, ..NextUpstream::default() },
        /// `proxy_next_upstream_tries`, 0 = no limit.
        next_upstream_tries: u32 = 0,
        /// `proxy_next_upstream_timeout`, zero = no limit.
        next_upstream_timeout: Duration = Duration::ZERO,
        /// `proxy_pass_header`, lower case.
        pass_header: Vec<Box<[u8]>> = Vec::new(),
        /// `proxy_hide_header`, lower case.
        hide_header: Vec<Box<[u8]>> = Vec::new(),
        /// `proxy_ignore_headers`
        ignore_headers: IgnoreHeaders = IgnoreHeaders::default(),
        /// `proxy_redirect`
        redirect: Redirects = Redirects::Default,
        /// `proxy_cookie_domain`, in order.
        cookie_domain: Vec<Rewriting> = Vec::new(),
        /// `proxy_cookie_path`, in order.
        cookie_path: Vec<Rewriting> = Vec::new(),
        /// `proxy_cookie_flags`, in order.
        cookie_flags: Vec<CookieFlags> = Vec::new(),
        /// `proxy_http_version`
        http_version: ProxyVersion = ProxyVersion::Http11,
        /// `proxy_force_ranges`
        force_ranges: bool = false,
        /// `proxy_ssl_*`
        ssl: Arc<UpstreamSsl> = Arc::new(UpstreamSslDraft::default().build()),
    }
}

/// `proxy_pass`
#[derive(Clone, Debug)]
pub struct ProxyPass {
    /// The argument as written.
    pub url: Template,
    /// Where requests go, when there are no variables in it.
    pub target: PassTarget,
    /// `https://`
    pub tls: bool,
    /// The URI part; None when the request's own is passed on. Empty text never occurs.
    pub uri: Option<Arc<[u8]>>,
    /// `$proxy_host`: host and port as written, without a default port.
    pub host_header: Arc<str>,
    /// `$proxy_port`
    pub port: Arc<str>,
    /// Name of the location, which `proxy_redirect default` puts in; empty for patterns and named locations.
    pub location: Arc<[u8]>,
    /// Length of the location's name, which the URI part replaces; 0 for patterns and named locations.
    pub location_len: usize,
}

impl ProxyPass {
    /// Whether some request may go out over TLS.
    pub fn may_be_tls(&self) -> bool {
        self.tls || matches!(self.target, PassTarget::Variable)
    }
}

/// Where `proxy_pass` sends.
#[derive(Clone, Debug)]
pub enum PassTarget {
    /// An upstream of [`Http::upstreams`](super::Http::upstreams), explicit or implicit.
    Upstream(usize),
    /// Known for each request only: [`ProxyPass::url`] is rendered and read then.
    Variable,
}

/// `proxy_bind`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Address, with or without a port; with variables read for each request.
    pub addr: Template,
    /// The address when it has no variables.
    pub fixed: Option<Addr>,
    /// `transparent`
    pub transparent: bool,
}

/// `proxy_next_upstream`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextUpstream {
    /// `error`
    pub error: bool,
    /// `timeout`
    pub timeout: bool,
    /// `invalid_header`
    pub invalid_header: bool,
    /// `denied`
    pub denied: bool,
    /// `http_500`
    pub http_500: bool,
    /// `http_502`
    pub http_502: bool,
    /// `http_503`
    pub http_503: bool,
    /// `http_504`
    pub http_504: bool,
    /// `http_403`
    pub http_403: bool,
    /// `http_404`
    pub http_404: bool,
    /// `http_429`
    pub http_429: bool,
    /// `non_idempotent`
    pub non_idempotent: bool,
    /// `updating`; for caches.
    pub updating: bool,
    /// `off`
    pub off: bool,
}

/// `proxy_ignore_headers`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoreHeaders {
    /// `X-Accel-Redirect`
    pub accel_redirect: bool,
    /// `X-Accel-Expires`
    pub accel_expires: bool,
    /// `X-Accel-Limit-Rate`
    pub accel_limit_rate: bool,
    /// `X-Accel-Buffering`
    pub accel_buffering: bool,
    /// `X-Accel-Charset`
    pub accel_charset: bool,
    /// `Expires`
    pub expires: bool,
    /// `Cache-Control`
    pub cache_control: bool,
    /// `Set-Cookie`
    pub set_cookie: bool,
    /// `Vary`
    pub vary: bool,
}

/// `proxy_redirect`
#[derive(Clone, Debug)]
pub enum Redirects {
    /// `off`
    Off,
    /// `default` alone, or nothing said: made from `proxy_pass` when that has no variables; none otherwise.
    Default,
    /// In order; `default` among others is resolved already.
    List(Arc<[Rewriting]>),
}

/// Replacement of a text in `Location`, `Refresh` or a cookie's attribute.
#[derive(Clone, Debug)]
pub struct Rewriting {
    /// What is looked for.
    pub from: RewritingFrom,
    /// What takes its place.
    pub to: Template,
}

/// Left side of a [`Rewriting`].
#[derive(Clone, Debug)]
pub enum RewritingFrom {
    /// Text, perhaps with variables: a prefix for `Location` and `Path`, the whole for `Domain`.
    Text(Template),
    /// `~` or `~*`
    Regex(BoundPattern),
    /// `proxy_cookie_domain off` and the like.
    Off,
}

/// `proxy_cookie_flags`
#[derive(Clone, Debug)]
pub struct CookieFlags {
    /// Which cookie; text may have variables.
    pub cookie: CookieMatch,
    /// `secure` (Some(true)) or `nosecure` (Some(false)).
    pub secure: Option<bool>,
    /// `httponly` or `nohttponly`.
    pub httponly: Option<bool>,
    /// What happens to `SameSite`.
    pub samesite: Option<SameSite>,
    /// Flags that hold variables, read for each response (`secure`, `samesite=lax`, ... when rendered).
    pub dynamic: Vec<Template>,
}

/// Which cookies [`CookieFlags`] is for.
#[derive(Clone, Debug)]
pub enum CookieMatch {
    /// `off`
    Off,
    /// A name.
    Name(Template),
    /// `~pattern` (caseless, as in nginx).
    Regex(BoundPattern),
}

/// `samesite=` of `proxy_cookie_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// `samesite=strict`
    Strict,
    /// `samesite=lax`
    Lax,
    /// `samesite=none`
    None,
    /// `nosamesite`
    Remove,
}

/// `proxy_http_version`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// `1.0`
    Http10,
    /// `1.1`
    Http11,
    /// `2`
    Http2,
}
