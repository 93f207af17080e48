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
        address::{Url, UrlOptions, parse_url},
        model::{Level, StreamPass},
    },
    net::resolver,
    stream::session::{Downstream, Session},
    upstream::Group,
    vars::Template,
};

/// The peers that the session goes to, or the status that it ends with.
pub(super) async fn find<D: Downstream>(s: &mut Session<'_, D>) -> Result<Arc<Group>, u16> {
    match &s.server.proxy.pass {
        Some(StreamPass::Upstream(index)) => s.live.groups.get(*index).cloned().ok_or(500),
        Some(StreamPass::Variable(template)) => variable(s, template).await,
        None => Err(500),
    }
}

async fn variable<D: Downstream>(
    s: &mut Session<'_, D>,
    template: &Template,
) -> Result<Arc<Group>, u16> {
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
        return s.live.groups.get(index).cloned().ok_or(500);
    }
    if url.port == 0 && !url.unix {
        s.log(Level::Error, format_args!("no port in upstream \"{host}\""));
        return Err(500);
    }
    if url.addrs.is_empty() {
        return resolve(s, &url).await;
    }
    Ok(made(host, url.addrs.clone()))
}

async fn resolve<D: Downstream>(s: &mut Session<'_, D>, url: &Url) -> Result<Arc<Group>, u16> {
    let host = &url.host;
    let core = &s.server.core;
    let Some(conf) = &core.resolver else {
        s.log(
            Level::Error,
            format_args!("no resolver defined to resolve {host}"),
        );
        return Err(500);
    };
    let resolver = s.thread.resolvers.get(conf);
    let name = resolver::normal(host.as_bytes());
    let mut resolved = pin!(resolver.resolve(&name, core.resolver_timeout));
    let result = poll_fn(|cx| match resolved.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if s.thread.is_ending() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    match result.await {
        Some(Ok(ips)) => {
            let addrs = ips.into_iter().map(|ip| Addr::Inet((ip, url.port).into()));
            Ok(made(host, addrs.collect()))
        }
        Some(Err(error)) => {
            s.log(
                Level::Error,
                format_args!("{host} could not be resolved ({error})"),
            );
            Err(500)
        }
        None => {
            s.log(Level::Info, format_args!("shutdown timeout"));
            Err(200)
        }
    }
}

fn made(host: &str, addrs: Vec<Addr>) -> Arc<Group> {
    Arc::new(Group::made(host.into(), addrs, clock::now().millis()))
}
