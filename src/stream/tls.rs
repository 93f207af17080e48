//! TLS of clients' sessions: the handshake, with the settings of the server that is asked for.
//!
//! Mirrors `ngx_stream_ssl_handler` and `ngx_stream_ssl_servername` (`stream/ngx_stream_ssl_module.c`).

use std::sync::Arc;

use rustls::ServerConfig;

use super::session::{Action, Session};
use crate::{
    common::{buffer::Buf, clock},
    conf::model::Level,
    net::{
        Io,
        handshake::{self, Failure, Greeted},
    },
    tls::{Greeting, SessionId, Verdict, noted, rendered},
};

/// Goes through the handshake; the status with which the session ends when it fails.
pub(super) async fn shake(mut s: Box<Session<'_, Io>>) -> (Box<Session<'_, Io>>, Result<(), u16>) {
    let deadline = clock::now().after(s.server.ssl.handshake_timeout);
    s.action = Action::Handshaking;
    let mut early = Buf::default();
    let greeted = handshake::greet(&s.downstream, &mut early, &mut s.timer, deadline).await;
    let chosen = greeted.and_then(|greeted| {
        let config = choose(&mut s, &greeted)?;
        Ok((greeted, config))
    });
    let done = match chosen {
        Err(failure) => {
            handshake::refuse(&s.downstream, &failure);
            Err(failure)
        }
        Ok((greeted, config)) => {
            let mut moved = *s;
            let greeted = (greeted, &mut early);
            let timer = &mut moved.timer;
            let shaking = handshake::shake(moved.downstream, greeted, config, timer, deadline);
            let ((io, done), notes) = noted(shaking).await;
            moved.downstream = io;
            s = Box::new(moved);
            if let Some(greeting) = &mut s.tls {
                greeting.notes = notes;
            }
            done
        }
    };
    let done = done.map_err(|failure| {
        s.log(Level::Info, format_args!("{failure}"));
        500
    });
    s.action = Action::Initializing;
    let done = done.and_then(|()| admit(&s));
    (s, done)
}

/// The settings of the handshake that `greeted` begins: those of the server whose name the client asks for, and those of the
/// listener's first one when it has none of its own. The session knows of them from now on, and goes on with that server.
fn choose(s: &mut Session<'_, Io>, greeted: &Greeted) -> Result<Arc<ServerConfig>, Failure> {
    let hello = greeted.hello();
    let name = hello.server_name();
    if let Some(name) = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase()) {
        s.set_server(name.as_bytes());
    }
    let (contexts, first) = (&s.live.tls, &s.listen.default_server);
    let own = contexts.server(&s.server.ssl);
    let own = own.map(|context| (context, &s.server.ssl));
    let found = own.or_else(|| contexts.server(&first.ssl).map(|found| (found, &first.ssl)));
    let (context, ssl) = found
        .filter(|(context, _)| !context.rejects)
        .ok_or(Failure::Rejected)?;
    let session = SessionId::of_greeting(&greeted.start);
    s.tls = Some(Box::new(Greeting::new(&hello, session, context.clone())));
    if !context.is_dynamic {
        return Ok(context.config(false));
    }
    let names = rendered(ssl, |template| {
        let mut text = Vec::new();
        template.render(s, &mut text);
        text
    });
    let config = context.config_with(ssl, &names, false, clock::wall().secs);
    config.map_err(|message| {
        s.log(Level::Error, format_args!("{message}"));
        Failure::NoCertificate
    })
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
