//! TLS of connections to peers (`proxy_ssl`).
//!
//! Mirrors `ngx_stream_proxy_ssl_init_connection`, `ngx_stream_proxy_ssl_handshake` and `ngx_stream_proxy_ssl_name`. The
//! PROXY header goes before the handshake, in plain text.

use std::{
    sync::Arc,
    task::{Poll, ready},
};

use super::connect::{Fail, within};
use crate::{
    common::clock::{self, Now},
    conf::model::{Level, ProxyProtocol, UpstreamSsl},
    net::{Io, TlsIo, proxy_protocol::write},
    stream::session::{Action, Downstream, Session},
    tls::{ClientContext, Identity, handshake_failure, without_port},
};

/// What the sessions with a group need to speak TLS.
pub(super) struct Tls {
    context: Arc<ClientContext>,
    /// The host that the peer should be.
    name: Vec<u8>,
    group: String,
}

impl Tls {
    /// What is needed for peers of the group `host`; None where they are spoken to in plain text.
    pub(super) fn of<D: Downstream>(
        s: &mut Session<'_, D>,
        host: &str,
    ) -> Result<Option<Self>, u16> {
        let ssl = &s.server.proxy.ssl;
        if !ssl.enabled {
            return Ok(None);
        }
        let context = s.live.tls.client(ssl).cloned().ok_or(500u16)?;
        let name = match &ssl.name {
            Some(name) => name.to_vec(s),
            None => host.as_bytes().to_vec(),
        };
        Ok(Some(Self {
            context,
            name: without_port(&name).to_vec(),
            group: host.to_owned(),
        }))
    }

    /// Shakes hands on a connection to `peer`.
    pub(super) async fn handshake<D: Downstream>(
        &self,
        s: &mut Session<'_, D>,
        (peer, mut io): (&str, Io),
        deadline: Now,
    ) -> Result<Io, Fail> {
        send_header(s, &mut io, deadline).await?;
        let ssl = &s.server.proxy.ssl;
        let alpn = ssl.alpn.iter().map(|protocol| protocol.to_vec(s));
        let alpn: Vec<_> = alpn
            .filter(|name| (1..=255).contains(&name.len()))
            .collect();
        let identity = identity(&self.context, s, ssl)?;
        s.action = Action::HandshakingUpstream;
        let peer = format!("{} {peer}", self.group);
        let session = self
            .context
            .connect(peer, &self.name, identity.as_ref(), alpn);
        let session = session.map_err(|error| {
            s.log(
                Level::Error,
                format_args!("SSL_do_handshake() failed (SSL: {error})"),
            );
            Fail::Internal
        })?;
        let mut tls = TlsIo::new(io, session.into());
        if let Err(error) = within(s, deadline, |cx| tls.poll_handshake(cx)).await? {
            s.log(Level::Error, format_args!("{}", handshake_failure(&error)));
            return Err(Fail::Peer);
        }
        let now = clock::wall().secs;
        if let Err(mistrust) = self.context.check(tls.session(), &self.name, now) {
            s.log(Level::Error, format_args!("{mistrust}"));
            return Err(Fail::Peer);
        }
        Ok(Io::Tls(Box::new(tls)))
    }
}

/// Sends the PROXY header.
async fn send_header<D: Downstream>(
    s: &mut Session<'_, D>,
    io: &mut Io,
    deadline: Now,
) -> Result<(), Fail> {
    let header = header(s);
    let mut sent = 0;
    let written = within(s, deadline, |cx| {
        while sent < header.len() {
            sent += ready!(io.poll_write(cx, &header[sent..]))?;
        }
        Poll::Ready(Ok(()))
    });
    written.await?.map_err(|error: std::io::Error| {
        super::relay::report(s, Action::SendingToUpstream, "send()", &error);
        Fail::Peer
    })
}

/// The PROXY header, where one is sent.
pub(super) fn header<D: Downstream>(s: &mut Session<'_, D>) -> Vec<u8> {
    match s.server.proxy.protocol {
        ProxyProtocol::Off => Vec::new(),
        ProxyProtocol::V1 => write::version1(&s.client.addr, s.local()),
        ProxyProtocol::V2 => write::version2(&s.client.addr, s.local(), false),
    }
}

/// The certificate of this connection, when it has variables.
fn identity<D: Downstream>(
    context: &ClientContext,
    s: &mut Session<'_, D>,
    ssl: &UpstreamSsl,
) -> Result<Option<Identity>, Fail> {
    let Some((certificate, key)) = ssl.certificates() else {
        return Ok(None);
    };
    if certificate.as_literal().is_some() && key.as_literal().is_some() {
        return Ok(None);
    }
    let certificate = certificate.to_vec(s);
    if certificate.is_empty() {
        return Ok(None);
    }
    let key = key.to_vec(s);
    let now = clock::wall().secs;
    context
        .identity(ssl, (&certificate, &key), now)
        .map(Some)
        .map_err(|message| {
            s.log(Level::Error, format_args!("{message}"));
            Fail::Internal
        })
}
