//! What is done with a session that was let in: `proxy_pass`, `return` or `pass`.
//!
//! Mirrors `ngx_stream_core_content_phase`, `ngx_stream_return_module.c` and `ngx_stream_pass_module.c`.

use std::{
    future::poll_fn,
    task::{Poll, ready},
    time::Duration,
};

use super::{
    proxy,
    session::{Action, Session},
};
use crate::{
    common::{addr::Addr, clock, errno::Errno},
    conf::{
        address::{UrlOptions, parse_url},
        model::{Level, PassAddr, StreamHandler},
    },
    net::{Io, TlsIo},
    vars::Template,
};

/// How a session ends.
#[derive(Debug)]
pub(super) enum End {
    /// With this status.
    Status(u16),
    /// Another listener takes over: the number of its socket, and the address that was asked for.
    Passed(usize, Addr),
}

/// How long a client may take no byte of a text (`ngx_stream_return_write_handler`).
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a session is handed on (`NGX_STREAM_PASS_MAX_PASSES`).
const MAX_PASSES: u32 = 10;

/// Serves the session.
pub(super) async fn run(s: &mut Session<'_, Io>) -> End {
    s.action = Action::Content;
    let server = s.server;
    if !matches!(server.handler, StreamHandler::Proxy) {
        // A proxied session: see `Way`.
        s.nodelay();
    }
    match &server.handler {
        StreamHandler::None => End::Status(500),
        StreamHandler::Proxy => End::Status(proxy::run(s).await),
        StreamHandler::Return(text) => End::Status(Box::pin(send(s, text)).await),
        StreamHandler::Pass(addr) => pass(s, addr),
    }
}

/// `return`
async fn send(s: &mut Session<'_, Io>, text: &Template) -> u16 {
    s.action = Action::Returning;
    let text = text.to_vec(s);
    let mut rest = &*text;
    while !rest.is_empty() {
        let deadline = clock::now().after(RETURN_TIMEOUT);
        let written = poll_fn(|cx| {
            if let Poll::Ready(result) = s.downstream.poll_write(cx, rest) {
                return Poll::Ready(Some(result));
            }
            if s.thread.is_ending() {
                return Poll::Ready(None);
            }
            ready!(s.timer.poll(cx, Some(deadline)));
            Poll::Ready(None)
        });
        match written.await {
            Some(Ok(n)) => {
                s.bytes.to_client += n as u64;
                rest = &rest[n..];
            }
            Some(Err(error)) => {
                s.log(
                    Level::Info,
                    format_args!("writev() failed ({})", Errno(&error)),
                );
                return 500;
            }
            None => {
                s.log(
                    Level::Info,
                    format_args!("connection timed out (110: Connection timed out)"),
                );
                return 200;
            }
        }
    }
    200
}

/// `pass`
fn pass(s: &mut Session<'_, Io>, addr: &PassAddr) -> End {
    s.action = Action::Passing;
    if s.downstream.tls().is_some_and(TlsIo::has_ahead) {
        s.log(
            Level::Error,
            format_args!("cannot pass connection with preread data"),
        );
        return End::Status(500);
    }
    let addr = match addr {
        PassAddr::Fixed(addr) => addr.clone(),
        PassAddr::Variable(template) => {
            let text = template.to_vec(s);
            match named(&String::from_utf8_lossy(&text)) {
                Ok(addr) => addr,
                Err(message) => {
                    s.log(Level::Error, format_args!("{message}"));
                    return End::Status(500);
                }
            }
        }
    };
    s.passes += 1;
    if s.passes > MAX_PASSES {
        s.log(Level::Error, format_args!("stream pass cycle"));
        return End::Status(500);
    }
    let doors = &s.live.doors;
    let leads = |door: &Option<Addr>| door.as_ref().is_some_and(|door| leads_to(door, &addr));
    let Some(door) = doors.iter().position(leads) else {
        s.log(Level::Error, format_args!("port not found for \"{addr}\""));
        return End::Status(200);
    };
    End::Passed(door, addr)
}

/// The address in a text, or nginx's message.
fn named(text: &str) -> Result<Addr, String> {
    let options = UrlOptions {
        no_resolve: true,
        ..UrlOptions::default()
    };
    let url = parse_url(text, options).map_err(|what| format!("{what} in pass \"{text}\""))?;
    match url.addrs.into_iter().next() {
        None => Err(format!("no addresses in pass \"{text}\"")),
        Some(_) if url.no_port => Err(format!("no port in pass \"{text}\"")),
        Some(addr) => Ok(addr),
    }
}

/// Whether a connection to `addr` would come in at the socket bound to `door`.
fn leads_to(door: &Addr, addr: &Addr) -> bool {
    match (door, addr) {
        (Addr::Inet(door), Addr::Inet(addr)) if door.ip().is_unspecified() => {
            door.is_ipv4() == addr.is_ipv4() && door.port() == addr.port()
        }
        _ => door == addr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_of_an_address() {
        let unix = Addr::Unix(std::path::Path::new("/x").into());
        let addr = |text: &str| named(text).unwrap();
        assert_eq!(named("unix:/x").unwrap(), unix);
        assert!(leads_to(&unix, &unix));
        for (door, to, leads) in [
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("0.0.0.0:1", "127.0.0.1:2", false),
            ("0.0.0.0:1", "[::1]:1", false),
            ("127.0.0.2:1", "127.0.0.1:1", false),
            ("127.0.0.1:1", "127.0.0.1:1", true),
        ] {
            assert_eq!(leads_to(&addr(door), &addr(to)), leads, "{door} {to}");
        }
        for (text, message) in [
            ("", "no host in pass \"\""),
            ("name:1", "no addresses in pass \"name:1\""),
            ("127.0.0.1", "no port in pass \"127.0.0.1\""),
        ] {
            assert_eq!(named(text).unwrap_err(), message);
        }
    }
}
