//! TLS of clients' connections: the handshake, with the settings of the server that is asked for, and what it forbids.
//!
//! Mirrors `ngx_http_ssl_handshake`, `ngx_http_ssl_servername` and the TLS part of `ngx_http_process_request`
//! (`http/ngx_http_request.c`).

use std::sync::Arc;

use rustls::server::ClientHello;

use super::{conn::Conn, exchange::Exchange, thread::Thread};
use crate::{
    common::{buffer::Buf, clock::Now},
    conf::model::{Level, Listen, Server, VerifyClient},
    net::{TlsIo, tls as net_tls},
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
        let context = choose(thread, listen, hello)?;
        chosen = Some(context.clone());
        (!context.rejects).then(|| context.http(false))
    };
    let (io, done) =
        net_tls::accept(conn.io, &mut conn.buf, &mut conn.timer, deadline, choose).await;
    let Err(failure) = done else {
        conn.buf = Buf::default();
        conn.io = io;
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

/// The context of the server whose name the client asks for; that of the listener's first one when it has none of its own.
fn choose<'g>(
    thread: &'g Thread,
    listen: &'g Listen,
    hello: &ClientHello<'_>,
) -> Option<&'g Arc<ServerContext>> {
    let contexts = &thread.live.tls;
    let server = named(listen, hello.server_name());
    contexts
        .server(&server.ssl)
        .or_else(|| contexts.server(&listen.default_server.ssl))
}

/// The server that a name in a greeting means.
fn named<'g>(listen: &'g Listen, name: Option<&str>) -> &'g Arc<Server> {
    let name = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    let found = name.and_then(|name| listen.names.find(name.as_bytes()));
    found.map_or(&listen.default_server, |(server, _)| server)
}

/// The server that requests on `conn` begin with: the one that its greeting named.
pub(super) fn server<'g>(listen: &'g Listen, conn: &Conn) -> &'g Arc<Server> {
    match conn.io.tls() {
        None => &listen.default_server,
        Some(tls) => named(listen, tls.server_name()),
    }
}

/// The status with which a request is refused because of how its connection came to be.
pub(super) fn refusal(x: &Exchange<'_>) -> Option<u16> {
    if !x.listen.ssl {
        return None;
    }
    let Some(facts) = x.conn.tls() else {
        x.log(
            Level::Info,
            format_args!("client sent plain HTTP request to HTTPS port"),
        );
        return Some(497);
    };
    if x.server.ssl.verify_client == VerifyClient::Off {
        return None;
    }
    let asked = x.conn.io.tls().and_then(TlsIo::server_name);
    if asked.is_some_and(|asked| !asked.as_bytes().eq_ignore_ascii_case(&x.request.host)) {
        x.log(
            Level::Info,
            format_args!(
                "client attempted to request the server name different from the one that was negotiated"
            ),
        );
        return Some(421);
    }
    let verdict = facts.verdict();
    match verdict {
        _ if facts.context.is_none_or(|context| context.admits(verdict)) => None,
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
