//! TLS of clients' connections: the handshake, with the settings of the server that is asked for, and what it forbids.
//!
//! Mirrors `ngx_http_ssl_handshake`, `ngx_http_ssl_servername` and the TLS part of `ngx_http_process_request`
//! (`http/ngx_http_request.c`).

use std::{
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustls::server::{Acceptor, ClientHello};

use super::{conn::Conn, exchange::Exchange, thread::Thread};
use crate::{
    common::{buffer::Buf, clock::Now, errno::Errno},
    conf::model::{Level, Listen, Server},
    net::{Io, Timer, TlsIo, tls as net_tls},
    tls::ServerContext,
};

/// The first byte of a TLS record with a handshake message; a greeting of SSL 2 has the highest bit set.
const HANDSHAKE: u8 = 0x16;
const SSL2: u8 = 0x80;

/// What ended a handshake.
enum Failure {
    TimedOut,
    Rejected,
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

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
    let io = conn.io;
    let mut acceptor = Acceptor::default();
    let (buf, timer) = (&mut conn.buf, &mut conn.timer);
    let accepted = bounded(timer, deadline, |cx| {
        net_tls::poll_greeting(&io, &mut acceptor, buf, cx)
    });
    let begun = accepted.await.and_then(|accepted| {
        let context = choose(thread, listen, &accepted.client_hello());
        let Some(context) = context.filter(|context| !context.rejects) else {
            net_tls::reject_name(&io);
            return Err(Failure::Rejected);
        };
        accepted
            .into_connection(context.http(false))
            .map_err(|(error, alert)| {
                net_tls::send_alert(&io, alert);
                Failure::from(io::Error::new(io::ErrorKind::InvalidData, error))
            })
    });
    let failure = match begun {
        Ok(tls) => {
            let mut tls = TlsIo::new(io, tls.into());
            let done = bounded(timer, deadline, |cx| tls.poll_handshake(cx)).await;
            let Err(failure) = done else {
                conn.buf = Buf::default();
                conn.io = Io::Tls(Box::new(tls));
                return Some(Box::new(conn));
            };
            failure
        }
        Err(failure) => failure,
    };
    let (level, text) = words(&failure);
    let sink = thread.live.error_sink(&listen.default_server.location);
    let (client, server) = (&conn.client.text, &listen.bind_addr);
    sink.emit(
        level,
        Some(conn.id),
        format_args!("{text} while SSL handshaking, client: {client}, server: {server}"),
    );
    None
}

/// Waits for `poll` until `deadline`.
async fn bounded<T>(
    timer: &mut Timer,
    deadline: Now,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> Result<T, Failure> {
    poll_fn(|cx| {
        if let Poll::Ready(result) = poll(cx) {
            return Poll::Ready(result.map_err(Failure::from));
        }
        ready!(timer.poll(cx, Some(deadline)));
        Poll::Ready(Err(Failure::TimedOut))
    })
    .await
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

/// A line for the error log, and how grave it is.
// DIFFERS(tls-words): OpenSSL's words are others.
fn words(failure: &Failure) -> (Level, String) {
    let error = match failure {
        Failure::TimedOut => {
            return (
                Level::Info,
                "client timed out (110: Connection timed out)".to_owned(),
            );
        }
        Failure::Rejected => {
            let text =
                "SSL_do_handshake() failed (SSL: error:0A0000EA:SSL routines::callback failed)";
            return (Level::Info, text.to_owned());
        }
        Failure::Io(error) => error,
    };
    let text = match error.kind() {
        io::ErrorKind::UnexpectedEof => "peer closed connection in SSL handshake".to_owned(),
        io::ErrorKind::InvalidData => {
            let reason = error.get_ref().map(ToString::to_string);
            format!(
                "SSL_do_handshake() failed (SSL: {})",
                reason.unwrap_or_default()
            )
        }
        _ => format!("SSL_do_handshake() failed ({})", Errno(error)),
    };
    (Level::Info, text)
}

/// The status with which a request is refused because of how its connection came to be.
pub(super) fn refusal(x: &Exchange<'_>) -> Option<u16> {
    if x.listen.ssl && x.conn.io.is_plain() {
        x.log(
            Level::Info,
            format_args!("client sent plain HTTP request to HTTPS port"),
        );
        return Some(497);
    }
    None
}
