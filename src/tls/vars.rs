//! `$ssl_*`: what a connection has agreed on, in OpenSSL's words.
//!
//! Mirrors the `ngx_ssl_get_*` functions (`event/ngx_event_openssl.c`).

use rustls::{Connection, HandshakeKind, ProtocolVersion};

use super::{ServerContext, Verdict, certificate, cipher_name, group_name};
use crate::vars::VarId;

/// What there is to know of a client's TLS.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What was agreed on.
    pub session: &'a Connection,
    /// With whose settings.
    pub context: Option<&'a ServerContext>,
    /// Seconds of the day's clock.
    pub now: i64,
}

impl Facts<'_> {
    /// What became of the client's certificate.
    pub fn verdict(&self) -> Verdict {
        let context = self.context;
        context.map_or(Verdict::None, |context| {
            context.judge(self.session, self.now)
        })
    }
}

/// Appends the value of a variable of TLS; false when there is none.
pub fn variable(facts: &Facts<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    let session = facts.session;
    let text: Option<&str> = match id {
        VarId::SslProtocol => session.protocol_version().and_then(version_name),
        VarId::SslCipher => {
            let suite = session.negotiated_cipher_suite();
            suite.and_then(|suite| cipher_name(suite.suite()))
        }
        VarId::SslCurve => {
            let group = session.negotiated_key_exchange_group();
            group.and_then(|group| group_name(group.name()))
        }
        VarId::SslServerName => match session {
            Connection::Server(server) => server.server_name(),
            Connection::Client(_) => None,
        },
        VarId::SslSessionReused => Some(match session.handshake_kind() {
            Some(HandshakeKind::Resumed) => "r",
            _ => ".",
        }),
        VarId::SslAlpnProtocol => {
            let chosen = session.alpn_protocol().unwrap_or_default();
            out.extend_from_slice(chosen);
            return !chosen.is_empty();
        }
        VarId::SslClientVerify => match facts.verdict() {
            Verdict::None => Some("NONE"),
            Verdict::Good => Some("SUCCESS"),
            Verdict::Bad(error) => {
                out.extend_from_slice(b"FAILED:");
                Some(error.text())
            }
        },
        _ => {
            let shown = session.peer_certificates().and_then(<[_]>::first);
            return shown.is_some_and(|der| certificate::variable(der, id, facts.now, out));
        }
    };
    if let Some(text) = text {
        out.extend_from_slice(text.as_bytes());
    }
    text.is_some()
}

fn version_name(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
        ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
        _ => None,
    }
}
