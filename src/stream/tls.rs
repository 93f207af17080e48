//! TLS of clients' sessions: the handshake, with the settings of the server that is asked for.
//!
//! Mirrors `ngx_stream_ssl_handler` and `ngx_stream_ssl_servername` (`stream/ngx_stream_ssl_module.c`).

use std::{fmt, rc::Rc, sync::Arc, time::Duration};

use rustls::ServerConfig;

use super::session::{Action, Session};
use crate::{
    common::{buffer::Buf, clock},
    conf::model::{Level, Responder},
    net::{
        Io,
        handshake::{self, Failure, Greeted},
        resolver::Resolver,
        responder::{self, Way},
    },
    tls::{Greeting, SessionId, noted, ocsp::Doubt, rendered},
};

/// Goes through the handshake; the status with which the session ends when it fails.
pub(super) async fn shake(mut s: Box<Session<'_, Io>>) -> (Box<Session<'_, Io>>, Result<(), u16>) {
    let deadline = clock::now().after(s.server.ssl.handshake_timeout);
    s.action = Action::Handshaking;
    s.nodelay();
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
            let ((io, mut done), notes) = noted(shaking).await;
            moved.downstream = io;
            s = Box::new(moved);
            renew_staples(&s);
            let mut doubt = None;
            if done.is_ok() {
                let mut timer = std::mem::take(&mut s.timer);
                let confirmed = handshake::finish(&mut timer, deadline, confirm(&s)).await;
                s.timer = timer;
                done = confirmed.map(|found| doubt = found);
            }
            if let Some(greeting) = &mut s.tls {
                greeting.notes = notes;
                greeting.doubt = doubt;
            }
            done
        }
    };
    let done = done.map_err(|failure| {
        s.log(Level::Info, format_args!("{failure}"));
        500
    });
    let done = done.and_then(|()| admit(&s));
    s.action = Action::Initializing;
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
    if verdict.passes(s.server.ssl.verify_client) {
        return Ok(());
    }
    s.log(Level::Info, format_args!("{verdict}"));
    Err(500)
}

/// Asks whether the client's certificate is revoked, where that is wanted.
async fn confirm(s: &Session<'_, Io>) -> Option<Doubt> {
    let (session, context) = (s.downstream.tls()?.session(), &s.tls.as_ref()?.context);
    let report = |level: Level, message: fmt::Arguments<'_>| s.log_plain(level, message);
    let way = Way {
        resolver: resolver(s),
        patience: None,
        certificate: None,
        report: &report,
    };
    let ask =
        async |responder: &Responder, query: &[u8]| responder::ask(responder, query, &way).await;
    let about = s.context();
    context.confirm(session, ask, &report, &about).await.err()
}

/// Has the statements of `ssl_stapling` renewed that a handshake has wanted, if it is time.
fn renew_staples(s: &Session<'_, Io>) {
    let contexts = s.tls.iter().map(|greeting| &greeting.context);
    for staple in contexts.flat_map(|context| context.due_staples(clock::wall().secs)) {
        let (resolver, sink) = (resolver(s), s.live.main_sink());
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
fn resolver(s: &Session<'_, Io>) -> Option<(Rc<Resolver>, Duration)> {
    let core = &s.server.core;
    let resolver = s.thread.resolvers.get(core.resolver.as_ref()?);
    Some((resolver, core.resolver_timeout))
}
