//! One request and its response, filled phase by phase and read by the log.

use std::{borrow::Cow, fmt, ops::Range, path::PathBuf, rc::Rc};

use super::{
    conn::Conn,
    h1::headers::Headers,
    limits::Limited,
    live::Live,
    out::Out,
    request::Request,
    response::Response,
    temp_file::TempFile,
    thread::{Parts, Thread},
    tls,
};
use crate::{
    common::{
        clock::{self, Now, Wall},
        prefetch::prefetch,
    },
    conf::model::{Handler, Level, Listen, Location, Server},
    net::client::Client,
    upstream::Attempts,
    vars::Slots,
};

/// A request under way on a connection.
#[derive(Debug)]
pub(super) struct Exchange<'g> {
    /// What this thread owns.
    pub thread: &'g Thread,
    /// What all threads share.
    pub live: &'g Live,
    /// Where the client connected.
    pub listen: &'g Listen,
    /// The server that answers.
    pub server: &'g Server,
    /// The settings that hold at the moment.
    pub location: &'g Location,
    /// What answers; an `if` that was entered earlier may have brought it along.
    pub handler: &'g Handler,
    /// The client's connection.
    pub conn: Box<Conn>,
    /// The request.
    pub request: Box<Request>,
    /// The response.
    pub response: Box<Response>,
    /// Output that was not written yet.
    pub out: Out,
    /// Output to the upstream; its memory is kept between requests.
    pub upstream_out: Out,
    /// Who the client is, after realip.
    pub client: Client,
    /// Whether realip has decided who that is.
    pub realip_done: bool,
    /// When its first byte was read.
    pub started: Now,
    /// The same by the wall clock.
    pub started_wall: Wall,
    /// Bytes on the connection before this response.
    pub sent_before: u64,
    /// The connection may serve another request after this one.
    pub keepalive: bool,
    /// The client may still be sending when the connection is closed.
    pub lingering_close: bool,
    /// The connection is of no more use.
    pub broken: bool,
    /// The client took too long.
    pub timed_out: bool,
    /// An internal redirect has happened (`r->internal`).
    pub internal: bool,
    /// An error page is being made and may not be answered by another one.
    pub error_page: bool,
    /// How many more internal redirects and rewrites there may be.
    pub uri_changes: u32,
    /// Tries of all upstream groups, in order.
    pub attempts: Attempts,
    /// The proxied address, for messages.
    pub upstream: Option<UpstreamContext>,
    /// `$proxy_host` and `$proxy_port`.
    pub proxy_host: (Cow<'g, [u8]>, Cow<'g, [u8]>),
    /// `$proxy_internal_body_length`, `$content_length` of `proxy_set_body`.
    pub proxy_body_length: Option<u64>,
    /// Header fields of the upstream's response (`$upstream_http_*`).
    pub upstream_headers: Headers,
    /// Trailer fields of the upstream's response.
    pub upstream_trailers: Headers,
    /// What is being done, for messages.
    pub action: Action,
    /// `set $limit_rate`, `X-Accel-Limit-Rate`: bytes per second.
    pub limit_rate: Option<u64>,
    /// Whole request was answered (`$request_completion`).
    pub complete: bool,
    /// Compression of this response, for `$gzip_ratio`: bytes in and out.
    pub gzip_ratio: Option<(u64, u64)>,
    /// `$request_id`
    pub request_id: Option<[u8; 16]>,
    /// It was read together with the request before it.
    pub pipelined: bool,
    /// The upstream answered 101 to a request for an upgrade.
    pub upgrading: bool,
    /// A pattern location's `alias` is followed by the URI that `try_files` chose.
    pub add_uri_to_alias: bool,
    /// Variables of the configuration, and captures.
    pub slots: Slots,
    /// What `limit_req` and `limit_conn` have decided.
    pub limited: Limited,
    cleanup: Vec<PathBuf>,
}

/// The upstream part of a message's context.
#[derive(Clone, Debug)]
pub(super) struct UpstreamContext {
    /// `http://` or `https://`
    pub scheme: &'static str,
    /// Address of the peer.
    pub peer: std::sync::Arc<str>,
    /// The request to it, and where its target stands there.
    pub request: Rc<Vec<u8>>,
    /// Range of the target.
    pub uri: Range<usize>,
}

/// What is being done, as messages say after "while".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Action {
    #[default]
    None,
    ReadingLine,
    ReadingHeaders,
    ReadingBody,
    SendingToClient,
    Connecting,
    HandshakingUpstream,
    SendingRequest,
    ReadingHeader,
    ReadingUpstream,
    Upgraded,
}

impl Action {
    fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::ReadingLine => " while reading client request line",
            Self::ReadingHeaders => " while reading client request headers",
            Self::ReadingBody => " while reading client request body",
            Self::SendingToClient => " while sending to client",
            Self::Connecting => " while connecting to upstream",
            Self::HandshakingUpstream => " while SSL handshaking to upstream",
            Self::SendingRequest => " while sending request to upstream",
            Self::ReadingHeader => " while reading response header from upstream",
            Self::ReadingUpstream => " while reading upstream",
            Self::Upgraded => " while proxying upgraded connection",
        }
    }
}

/// Internal redirects and rewrites of one request (`NGX_HTTP_MAX_URI_CHANGES`), and one more.
const MAX_URI_CHANGES: u32 = 11;

impl<'g> Exchange<'g> {
    /// A request that begins on `conn`.
    pub(super) fn new(thread: &'g Thread, listen: &'g Listen, conn: Box<Conn>) -> Self {
        let server = &**tls::server(listen, &conn);
        let Parts {
            request,
            response,
            upstream_headers,
            out,
            upstream_out,
        } = thread.recycled();
        prefetch(&raw const *request);
        prefetch(&raw const *response);
        Self {
            thread,
            live: &thread.live,
            listen,
            server,
            location: &server.location,
            handler: &server.location.handler,
            request,
            response,
            out,
            upstream_out,
            client: conn.client.clone(),
            realip_done: false,
            started: clock::now(),
            started_wall: clock::wall(),
            sent_before: conn.sent,
            conn,
            keepalive: false,
            lingering_close: false,
            broken: false,
            timed_out: false,
            internal: false,
            error_page: false,
            uri_changes: MAX_URI_CHANGES,
            attempts: Attempts::default(),
            upstream: None,
            proxy_host: (Cow::Borrowed(b""), Cow::Borrowed(b"")),
            proxy_body_length: None,
            upstream_headers,
            upstream_trailers: Headers::default(),
            action: Action::None,
            limit_rate: None,
            complete: false,
            gzip_ratio: None,
            request_id: None,
            pipelined: false,
            upgrading: false,
            add_uri_to_alias: false,
            slots: Slots::new(thread.live.http().slots.len()),
            limited: Limited::default(),
            cleanup: Vec::new(),
        }
    }

    /// Removes the temporary files that are to go with it.
    pub(super) fn clean_up(&mut self) {
        for path in self.cleanup.drain(..) {
            // A file that somebody else removed is no loss.
            drop(std::fs::remove_file(path));
        }
    }

    /// Removes a temporary file when the request ends.
    pub(super) fn cleanup_file(&mut self, file: &TempFile, remove: bool) {
        if remove {
            self.cleanup.push(file.path.clone());
        }
    }

    /// Writes a line to the error log of the location, with nginx's context.
    pub(super) fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        let sink = self.live.error_sink(self.location);
        if sink.enabled(level) {
            let context = Context(self);
            sink.emit(
                level,
                Some(self.conn.id),
                format_args!("{message}{context}"),
            );
        }
    }

    /// Bytes of the response that were written, with its header.
    pub(super) fn bytes_sent(&self) -> u64 {
        self.conn.sent.saturating_sub(self.sent_before)
    }

    /// Those of the body among them.
    pub(super) fn body_bytes_sent(&mut self) -> u64 {
        let framing = self.conn.io.stream().map_or(0, |stream| stream.framing());
        let sent = self.bytes_sent();
        sent.saturating_sub(self.response.header_size + framing)
    }
}

/// Ends an exchange: the connection, which goes on; the memory is kept for the next request.
///
/// A macro, because a function would have all of it copied: an exchange is a kilobyte that has left the caches.
macro_rules! end {
    ($exchange:ident) => {{
        $exchange.clean_up();
        let thread = $exchange.thread;
        thread.recycle(crate::http::thread::Parts {
            request: $exchange.request,
            response: $exchange.response,
            upstream_headers: $exchange.upstream_headers,
            out: $exchange.out,
            upstream_out: $exchange.upstream_out,
        });
        $exchange.conn
    }};
}

pub(super) use end;

/// The end of a message: what is being done, and for whom (`ngx_http_log_error_handler`).
struct Context<'a, 'g>(&'a Exchange<'g>);

impl fmt::Display for Context<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use super::h1::known::Known;
        let x = self.0;
        write!(f, "{}, client: {}", x.action.text(), x.client.text)?;
        write!(f, ", server: {}", x.server.name)?;
        if !x.request.line.is_empty() {
            write!(f, ", request: \"{}\"", x.request.line.escape_log())?;
        }
        if let Some(upstream) = &x.upstream {
            let UpstreamContext { scheme, peer, .. } = upstream;
            let uri = upstream
                .request
                .get(upstream.uri.clone())
                .unwrap_or_default();
            write!(
                f,
                ", upstream: \"{scheme}{peer}{}{}\"",
                if peer.starts_with("unix:") { ":" } else { "" },
                uri.escape_log()
            )?;
        }
        if let Some(host) = x.request.headers.get(Known::Host) {
            write!(f, ", host: \"{}\"", host.escape_log())?;
        }
        if let Some(referer) = x.request.headers.get(Known::Referer) {
            write!(f, ", referrer: \"{}\"", referer.escape_log())?;
        }
        Ok(())
    }
}

/// Bytes of a client shown in a message.
pub(super) trait EscapeLog {
    /// The bytes as text; what is no UTF-8 is replaced.
    fn escape_log(&self) -> Cow<'_, str>;
}

impl EscapeLog for [u8] {
    fn escape_log(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self)
    }
}
