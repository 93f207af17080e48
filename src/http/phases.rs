//! The way of a request through the phases, and internal redirects that send it round again.
//!
//! Mirrors `ngx_http_core_run_phases` and its checkers (`http/ngx_http_core_module.c`), written as straight-line code.

use super::{
    access, content, error_page,
    exchange::{EscapeLog, Exchange},
    limits, proxy, realip,
    request::Request,
    rewrite::{self, Flow},
    route::{self, Match},
    tls,
};
use crate::conf::model::{Handler, Level, Location, LocationKind};

/// What becomes of a request after a handler.
#[derive(Debug)]
pub(super) enum Next<'g> {
    /// The response was sent, or as much of it as was possible.
    Done,
    /// An answer with this status: an error page, a redirect, our own page.
    Status(u16),
    /// From the server's rewrite directives again; the URI is set.
    Redirect,
    /// On in a named location.
    Named(&'g Location),
    /// The connection ends without (more of) a response; what the log shows if nothing was sent.
    Terminate(u16),
}

/// The client closed the connection: nginx's own code for the log.
pub(super) const CLIENT_CLOSED: u16 = 499;
/// Close without a response: nginx's own code.
pub(super) const CLOSE: u16 = 444;

/// Serves a request whose head was read, until its response is out.
pub(super) async fn run(x: &mut Exchange<'_>) {
    // Here and not where a request is read: it holds for those of HTTP/2 as well.
    let next = match tls::refusal(x) {
        None => phases(x, true).await,
        Some(status) => Next::Status(status),
    };
    finish(x, next).await;
}

/// Answers a request with `status` that went through no phases (a bad head).
pub(super) async fn refuse(x: &mut Exchange<'_>, status: u16) {
    finish(x, Next::Status(status)).await;
}

async fn finish<'g>(x: &mut Exchange<'g>, mut next: Next<'g>) {
    loop {
        next = match next {
            Next::Done => return,
            Next::Terminate(status) => return terminate(x, status),
            Next::Status(status) if ends_connection(x, status) => return terminate(x, status),
            Next::Status(status) => error_page::respond(x, status).await,
            Next::Redirect => phases(x, true).await,
            Next::Named(location) => {
                x.location = location;
                update_location(x);
                phases(x, false).await
            }
        };
    }
}

/// Whether `ngx_http_finalize_request` terminates instead of answering.
fn ends_connection(x: &Exchange<'_>, status: u16) -> bool {
    x.broken || x.timed_out || matches!(status, 408 | CLIENT_CLOSED | CLOSE)
}

fn terminate(x: &mut Exchange<'_>, status: u16) {
    if status > 0 && (x.response.status == 0 || x.bytes_sent() == 0) {
        x.response.status = status;
        x.response.error_status = 0;
    }
    x.out.clear();
    x.keepalive = false;
    x.broken = true;
}

async fn phases<'g>(x: &mut Exchange<'g>, from_server: bool) -> Next<'g> {
    if from_server {
        x.location = &x.server.location;
        realip::apply(x);
        let server = x.server;
        if let (Flow::Stop(next), _) = rewrite::run(x, &server.rewrite).await {
            return next;
        }
    }
    match location(x, from_server).await {
        Ok(()) => {}
        Err(next) => return next,
    }
    realip::apply(x);
    if let Err(next) = limits::check(x).await {
        return next;
    }
    if let Err(next) = access::check(x) {
        return next;
    }
    if let Some(next) = content::try_files(x) {
        return next;
    }
    match x.handler {
        Handler::Static => content::serve(x).await,
        Handler::Proxy | Handler::Grpc => proxy::run(x).await,
        Handler::EmptyGif => content::empty_gif(x).await,
        Handler::StubStatus => content::stub_status(x).await,
    }
}

/// Finds the location and runs its rewrite directives, as often as they change the URI.
async fn location<'g>(x: &mut Exchange<'g>, mut search: bool) -> Result<(), Next<'g>> {
    loop {
        if search {
            find(x)?;
        }
        if matches!(x.location.kind, LocationKind::Block)
            && std::ptr::eq(x.location, &raw const *x.server.location)
        {
            return Ok(());
        }
        let (flow, uri_changed) = rewrite::run(x, &x.location.rewrite).await;
        if let Flow::Stop(next) = flow {
            return Err(next);
        }
        if !uri_changed {
            return Ok(());
        }
        x.uri_changes -= 1;
        if x.uri_changes == 0 {
            let uri = x.request.uri.escape_log();
            x.log(
                Level::Error,
                format_args!("rewrite or internal redirection cycle while processing \"{uri}\""),
            );
            return Err(Next::Status(500));
        }
        search = true;
    }
}

/// The location phase: settings, `internal`, the size of the body, a missing final slash.
fn find<'g>(x: &mut Exchange<'g>) -> Result<(), Next<'g>> {
    let found = route::find_location(x);
    x.request.valid_location = true;
    if !x.internal && x.location.internal {
        return Err(Next::Status(404));
    }
    update_location(x);
    let max = x.location.core.client_max_body_size;
    if let Some(length) = x.request.content_length
        && max > 0
        && length > max
        && !x.request.body.discarded
        && !x.request.body.complete
    {
        x.log(
            Level::Error,
            format_args!("client intended to send too large body: {length} bytes"),
        );
        x.request.expect_tested = true;
        x.request.body.discarded = true;
        return Err(Next::Status(413));
    }
    match found {
        Match::Found => Ok(()),
        Match::AddSlash(mut address) => {
            if !x.request.args.is_empty() {
                address.push(b'?');
                address.extend_from_slice(&x.request.args);
            }
            x.response.set_location(&address);
            Err(Next::Status(301))
        }
    }
}

/// Takes over what depends on the location: `limit_except`, whether the connection may live on
/// (`ngx_http_update_location_config`).
pub(super) fn update_location(x: &mut Exchange<'_>) {
    if let Some((allowed, limited)) = &x.location.limit_except
        && x.request.method as u32 & allowed.0 == 0
    {
        x.location = limited;
    }
    if !x.location.inherits_handler {
        x.handler = &x.location.handler;
    }
    let core = &x.location.core;
    let disable = core.keepalive_disable;
    let is_post = x.request.method == super::h1::request_line::Method::Post;
    if core.keepalive_timeout.is_zero()
        || x.conn.requests >= core.keepalive_requests
        || x.started.since(x.conn.started) > core.keepalive_time
        || (is_post && disable.msie6 && x.request.is_msie6())
        || (disable.safari && x.request.agent().safari)
    {
        x.keepalive = false;
    }
}

/// Sends the request round again with another URI.
pub(super) fn internal_redirect<'g>(x: &mut Exchange<'g>, uri: Vec<u8>, args: Vec<u8>) -> Next<'g> {
    if !may_go_round(x, "internally redirecting to", &uri) {
        return Next::Status(500);
    }
    x.request.uri = uri;
    x.request.args = args;
    x.location = &x.server.location;
    update_location(x);
    x.internal = true;
    x.request.valid_target = false;
    Next::Redirect
}

/// Counts one more round; false, with a line in the log, when there were too many.
fn may_go_round(x: &mut Exchange<'_>, what: &str, target: &[u8]) -> bool {
    x.uri_changes = x.uri_changes.saturating_sub(1);
    if x.uri_changes > 0 {
        return true;
    }
    let target = target.escape_log();
    x.log(
        Level::Error,
        format_args!("rewrite or internal redirection cycle while {what} \"{target}\""),
    );
    false
}

/// Sends the request on to a named location.
pub(super) fn named_location<'g>(x: &mut Exchange<'g>, name: &[u8]) -> Next<'g> {
    if !may_go_round(x, "redirect to named location", name) {
        return Next::Status(500);
    }
    if let Some(location) = route::named(x.server, name) {
        x.internal = true;
        Next::Named(location)
    } else {
        let name = name.escape_log();
        x.log(
            Level::Error,
            format_args!("could not find named location \"{name}\""),
        );
        Next::Status(500)
    }
}

/// Splits a URI at its first `?`.
pub(super) fn split_args(uri: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match memchr::memchr(b'?', uri) {
        Some(at) => (uri[..at].to_vec(), uri[at + 1..].to_vec()),
        None => (uri.to_vec(), Vec::new()),
    }
}

/// Makes the request a GET unless it is a HEAD, as internal redirects of error pages do.
pub(super) fn become_get(request: &mut Request) {
    if !request.is_head() {
        request.become_get();
    }
}
