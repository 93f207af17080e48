//! The head of a request on a stream.
//!
//! Mirrors `ngx_http_proxy_v2_create_request` and `ngx_http_grpc_create_request`.

use std::rc::Rc;

use crate::{
    conf::model::{Handler, Level, Proxy, ProxyPass},
    http::{
        exchange::Exchange,
        h1::{headers, known::Known},
        h2::{
            block::{Block, Name},
            frame::MAX_WHOLE,
        },
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
    block: Vec<u8>,
    size: u64,
}

impl Head {
    /// Its header block.
    pub(super) fn block(&self) -> &[u8] {
        &self.block
    }

    /// How many bytes its frames are.
    pub(super) fn size(&self) -> u64 {
        self.size
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
    let mut block = Block::new(Vec::with_capacity(256), MAX_WHOLE);
    let host = own_host(x, proxy);
    // A host that was set stands in a field of its own.
    let is_whole = block.request(&method, destination.tls, &path)
        && (host.is_some() || block.field(Name::Authority, &destination.host));
    if !is_whole {
        x.log(Level::Error, format_args!("invalid request to proxy"));
        return Err(Next::Status(500));
    }
    if let Some(host) = &host {
        block.text(b"host", host);
    }
    push_fields(x, proxy, &mut block);
    let size = block.size();
    Ok(Built {
        fields: Some(Rc::new(Head {
            block: block.into_bytes(),
            size,
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

fn push_fields(x: &mut Exchange<'_>, proxy: &Proxy, block: &mut Block) {
    let is_set = |name: &[u8]| {
        let mut set = proxy.set_header.iter();
        set.any(|(own, _)| own.eq_ignore_ascii_case(name))
    };
    for (name, value) in &proxy.set_header {
        let value = value.to_vec(x);
        if name.eq_ignore_ascii_case(b"te") && !value.is_empty() {
            block.text(b"te", &value);
        } else if !name.eq_ignore_ascii_case(b"host") && !value.is_empty() {
            block.named(Known::of(name), name, &value);
        }
    }
    let is_grpc = matches!(x.location.handler, Handler::Grpc);
    if let Some(length) = x.proxy_body_length.filter(|_| !is_set(b"content-length")) {
        block.text(b"content-length", length.to_string().as_bytes());
    }
    let te = x.request.headers.get(Known::Te);
    if is_grpc && !is_set(b"te") && te.is_some_and(|te| headers::contains(te, b"trailers")) {
        block.text(b"te", b"trailers");
    }
    if !proxy.pass_request_headers {
        return;
    }
    for (known, name, value) in x.request.headers.iter() {
        if !is_replaced(known, name) && !is_set(name) {
            block.named(known, name, value);
        }
    }
}
