//! The bytes of a request to an upstream.
//!
//! Mirrors `ngx_http_proxy_create_request` and the default headers of `ngx_http_proxy_module.c`.

use std::{borrow::Cow, ops::Range, rc::Rc};

use super::{h2, target::Destination};
use crate::{
    common::decimal,
    conf::model::{Level, Proxy, ProxyPass, ProxyVersion},
    http::{
        exchange::Exchange,
        h1::{known::Known, uri},
        output::field,
        phases::Next,
    },
};

/// A request to an upstream.
#[derive(Debug, Default)]
pub(super) struct Built {
    /// Head, and the body of `proxy_set_body`.
    pub head: Rc<Vec<u8>>,
    /// The head for HTTP/2, which then has none as bytes.
    pub fields: Option<Rc<h2::Head>>,
    /// The body of `proxy_set_body` for HTTP/2.
    pub own_body: Option<Rc<Vec<u8>>>,
    /// The client's body follows.
    pub with_body: bool,
    /// The client's body follows in chunks.
    pub chunked: bool,
    /// It asks for a head only.
    pub is_head: bool,
    /// Where the target stands in it, for messages.
    pub uri: Range<usize>,
}

/// Writes the request.
pub(super) fn build<'g>(
    x: &mut Exchange<'g>,
    proxy: &Proxy,
    pass: &ProxyPass,
    destination: &Destination<'_>,
) -> Result<Built, Next<'g>> {
    if proxy.http_version == ProxyVersion::Http2 {
        return h2::build(x, proxy, pass, destination);
    }
    let mut head = x.thread.take_shared();
    // Nobody else has it yet.
    let out = Rc::make_mut(&mut head);
    match &proxy.method {
        Some(method) => method.render(x, out),
        None => out.extend_from_slice(x.request.method_name()),
    }
    let is_head = out.eq_ignore_ascii_case(b"HEAD");
    out.push(b' ');
    let start = out.len();
    push_uri(x, pass, destination, out);
    if out.len() == start {
        x.log(Level::Error, format_args!("zero length URI to proxy"));
        return Err(Next::Status(500));
    }
    let uri = start..out.len();
    let http11 = proxy.http_version == ProxyVersion::Http11;
    out.extend_from_slice(if http11 {
        b" HTTP/1.1\r\n"
    } else {
        b" HTTP/1.0\r\n"
    });
    let own_body = proxy.set_body.as_ref().map(|body| body.to_vec(x));
    let chunked = own_body.is_none() && x.request.chunked && x.request.body.unbuffered;
    x.proxy_body_length = match &own_body {
        Some(body) => Some(body.len() as u64),
        None if chunked => None,
        None => x.request.content_length,
    };
    push_headers(x, proxy, destination, chunked, out);
    out.extend_from_slice(b"\r\n");
    let with_body = own_body.is_none() && proxy.pass_request_body;
    if let Some(body) = own_body {
        out.extend_from_slice(&body);
    }
    Ok(Built {
        head,
        fields: None,
        own_body: None,
        with_body,
        chunked,
        is_head,
        uri,
    })
}

/// The target of the request line.
pub(super) fn push_uri(
    x: &Exchange<'_>,
    pass: &ProxyPass,
    destination: &Destination<'_>,
    out: &mut Vec<u8>,
) {
    let request = &x.request;
    if let Some(uri) = &destination.uri {
        return out.extend_from_slice(uri);
    }
    if pass.uri.is_none() && request.valid_target {
        return out.extend_from_slice(request.target());
    }
    let replaced = if request.valid_location && pass.uri.is_some() {
        out.extend_from_slice(pass.uri.as_deref().unwrap_or_default());
        pass.location_len.min(request.uri.len())
    } else {
        0
    };
    let rest = &request.uri[replaced..];
    if request.quoted_uri || x.internal {
        uri::escape(rest, uri::Escape::Uri, out);
    } else {
        out.extend_from_slice(rest);
    }
    if !request.args.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&request.args);
    }
}

fn push_headers(
    x: &mut Exchange<'_>,
    proxy: &Proxy,
    destination: &Destination<'_>,
    chunked: bool,
    out: &mut Vec<u8>,
) {
    let is_set = |name: &[u8]| {
        proxy
            .set_header
            .iter()
            .any(|(own, _)| own.eq_ignore_ascii_case(name))
    };
    let host = proxy
        .set_header
        .iter()
        .rev()
        .find(|(name, _)| name.eq_ignore_ascii_case(b"host"));
    let host = match host {
        Some((_, value)) => {
            let value = value.to_vec(x);
            if value.is_empty() && proxy.http_version == ProxyVersion::Http11 {
                Cow::Borrowed(&*destination.host)
            } else {
                Cow::Owned(value)
            }
        }
        None => Cow::Borrowed(&*destination.host),
    };
    if !host.is_empty() {
        field(out, b"Host", &host);
    }
    for (name, value) in &proxy.set_header {
        if name.eq_ignore_ascii_case(b"host") {
            continue;
        }
        let start = out.len();
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        let value_start = out.len();
        value.render(x, out);
        if out.len() == value_start {
            out.truncate(start);
        } else {
            out.extend_from_slice(b"\r\n");
        }
    }
    if let Some(length) = x.proxy_body_length.filter(|_| !is_set(b"content-length")) {
        out.extend_from_slice(b"Content-Length: ");
        decimal::push(out, length);
        out.extend_from_slice(b"\r\n");
    }
    if chunked && !is_set(b"transfer-encoding") {
        field(out, b"Transfer-Encoding", b"chunked");
    }
    if !proxy.pass_request_headers {
        return;
    }
    for (known, name, value) in x.request.headers.iter() {
        if !is_replaced(known, name) && !is_set(name) {
            field(out, name, value);
        }
    }
}

/// Headers of the client that are never passed on as they are.
pub(super) fn is_replaced(known: Known, name: &[u8]) -> bool {
    match known {
        Known::Host
        | Known::Connection
        | Known::ContentLength
        | Known::TransferEncoding
        | Known::Te
        | Known::KeepAlive
        | Known::Expect
        | Known::Upgrade => true,
        Known::Other => name.eq_ignore_ascii_case(b"proxy-connection"),
        _ => false,
    }
}
