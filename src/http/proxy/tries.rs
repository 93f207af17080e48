//! The walk over the peers of a group until one answers.
//!
//! Mirrors `ngx_http_upstream_next`, `ngx_http_upstream_test_next`, `ngx_http_upstream_intercept_errors` and
//! `ngx_http_upstream_finalize_request`.

use std::{net::SocketAddr, rc::Rc};

use super::{
    attempt::{Attempt, Fail, Link},
    headers, is_non_idempotent, pool, relay,
    request::Built,
    target::Target,
    upgrade,
};
use crate::{
    common::{addr::Addr, buffer::Buf, clock, recycle::Recycled},
    conf::model::{Handler, Level, Proxy, ProxyVersion},
    http::{
        exchange::{Exchange, UpstreamContext},
        h1::known::Known,
        output,
        phases::{CLIENT_CLOSED, Next},
    },
    tls::failure,
    upstream::{Lease, Limits, Outcome, PickCx, Released, Tries},
};

/// Tries peers until one answers, and sends its answer to the client.
pub(super) async fn run<'g>(
    x: &mut Exchange<'g>,
    proxy: &'g Proxy,
    target: &Target,
    built: &Built,
) -> Next<'g> {
    let bind = bind(x, proxy);
    let limits = Limits {
        tries: proxy.next_upstream_tries,
        timeout: proxy.next_upstream_timeout,
    };
    let mut tries = Tries::new(target.group.clone(), limits, clock::now().millis());
    let hash_key = target
        .group
        .hash_key()
        .map(|key| key.to_vec(x))
        .unwrap_or_default();
    loop {
        let lease = match pick(x, &mut tries, target, &hash_key, built) {
            Ok(lease) => lease,
            Err(next) => return next,
        };
        let new = || Attempt::new(lease, bind.clone());
        let mut attempt = x.thread.pools.attempts.put(new);
        attempt.head.headers = std::mem::take(&mut x.upstream_headers);
        attempt.head.headers.clear();
        attempt.head.status_text = std::mem::take(&mut x.response.status_line);
        attempt.head.status_text.clear();
        let failed = match attempt.run(x, proxy, target, built).await {
            Ok(()) => match next_status(x, proxy, &tries, &attempt) {
                Some(fail) => fail,
                None => return respond(x, proxy, target, built.is_head, attempt).await,
            },
            Err(fail) => fail,
        };
        if let Some(next) = after_failure(x, proxy, &mut tries, target, attempt, failed) {
            return next;
        }
    }
}

/// `proxy_bind`
fn bind(x: &mut Exchange<'_>, proxy: &Proxy) -> Option<Addr> {
    let bind = proxy.bind.as_ref()?;
    if bind.fixed.is_some() {
        return bind.fixed.clone();
    }
    let text = bind.addr.to_vec(x);
    if text.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(&text);
    let addr = text.parse::<SocketAddr>().ok().or_else(|| {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        bare.parse().ok().map(|ip| SocketAddr::new(ip, 0))
    });
    if addr.is_none() {
        x.log(
            Level::Error,
            format_args!("invalid local address \"{text}\""),
        );
    }
    addr.map(Addr::Inet)
}

fn pick<'g>(
    x: &mut Exchange<'g>,
    tries: &mut Tries,
    target: &Target,
    hash_key: &[u8],
    built: &Built,
) -> Result<Lease, Next<'g>> {
    let thread = x.thread;
    let mut random = || thread.random.next();
    let now = clock::now().millis();
    let mut cx = PickCx {
        now,
        random: &mut random,
        hash_key,
        client: x.client.addr.ip(),
    };
    let picked = tries.next(&mut cx);
    let name = match &picked {
        Ok(lease) => lease.peer().text.clone(),
        Err(none) => none.name.clone(),
    };
    x.upstream = Some(UpstreamContext {
        scheme: scheme(x, target),
        peer: name.clone(),
        request: Rc::clone(&built.head),
        uri: built.uri.clone(),
    });
    let record = x.attempts.start(name);
    match picked {
        Ok(lease) => {
            record.start = lease.start();
            Ok(lease)
        }
        Err(none) => {
            record.status = Some(502);
            record.response_time = Some(0);
            x.action = crate::http::exchange::Action::Connecting;
            x.log(Level::Error, format_args!("{none}"));
            Err(Next::Status(502))
        }
    }
}

fn scheme(x: &Exchange<'_>, target: &Target) -> &'static str {
    match (&x.location.handler, target.tls) {
        (Handler::Grpc, false) => "grpc://",
        (Handler::Grpc, true) => "grpcs://",
        (_, false) => "http://",
        (_, true) => "https://",
    }
}

/// Whether a status of `proxy_next_upstream` hands the request on.
fn next_status(x: &Exchange<'_>, proxy: &Proxy, tries: &Tries, attempt: &Attempt) -> Option<Fail> {
    let status = attempt.head.status;
    let fail = Fail::Status(status);
    (status >= 300
        && allows(proxy, fail)
        && tries.may_retry(clock::now().millis())
        && may_repeat(x, proxy, attempt.request_sent))
    .then_some(fail)
}

/// Whether `proxy_next_upstream` names this failure.
fn allows(proxy: &Proxy, fail: Fail) -> bool {
    let next = &proxy.next_upstream;
    match fail {
        Fail::Error => next.error,
        Fail::Timeout => next.timeout,
        Fail::InvalidHeader => next.invalid_header,
        Fail::Status(500) => next.http_500,
        Fail::Status(502) => next.http_502,
        Fail::Status(503) => next.http_503,
        Fail::Status(504) => next.http_504,
        Fail::Status(403) => next.http_403,
        Fail::Status(404) => next.http_404,
        Fail::Status(429) => next.http_429,
        _ => false,
    }
}

/// Whether the request can be sent again as far as method and body are concerned.
fn may_repeat(x: &Exchange<'_>, proxy: &Proxy, request_sent: bool) -> bool {
    let unsafe_method = is_non_idempotent(x.request.method) && !proxy.next_upstream.non_idempotent;
    !(request_sent && (unsafe_method || !has_body(x, proxy)))
}

/// Whether all that was sent of the body is still here.
fn has_body(x: &Exchange<'_>, proxy: &Proxy) -> bool {
    let body = &x.request.body;
    !body.unbuffered || (proxy.http_version == ProxyVersion::Http2 && body.is_kept())
}

/// The status that stands for a failure.
fn status_of(fail: Fail) -> u16 {
    match fail {
        Fail::Timeout => 504,
        Fail::Status(status) | Fail::ClientBody(status) => status,
        Fail::ClientGone => CLIENT_CLOSED,
        Fail::Internal => 500,
        Fail::Error | Fail::InvalidHeader | Fail::Unprocessed => 502,
    }
}

/// Ends a failed try; None means that the next peer is to be tried.
fn after_failure<'g>(
    x: &mut Exchange<'g>,
    proxy: &Proxy,
    tries: &mut Tries,
    target: &Target,
    attempt: Recycled<Attempt>,
    fail: Fail,
) -> Option<Next<'g>> {
    let attempt = x.thread.pools.attempts.take(attempt);
    let now = clock::now().millis();
    if fail == Fail::Timeout {
        x.log(
            Level::Error,
            format_args!("upstream timed out (110: Connection timed out)"),
        );
    }
    let status = status_of(fail);
    if let Some(record) = x.attempts.current() {
        record.response_time = Some(now.saturating_sub(attempt.start));
        match fail {
            Fail::ClientGone | Fail::ClientBody(_) | Fail::Internal => record.status = None,
            _ => record.status = Some(status),
        }
    }
    let sent = attempt.request_sent;
    let stale = fail == Fail::Error && attempt.is_reused() && !attempt.response_received;
    let unprocessed = fail == Fail::Unprocessed && has_body(x, proxy);
    let released = match fail {
        Fail::ClientGone | Fail::ClientBody(_) | Fail::Internal => {
            attempt.lease.finish(Outcome::Aborted, now)
        }
        Fail::Status(403 | 404) => attempt.lease.finish(Outcome::Next, now),
        _ if stale || unprocessed => {
            let place = pool::place(&target.group, target.index, x.location.id);
            let idle = place.map_or(0, |place| x.thread.pools.count(place, &attempt.key));
            tries.give_back(attempt.lease, idle, now)
        }
        _ => attempt.lease.finish(Outcome::Failed, now),
    };
    log_disabled(x, released);
    match fail {
        Fail::ClientGone => {
            x.log(
                Level::Info,
                format_args!(
                    "client prematurely closed connection, so upstream connection is closed too"
                ),
            );
            x.broken = true;
            return Some(Next::Terminate(CLIENT_CLOSED));
        }
        Fail::ClientBody(_) | Fail::Internal => return Some(Next::Status(status)),
        _ => {}
    }
    let may = unprocessed || (allows(proxy, fail) && may_repeat(x, proxy, sent));
    let again = may && tries.may_retry(now);
    if fail == Fail::Unprocessed && !again {
        x.log(
            Level::Error,
            format_args!("upstream did not process the request, which cannot be sent again"),
        );
    }
    (!again).then_some(Next::Status(status))
}

pub(super) fn log_disabled(x: &Exchange<'_>, released: Released) {
    if released.disabled {
        x.log(
            Level::Warn,
            format_args!("upstream server temporarily disabled"),
        );
    }
}

/// Sends a peer's answer to the client.
async fn respond<'g>(
    x: &mut Exchange<'g>,
    proxy: &'g Proxy,
    target: &Target,
    is_head: bool,
    mut attempt: Recycled<Attempt>,
) -> Next<'g> {
    std::mem::swap(&mut x.upstream_headers, &mut attempt.head.headers);
    let bodiless = attempt.head.is_bodiless(is_head);
    if let Some(status) = intercepted(x, proxy, &attempt) {
        close(x, target, attempt, bodiless);
        return Next::Status(status);
    }
    let asked = headers::asked(x, proxy.ignore_headers);
    if let Some(uri) = asked.redirect {
        close(x, target, attempt, bodiless);
        return headers::accel_redirect(x, &uri);
    }
    x.upgrading = attempt.head.status == 101 && x.request.headers.has(Known::Upgrade);
    if attempt.head.status == 101 && !x.upgrading {
        // DIFFERS(unasked-upgrade): what comes behind it is no body, and the client would take it for its next response.
        attempt.head.content_length = None;
        attempt.buf = Buf::default();
        x.keepalive = false;
    }
    x.response.clean_for_upstream();
    headers::copy(x, proxy, &mut attempt.head);
    if let Err(next) = output::send_header(x) {
        close(x, target, attempt, bodiless);
        return next;
    }
    if x.upgrading {
        // In memory of its own: tasks need no room for what few requests turn into.
        return Box::pin(upgrade::tunnel(x, proxy, attempt)).await;
    }
    let buffering = asked.buffering.unwrap_or(proxy.buffering);
    if !buffering {
        // The response goes out as it comes.
        x.conn.nodelay(&x.location.core);
    }
    if x.response.header_only {
        close(x, target, attempt, bodiless);
        return output::flush(x).await;
    }
    relay::run(
        x,
        proxy,
        target,
        attempt,
        relay::Mode {
            bodiless,
            buffering,
        },
    )
    .await
}

/// The status of an `error_page` that is shown instead (`proxy_intercept_errors`).
fn intercepted(x: &mut Exchange<'_>, proxy: &Proxy, attempt: &Attempt) -> Option<u16> {
    let status = attempt.head.status;
    if !proxy.intercept_errors
        || status < 300
        || !x
            .location
            .core
            .error_pages
            .iter()
            .any(|page| page.status == status)
    {
        return None;
    }
    if status == 401 {
        let challenges: Vec<Vec<u8>> = x
            .upstream_headers
            .all(Known::WwwAuthenticate)
            .map(<[u8]>::to_vec)
            .collect();
        for challenge in challenges {
            x.response
                .headers
                .push(Known::WwwAuthenticate, b"WWW-Authenticate", &challenge);
        }
    }
    Some(status)
}

/// Ends a try whose body nobody wants.
pub(super) fn close(
    x: &mut Exchange<'_>,
    target: &Target,
    attempt: Recycled<Attempt>,
    bodiless: bool,
) {
    let reusable =
        bodiless && !attempt.head.close && attempt.buf.is_empty() && attempt.request_complete;
    release(x, target, attempt, Outcome::Ok, reusable);
}

/// Ends a try: the record's time, the peer's state, the connection.
pub(super) fn release(
    x: &mut Exchange<'_>,
    target: &Target,
    mut attempt: Recycled<Attempt>,
    outcome: Outcome,
    reusable: bool,
) {
    let now = clock::now().millis();
    if let Some(record) = x.attempts.current() {
        record.response_time = Some(now.saturating_sub(attempt.start));
    }
    let released = attempt.lease.end(outcome, now);
    log_disabled(x, released);
    if reusable
        && let Some(place) = pool::place(&target.group, target.index, x.location.id)
        && let Some(Link::Socket(conn)) = attempt.conn.take()
        && !x.thread.is_shutting_down()
    {
        x.thread.pools.put(place, &target.group, &attempt.key, conn);
    }
    x.thread.pools.attempts.end(attempt);
}

/// Logs a failed read from the upstream.
pub(super) fn log_recv(x: &Exchange<'_>, error: &std::io::Error) {
    x.log(Level::Error, format_args!("{}", failure("recv()", error)));
}
