//! TLS of connections to peers.
//!
//! Mirrors `ngx_http_upstream_ssl_init_connection`, `ngx_http_upstream_ssl_handshake` and `ngx_http_upstream_ssl_name`.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    attempt::{Fail, wait},
    target::Target,
};
use crate::{
    common::clock::{self, Now},
    conf::model::{Level, Proxy, UpstreamSsl},
    http::exchange::{Action, Exchange},
    net::{Io, TlsIo},
    tls::{ClientContext, Identity, handshake_failure, without_port},
};

/// What a try needs to speak TLS.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    context: Arc<ClientContext>,
    /// The host that the peer should be, when that matters.
    name: Vec<u8>,
    /// Certificate and key as named for this request, when they have variables.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// What makes TLS on one connection differ from TLS on another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsKey {
    /// Address of the settings: of verification, versions and ciphers too.
    settings: usize,
    name: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// What is needed for this request; None where peers are asked in plain text.
    pub(super) fn of(
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        target: &Target,
    ) -> Result<Option<Self>, Fail> {
        if !target.tls {
            return Ok(None);
        }
        let ssl = &proxy.ssl;
        // Whatever may be TLS has a context.
        let context = x.live.tls.client(ssl).cloned().ok_or(Fail::Internal)?;
        let name = match &ssl.name {
            _ if !context.needs_name() => Vec::new(),
            Some(name) => name.to_vec(x),
            None => target.group.name().as_bytes().to_vec(),
        };
        Ok(Some(Self {
            context,
            name: without_port(&name).to_vec(),
            identity: identity(x, ssl),
        }))
    }

    /// What connections are kept by.
    pub(super) fn key(&self) -> TlsKey {
        TlsKey {
            settings: Arc::as_ptr(&self.context).addr(),
            name: self.name.clone(),
            identity: self.identity.clone(),
        }
    }

    /// Shakes hands on a connection to `peer`.
    pub(super) async fn handshake(
        &self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        (peer, io, alpn): (String, Io, &[u8]),
        deadline: Now,
    ) -> Result<Io, Fail> {
        let identity = self.identity(x, &proxy.ssl)?;
        x.action = Action::HandshakingUpstream;
        let session = self
            .context
            .connect(peer, &self.name, identity.as_ref(), offered(alpn));
        let session = session.map_err(|error| {
            x.log(
                Level::Error,
                format_args!("SSL_do_handshake() failed (SSL: {error})"),
            );
            Fail::Internal
        })?;
        let mut tls = TlsIo::new(io, session.into());
        let watch = !proxy.ignore_client_abort;
        let shaken = wait(
            &mut x.conn,
            watch,
            deadline,
            |_, cx: &mut Context<'_>| -> Poll<_> { tls.poll_handshake(cx) },
        );
        if let Err(error) = shaken.await? {
            x.log(Level::Error, format_args!("{}", handshake_failure(&error)));
            return Err(Fail::Error);
        }
        let now = clock::wall().secs;
        if let Err(mistrust) = self.context.check(tls.session(), &self.name, now) {
            x.log(Level::Error, format_args!("{mistrust}"));
            return Err(Fail::Error);
        }
        Ok(Io::Tls(Box::new(tls)))
    }

    /// The certificate of this connection, when it has variables.
    fn identity(&self, x: &Exchange<'_>, ssl: &UpstreamSsl) -> Result<Option<Identity>, Fail> {
        let Some((certificate, key)) = &self.identity else {
            return Ok(None);
        };
        let now = clock::wall().secs;
        match self.context.identity(ssl, (certificate, key), now) {
            Ok(identity) => Ok(Some(identity)),
            Err(message) => {
                x.log(Level::Error, format_args!("{message}"));
                Err(Fail::Internal)
            }
        }
    }
}

/// What is offered of protocols: one, or nothing.
fn offered(alpn: &[u8]) -> Vec<Vec<u8>> {
    let mut offered = Vec::new();
    if !alpn.is_empty() {
        offered.push(alpn.to_vec());
    }
    offered
}

/// Certificate and key as `proxy_ssl_certificate` and `proxy_ssl_certificate_key` name them for this request; None when they
/// have no variables, or name none.
fn identity(x: &mut Exchange<'_>, ssl: &UpstreamSsl) -> Option<(Vec<u8>, Vec<u8>)> {
    let (certificate, key) = ssl.certificates()?;
    if certificate.as_literal().is_some() && key.as_literal().is_some() {
        return None;
    }
    let certificate = certificate.to_vec(x);
    (!certificate.is_empty()).then(|| (certificate, key.to_vec(x)))
}
