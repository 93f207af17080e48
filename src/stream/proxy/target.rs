//! Whom a `proxy_pass` means: a group of the configuration, or one that is made for an address.
//!
//! Mirrors `ngx_stream_proxy_eval`, the look-up of upstreams in `ngx_stream_proxy_handler` and
//! `ngx_stream_proxy_resolve_handler`.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use crate::{
    common::{addr::Addr, clock},
    conf::{
        address::{UrlOptions, parse_url},
        model::{Level, StreamPass},
    },
    net::resolver,
    stream::session::{Downstream, Session},
    upstream::Group,
    vars::Template,
};

/// Whom a session goes to.
pub(in crate::stream) enum Target {
    /// These peers.
    Group(Arc<Group>),
    /// A host whose addresses have to be asked for, and a port.
    Host(String, u16),
}

/// The peers that the session goes to, or the status that it ends with.
pub(super) async fn find<D: Downstream>(s: &mut Session<'_, D>) -> Result<Arc<Group>, u16> {
    let (host, port) = match read(s)? {
        Target::Group(group) => return Ok(group),
        Target::Host(host, port) => (host, port),
    };
    let thread = s.thread;
    let mut resolving = pin!(resolve(s, host, port)?);
    let resolved = poll_fn(|cx| match resolving.as_mut().poll(cx) {
        Poll::Ready(resolved) => Poll::Ready(Some(resolved)),
        Poll::Pending if thread.is_ending() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await;
    if let Some(resolved) = resolved {
        return resolved.map_err(|message| {
            s.log(Level::Error, format_args!("{message}"));
            500
        });
    }
    s.log(Level::Info, format_args!("shutdown timeout"));
    Err(200)
}

/// Whom the session's `proxy_pass` means, or the status that the session ends with.
pub(in crate::stream) fn read<D: Downstream>(s: &mut Session<'_, D>) -> Result<Target, u16> {
    match &s.server.proxy.pass {
        Some(StreamPass::Upstream(index)) => s.live.groups.get(*index).cloned().ok_or(500),
        Some(StreamPass::Variable(template)) => return variable(s, template),
        None => Err(500),
    }
    .map(Target::Group)
}

fn variable<D: Downstream>(s: &mut Session<'_, D>, template: &Template) -> Result<Target, u16> {
    let text = template.to_vec(s);
    let text = String::from_utf8_lossy(&text);
    let options = UrlOptions {
        no_resolve: true,
        ..UrlOptions::default()
    };
    let url = parse_url(&text, options).map_err(|what| {
        s.log(Level::Error, format_args!("{what} in upstream \"{text}\""));
        500u16
    })?;
    let host = &url.host;
    let mut upstreams = s.live.stream().upstreams.iter();
    if let Some(index) =
        upstreams.position(|known| known.is_named(host.as_bytes(), url.port, !url.no_port))
    {
        let group = s.live.groups.get(index).cloned();
        return group.map(Target::Group).ok_or(500);
    }
    if url.port == 0 && !url.unix {
        s.log(Level::Error, format_args!("no port in upstream \"{host}\""));
        return Err(500);
    }
    if url.addrs.is_empty() {
        return Ok(Target::Host(url.host, url.port));
    }
    Ok(Target::Group(made(host, url.addrs)))
}

/// Asks for the addresses of a host: peers, or nginx's message. Without a resolver the status that the session ends with.
pub(in crate::stream) fn resolve<'a, D: Downstream>(
    s: &Session<'a, D>,
    host: String,
    port: u16,
) -> Result<impl Future<Output = Result<Arc<Group>, String>> + use<'a, D>, u16> {
    let core = &s.server.core;
    let Some(conf) = &core.resolver else {
        s.log(
            Level::Error,
            format_args!("no resolver defined to resolve {host}"),
        );
        return Err(500);
    };
    let resolver = s.thread.resolvers.get(conf);
    Ok(async move {
        let name = resolver::normal(host.as_bytes());
        match resolver.resolve(&name, core.resolver_timeout).await {
            Ok(ips) => {
                let addrs = ips.into_iter().map(|ip| Addr::Inet((ip, port).into()));
                Ok(made(&host, addrs.collect()))
            }
            Err(error) => Err(format!("{host} could not be resolved ({error})")),
        }
    })
}

fn made(host: &str, addrs: Vec<Addr>) -> Arc<Group> {
    Arc::new(Group::made(host.into(), addrs, clock::now().millis()))
}
