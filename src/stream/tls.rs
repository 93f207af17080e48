//! TLS of clients' sessions: the handshake, with the settings of the server that is asked for.
//!
//! Mirrors `ngx_stream_ssl_handler` and `ngx_stream_ssl_servername` (`stream/ngx_stream_ssl_module.c`).

use rustls::server::ClientHello;

use super::session::{Action, Session};
use crate::{
    common::{buffer::Buf, clock},
    conf::model::Level,
    net::{Io, tls},
    tls::Verdict,
};

/// Goes through the handshake; the status with which the session ends when it fails.
pub(super) async fn handshake(s: Box<Session<'_, Io>>) -> (Box<Session<'_, Io>>, Result<(), u16>) {
    let mut s = *s;
    let deadline = clock::now().after(s.server.ssl.handshake_timeout);
    let (live, listen, mut name) = (s.live, s.listen, None);
    let mut chosen = None;
    let choose = |hello: &ClientHello<'_>| {
        name = hello
            .server_name()
            .map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        let found = name
            .as_ref()
            .and_then(|name| listen.names.find(name.as_bytes()));
        let server = found.map_or(&listen.default_server, |(server, _)| server);
        let contexts = &live.tls;
        let context = contexts
            .server(&server.ssl)
            .or_else(|| contexts.server(&listen.default_server.ssl))?;
        chosen = Some(context.clone());
        (!context.rejects).then(|| context.stream())
    };
    let (io, done) = tls::accept(
        s.downstream,
        &mut Buf::default(),
        &mut s.timer,
        deadline,
        choose,
    )
    .await;
    s.downstream = io;
    let mut s = Box::new(s);
    s.action = Action::Handshaking;
    if let Some(name) = name {
        s.set_server(name.as_bytes());
    }
    s.tls = chosen;
    let done = done.map_err(|failure| {
        s.log(Level::Info, format_args!("{failure}"));
        500
    });
    s.action = Action::Initializing;
    let done = done.and_then(|()| admit(&s));
    (s, done)
}

/// Whether the client's certificate is good enough.
fn admit(s: &Session<'_, Io>) -> Result<(), u16> {
    let Some(facts) = s.tls() else { return Ok(()) };
    let verdict = facts.verdict();
    match verdict {
        _ if verdict.passes(s.server.ssl.verify_client) => Ok(()),
        Verdict::Bad(error) => {
            s.log(
                Level::Info,
                format_args!("client SSL certificate verify error: {error}"),
            );
            Err(500)
        }
        _ => {
            s.log(
                Level::Info,
                format_args!("client sent no required SSL certificate"),
            );
            Err(500)
        }
    }
}
