//! The proxy: a request to an upstream, its response to the client.
//!
//! ```text
//! destination -> request bytes -> target -> Tries { peer -> pooled or new connection -> send -> head -> next or take } -> headers -> relay
//! ```
//! Mirrors `http/ngx_http_upstream.c` and `http/modules/ngx_http_proxy_module.c`.

mod attempt;
mod cookie;
mod h2;
mod head;
mod headers;
mod hints;
mod peer;
pub(super) mod pool;
mod relay;
mod request;
mod send;
mod target;
mod tls;
mod tries;
mod upgrade;

use super::{body, exchange::Exchange, h1::request_line::Method, phases::Next};
use crate::conf::model::{Handler, Level, Proxy, ProxyVersion};
use target::Target;

/// Serves the request from an upstream.
pub(super) async fn run<'g>(x: &mut Exchange<'g>) -> Next<'g> {
    let location = x.location;
    let proxy: Option<&'g Proxy> = match x.handler {
        Handler::Grpc => location.grpc.as_deref(),
        _ => Some(&location.proxy),
    };
    let Some((proxy, pass)) = proxy.and_then(|proxy| Some((proxy, proxy.pass.as_deref()?))) else {
        // An `if` has brought the handler along, and another one has no settings for it.
        x.log(Level::Alert, format_args!("no upstream configuration"));
        return Next::Status(500);
    };
    let Some((destination, whom)) = target::find(x, pass) else {
        return Next::Status(500);
    };
    x.proxy_host = (destination.host.clone(), destination.port.clone());
    x.request.body.unbuffered = !proxy.request_buffering
        && proxy.set_body.is_none()
        && proxy.pass_request_body
        && x.request.has_body()
        && !x.request.body.complete
        && (!x.request.chunked || proxy.http_version != ProxyVersion::Http10);
    if x.request.body.unbuffered {
        if let Err(status) = body::read_ahead(x).await {
            return Next::Status(status);
        }
    } else if let Err(status) = body::read(x).await {
        return Next::Status(status);
    }
    let built = match request::build(x, proxy, pass, &destination) {
        Ok(built) => built,
        Err(next) => return next,
    };
    x.attempts.begin();
    let target = match whom.resolve(x).await {
        Ok(target) => Target {
            tls: destination.tls,
            ..target
        },
        Err(next) => return next,
    };
    let next = tries::run(x, proxy, &target, &built).await;
    // What else refers to the request would keep its memory from the next one.
    x.upstream = None;
    x.upstream_out.clear();
    x.thread.give_shared(built.head);
    next
}

/// Methods that are not sent again once they were sent (`NGX_HTTP_UPSTREAM_FT_NON_IDEMPOTENT`).
fn is_non_idempotent(method: Method) -> bool {
    matches!(method, Method::Post | Method::Lock | Method::Patch)
}
