//! TLS of clients' connections: the handshake, with the settings of the server that is asked for, and what it forbids.
//!
//! Mirrors `ngx_http_ssl_handshake`, `ngx_http_ssl_servername` and the TLS part of `ngx_http_process_request`
//! (`http/ngx_http_request.c`).

use std::sync::Arc;

use rustls::server::ClientHello;

use super::{conn::Conn, down::Down, exchange::Exchange, thread::Thread};
use crate::{
    common::{buffer::Buf, clock::Now},
    conf::model::{Level, Listen, Server, VerifyClient},
    net::{Io, TlsIo, tls as net_tls},
    tls::{ServerContext, Verdict},
};

/// The first byte of a TLS record with a handshake message; a greeting of SSL 2 has the highest bit set.
const HANDSHAKE: u8 = 0x16;
const SSL2: u8 = 0x80;

/// Whether what the client has sent first begins a handshake.
pub(super) fn is_greeting(conn: &Conn) -> bool {
    let first = conn.buf.filled().first();
    first.is_some_and(|first| *first == HANDSHAKE || first & SSL2 != 0)
}

/// Goes through the handshake that has begun; None when it failed, which is logged.
pub(super) async fn handshake(
    thread: &Thread,
    listen: &Listen,
    conn: Box<Conn>,
    deadline: Now,
) -> Option<Box<Conn>> {
    let mut conn = *conn;
    let mut chosen = None;
    let choose = |hello: &ClientHello<'_>| {
        let (context, speaks_h2) = choose(thread, listen, hello);
        let context = context?;
        chosen = Some(context.clone());
        (!context.rejects).then(|| context.http(speaks_h2))
    };
    let io = conn.io.take_socket()?;
    let (io, done) = net_tls::accept(io, &mut conn.buf, &mut conn.timer, deadline, choose).await;
    let Err(failure) = done else {
        conn.buf = Buf::default();
        conn.io = Down::Socket(io);
        conn.tls = chosen;
        return Some(Box::new(conn));
    };
    let sink = thread.live.error_sink(&listen.default_server.location);
    let (client, server) = (&conn.client.text, &listen.bind_addr);
    sink.emit(
        Level::Info,
        Some(conn.id),
        format_args!("{failure} while SSL handshaking, client: {client}, server: {server}"),
    );
    None
}

/// The context of the server whose name the client asks for, and whether that one speaks HTTP/2; that of the listener's
/// first one when it has none of its own.
fn choose<'g>(
    thread: &'g Thread,
    listen: &'g Listen,
    hello: &ClientHello<'_>,
) -> (Option<&'g Arc<ServerContext>>, bool) {
    let contexts = &thread.live.tls;
    let server = named(listen, hello.server_name());
    let context = contexts
        .server(&server.ssl)
        .or_else(|| contexts.server(&listen.default_server.ssl));
    (context, listen.http2 || server.http2.enabled)
}

/// Whether client and server have agreed on HTTP/2.
pub(super) fn has_h2(conn: &Conn) -> bool {
    let agreed = |io: &Io| Some(io.tls()?.session().alpn_protocol() == Some(b"h2"));
    conn.io.with_socket(agreed).flatten().unwrap_or(false)
}

/// The server that a name in a greeting means.
fn named<'g>(listen: &'g Listen, name: Option<&str>) -> &'g Arc<Server> {
    let name = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    let found = name.and_then(|name| listen.names.find(name.as_bytes()));
    found.map_or(&listen.default_server, |(server, _)| server)
}

/// The server that requests on `conn` begin with: the one that its greeting named.
pub(super) fn server<'g>(listen: &'g Listen, conn: &Conn) -> &'g Arc<Server> {
    let by_name = |io: &Io| Some(named(listen, io.tls()?.server_name()));
    let named = conn.io.with_socket(by_name).flatten();
    named.unwrap_or(&listen.default_server)
}

/// The status with which a request is refused because of how its connection came to be.
pub(super) fn refusal(x: &Exchange<'_>) -> Option<u16> {
    if !x.listen.ssl {
        return None;
    }
    let mode = x.server.ssl.verify_client;
    let judged = x.conn.with_tls(|facts| match mode {
        VerifyClient::Off => Verdict::None,
        _ => facts.verdict(),
    });
    let Some(verdict) = judged else {
        x.log(
            Level::Info,
            format_args!("client sent plain HTTP request to HTTPS port"),
        );
        return Some(497);
    };
    if mode == VerifyClient::Off {
        return None;
    }
    let is_other = |io: &Io| {
        let asked = io.tls().and_then(TlsIo::server_name);
        asked.is_some_and(|asked| !asked.as_bytes().eq_ignore_ascii_case(&x.request.host))
    };
    if x.conn.io.with_socket(is_other).unwrap_or(false) {
        x.log(
            Level::Info,
            format_args!(
                "client attempted to request the server name different from the one that was negotiated"
            ),
        );
        return Some(421);
    }
    match verdict {
        _ if verdict.passes(mode) => None,
        Verdict::Bad(error) => {
            x.log(
                Level::Info,
                format_args!("client SSL certificate verify error: {error}"),
            );
            Some(495)
        }
        _ => {
            x.log(
                Level::Info,
                format_args!("client sent no required SSL certificate"),
            );
            Some(496)
        }
    }
}
