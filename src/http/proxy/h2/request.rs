//! The head of a request on a stream.
//!
//! Mirrors `ngx_http_proxy_v2_create_request` and `ngx_http_grpc_create_request`.

use std::rc::Rc;

use bytes::Bytes;
use http::{
    Method, Request, Uri, Version,
    header::{CONTENT_LENGTH, HOST, TE},
    uri::{Authority, PathAndQuery, Scheme},
};

use crate::{
    common::decimal,
    conf::model::{Handler, Level, Proxy, ProxyPass},
    http::{
        exchange::Exchange,
        h1::{headers, known::Known},
        h2::fields::{Fields, Frozen},
        phases::Next,
        proxy::{
            request::{Built, is_replaced, push_uri},
            target::Destination,
        },
    },
};

/// The head of a request, for one try or more.
#[derive(Debug)]
pub(in crate::http::proxy) struct Head {
    method: Method,
    uri: Uri,
    fields: Frozen,
}

impl Head {
    /// The request, and about how many bytes it is.
    pub(super) fn request(&self) -> (Request<()>, u64) {
        let (size, map) = self.fields.map();
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = map;
        // One that names its host in a field of its own has no authority, which the library takes of HTTP/1 only.
        *request.version_mut() = if self.uri.authority().is_some() {
            Version::HTTP_2
        } else {
            Version::HTTP_11
        };
        (request, size)
    }
}

/// Makes the head.
pub(in crate::http::proxy) fn build<'g>(
    x: &mut Exchange<'g>,
    proxy: &Proxy,
    pass: &ProxyPass,
    destination: &Destination<'_>,
) -> Result<Built, Next<'g>> {
    let method = match &proxy.method {
        Some(method) => method.to_vec(x),
        None => x.request.method_name().to_vec(),
    };
    let is_head = method.eq_ignore_ascii_case(b"HEAD");
    let Ok(method) = Method::from_bytes(&method) else {
        x.log(Level::Error, format_args!("invalid method"));
        return Err(Next::Status(500));
    };
    let mut path = Vec::new();
    push_uri(x, pass, destination, &mut path);
    if path.is_empty() {
        x.log(Level::Error, format_args!("zero length URI to proxy"));
        return Err(Next::Status(500));
    }
    let is_grpc = matches!(x.location.handler, Handler::Grpc);
    let own_body = proxy.set_body.as_ref().map(|body| body.to_vec(x));
    x.proxy_body_length = match &own_body {
        Some(body) => Some(body.len() as u64),
        None if x.request.chunked && x.request.body.unbuffered => None,
        // A call's length is said where the client has said it.
        None if is_grpc && !x.request.headers.has(Known::ContentLength) => None,
        None => x.request.content_length,
    };
    let mut fields = Fields::new();
    let host = own_host(x, proxy);
    if let Some(host) = &host {
        fields.add(HOST, host);
    }
    push_fields(x, proxy, &mut fields);
    let authority = host.as_deref().unwrap_or(&destination.host);
    let Some(uri) = uri(&path, authority, destination.tls, host.is_some()) else {
        x.log(Level::Error, format_args!("invalid URI to proxy"));
        return Err(Next::Status(500));
    };
    Ok(Built {
        fields: Some(Rc::new(Head {
            method,
            uri,
            fields: fields.freeze(),
        })),
        with_body: own_body.is_none() && proxy.pass_request_body,
        own_body: own_body.map(Rc::new),
        is_head,
        ..Built::default()
    })
}

/// The value of `proxy_set_header Host`, unless it is empty.
fn own_host(x: &mut Exchange<'_>, proxy: &Proxy) -> Option<Vec<u8>> {
    let mut set = proxy.set_header.iter().rev();
    let (_, value) = set.find(|(name, _)| name.eq_ignore_ascii_case(b"host"))?;
    Some(value.to_vec(x)).filter(|value| !value.is_empty())
}

/// The target. A host that was set stands in a field of its own, as nginx has it.
// DIFFERS(https-authority): the library says `https` together with an authority only, so that there a host that was set is
// said twice.
fn uri(path: &[u8], authority: &[u8], tls: bool, is_set: bool) -> Option<Uri> {
    let path = PathAndQuery::from_maybe_shared(escaped(path)).ok()?;
    let authority = Authority::from_maybe_shared(Bytes::copy_from_slice(authority)).ok();
    match authority.filter(|_| tls || !is_set) {
        Some(authority) => {
            let scheme = if tls { Scheme::HTTPS } else { Scheme::HTTP };
            let uri = Uri::builder().scheme(scheme).authority(authority);
            uri.path_and_query(path).build().ok()
        }
        None => Some(path.into()),
    }
}

/// The target, without characters that a URI cannot have and clients send all the same.
// DIFFERS(target-escapes): nginx passes them on.
fn escaped(path: &[u8]) -> Bytes {
    let is_bad = |c: &u8| matches!(c, 0..=b' ' | b'<' | b'>' | b'`' | b'#' | 0x7f);
    if !path.iter().any(is_bad) {
        return Bytes::copy_from_slice(path);
    }
    let mut out = Vec::with_capacity(path.len() + 16);
    for c in path {
        if is_bad(c) {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend_from_slice(&[b'%', HEX[usize::from(c >> 4)], HEX[usize::from(c & 15)]]);
        } else {
            out.push(*c);
        }
    }
    out.into()
}

fn push_fields(x: &mut Exchange<'_>, proxy: &Proxy, fields: &mut Fields) {
    let is_set = |name: &[u8]| {
        let mut set = proxy.set_header.iter();
        set.any(|(own, _)| own.eq_ignore_ascii_case(name))
    };
    for (name, value) in &proxy.set_header {
        let value = value.to_vec(x);
        if name.eq_ignore_ascii_case(b"te") && !value.is_empty() {
            fields.add(TE, b"trailers");
        } else if !name.eq_ignore_ascii_case(b"host") && !value.is_empty() {
            fields.add_named(Known::of(name), name, &value);
        }
    }
    let is_grpc = matches!(x.location.handler, Handler::Grpc);
    if let Some(length) = x.proxy_body_length.filter(|_| !is_set(b"content-length")) {
        fields.add_with(CONTENT_LENGTH, |out| decimal::push(out, length));
    }
    let te = x.request.headers.get(Known::Te);
    if is_grpc && !is_set(b"te") && te.is_some_and(|te| headers::contains(te, b"trailers")) {
        fields.add(TE, b"trailers");
    }
    if !proxy.pass_request_headers {
        return;
    }
    for (known, name, value) in x.request.headers.iter() {
        if !is_replaced(known, name) && !is_set(name) {
            fields.add_named(known, name, value);
        }
    }
}
