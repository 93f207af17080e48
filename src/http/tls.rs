//! TLS of clients' connections: the handshake, with the settings of the server that is asked for, and what it forbids.
//!
//! Mirrors `ngx_http_ssl_handshake`, `ngx_http_ssl_servername` and the TLS part of `ngx_http_process_request`
//! (`http/ngx_http_request.c`).

use std::{fmt, rc::Rc, sync::Arc, time::Duration};

use rustls::ServerConfig;

use super::{
    conn::Conn,
    down::Down,
    exchange::{self, Action, Exchange},
    thread::Thread,
};
use crate::{
    common::{
        addr::Addr,
        clock::{self, Now},
    },
    conf::model::{Level, Listen, Responder, Server, VerifyClient},
    net::{
        Io, TlsIo,
        handshake::{self, Failure, Greeted},
        resolver::Resolver,
        responder::{self, Way},
    },
    tls::{Greeting, ServerContext, SessionId, Verdict, noted, ocsp::Doubt, rendered},
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
pub(super) async fn shake(
    thread: &Thread,
    listen: &Listen,
    mut conn: Box<Conn>,
    deadline: Now,
) -> Option<Box<Conn>> {
    let mut early = std::mem::take(&mut conn.buf);
    // A response would wait for the acknowledgement of a ticket.
    conn.nodelay(&listen.default_server.location.core);
    let io = conn.io.socket()?;
    let greeted = handshake::greet(io, &mut early, &mut conn.timer, deadline).await;
    let chosen = match greeted {
        Ok(greeted) => {
            let (returned, chosen) = choose(thread, listen, conn, &greeted);
            conn = returned;
            chosen.map(|(config, server)| (greeted, config, server))
        }
        Err(failure) => Err(failure),
    };
    let (greeted, config, server) = match chosen {
        Ok(chosen) => chosen,
        Err(failure) => {
            conn.io.with_socket(|io| handshake::refuse(io, &failure));
            report(thread, listen, &conn, Level::Info, &failure);
            return None;
        }
    };
    let io = conn.io.take_socket()?;
    let shaking = handshake::shake(io, (greeted, &mut early), config, &mut conn.timer, deadline);
    let ((io, mut done), notes) = noted(shaking).await;
    let mut doubt = None;
    if let Some(greeting) = conn.tls.clone() {
        renew_staples(thread, server, &greeting.context);
        if done.is_ok() {
            let about = About(&conn.client.text, &listen.bind_addr);
            let confirmed = confirm(thread, (server, &greeting.context), &io, (conn.id, &about));
            let confirmed = handshake::finish(&mut conn.timer, deadline, confirmed).await;
            done = confirmed.map(|found| doubt = found);
        }
    }
    if let Err(failure) = done {
        report(thread, listen, &conn, Level::Info, &failure);
        return None;
    }
    conn.io = Down::Socket(io);
    if let Some(greeting) = conn.tls.as_mut().and_then(Rc::get_mut) {
        greeting.notes = notes;
        greeting.doubt = doubt;
    }
    Some(conn)
}

/// Writes a line to the log of the listener's first server.
fn report(thread: &Thread, listen: &Listen, conn: &Conn, level: Level, message: &dyn fmt::Display) {
    let sink = thread.live.error_sink(&listen.default_server.location);
    let about = About(&conn.client.text, &listen.bind_addr);
    sink.emit(level, Some(conn.id), format_args!("{message}{about}"));
}

/// Ends messages about a handshake: client and listener.
struct About<'a>(&'a str, &'a Addr);

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(client, server) = self;
        write!(
            f,
            " while SSL handshaking, client: {client}, server: {server}"
        )
    }
}

/// Asks whether the client's certificate is revoked, where that is wanted.
async fn confirm(
    thread: &Thread,
    (server, context): (&Server, &ServerContext),
    io: &Io,
    (number, about): (u64, &About<'_>),
) -> Option<Doubt> {
    let session = io.tls()?.session();
    let sink = thread.live.error_sink(&server.location);
    let report =
        |level: Level, message: fmt::Arguments<'_>| sink.emit(level, Some(number), message);
    let way = Way {
        resolver: resolver(thread, server),
        patience: None,
        certificate: None,
        report: &report,
    };
    let ask =
        async |responder: &Responder, query: &[u8]| responder::ask(responder, query, &way).await;
    context.confirm(session, ask, &report, about).await.err()
}

/// Has the statements of `ssl_stapling` renewed that a handshake has wanted, if it is time.
fn renew_staples(thread: &Thread, server: &Server, context: &ServerContext) {
    for staple in context.due_staples(clock::wall().secs) {
        let (resolver, sink) = (resolver(thread, server), thread.live.main_sink());
        tokio::task::spawn_local(async move {
            let report =
                |level: Level, message: fmt::Arguments<'_>| sink.emit(level, None, message);
            let way = Way {
                resolver,
                patience: Some(STAPLING),
                certificate: Some(staple.name()),
                report: &report,
            };
            let answer = responder::ask(staple.responder(), staple.query(), &way).await;
            staple.learn(answer, clock::wall().secs, &report);
        });
    }
}

/// How long a responder may take where no client waits for it.
const STAPLING: Duration = Duration::from_mins(1);

/// What resolves the names of responders, and how long that may take.
fn resolver(thread: &Thread, server: &Server) -> Option<(Rc<Resolver>, Duration)> {
    let core = &server.location.core;
    let resolver = thread.resolvers.get(core.resolver.as_ref()?);
    Some((resolver, core.resolver_timeout))
}

/// Settings of a handshake, and whose name was asked for.
type Chosen<'g> = (Arc<ServerConfig>, &'g Server);

/// The settings of the handshake that `greeted` begins: those of the server whose name the client asks for, and those of the
/// listener's first one when it has none of its own. The connection knows of them from now on.
fn choose<'g>(
    thread: &'g Thread,
    listen: &'g Listen,
    mut conn: Box<Conn>,
    greeted: &Greeted,
) -> (Box<Conn>, Result<Chosen<'g>, Failure>) {
    let hello = greeted.hello();
    let contexts = &thread.live.tls;
    let server = named(listen, hello.server_name());
    let own = contexts
        .server(&server.ssl)
        .map(|context| (context, server));
    let first = &listen.default_server;
    let found = own.or_else(|| contexts.server(&first.ssl).map(|context| (context, first)));
    let Some((context, settings)) = found.filter(|(context, _)| !context.rejects) else {
        return (conn, Err(Failure::Rejected));
    };
    let speaks_h2 = listen.http2 || server.http2.enabled;
    let session = SessionId::of_greeting(&greeted.start);
    conn.tls = Some(Rc::new(Greeting::new(&hello, session, context.clone())));
    if !context.is_dynamic {
        return (conn, Ok((context.config(speaks_h2), server)));
    }
    // DIFFERS(resumed-certificate): nginx does this only when there is no session to resume.
    let mut x = Exchange::new(thread, listen, conn);
    x.server = server;
    x.location = &server.location;
    let names = rendered(&settings.ssl, |template| {
        let mut text = Vec::new();
        template.render(&mut x, &mut text);
        text
    });
    let conn = exchange::end!(x);
    let now = clock::wall().secs;
    let config = context.config_with(&settings.ssl, &names, speaks_h2, now);
    let config = config.map_err(|message| {
        report(thread, listen, &conn, Level::Error, &message);
        Failure::NoCertificate
    });
    (conn, config.map(|config| (config, &**server)))
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
pub(super) fn refusal(x: &mut Exchange<'_>) -> Option<u16> {
    if !x.listen.ssl {
        return None;
    }
    // For nginx the head is not done before this.
    x.action = Action::ReadingHeaders;
    let status = refused(x);
    x.action = Action::None;
    status
}

fn refused(x: &Exchange<'_>) -> Option<u16> {
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
    if verdict.passes(mode) {
        return None;
    }
    x.log(Level::Info, format_args!("{verdict}"));
    Some(match verdict {
        Verdict::Bad(_) | Verdict::Doubtful(_) => 495,
        Verdict::None | Verdict::Good => 496,
    })
}
