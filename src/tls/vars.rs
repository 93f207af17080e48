//! `$ssl_*`: what a connection has agreed on, in OpenSSL's words.
//!
//! Mirrors the `ngx_ssl_get_*` functions (`event/ngx_event_openssl.c`).

use data_encoding::HEXLOWER;
use rustls::{Connection, HandshakeKind, ProtocolVersion};

use super::{Greeting, Verdict, certificate, cipher_name, greeting::scheme_name, group_name};
use crate::vars::VarId;

/// What there is to know of a client's TLS.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What was agreed on; None while a certificate is looked for.
    pub session: Option<&'a Connection>,
    /// What the client has said.
    pub greeting: Option<&'a Greeting>,
    /// Seconds of the day's clock.
    pub now: i64,
}

impl Facts<'_> {
    /// What became of the client's certificate.
    pub fn verdict(&self) -> Verdict {
        let both = self.greeting.zip(self.session);
        let verdict = both.map_or(Verdict::None, |(greeting, session)| {
            greeting.context.judge(session, self.now)
        });
        match (verdict, self.greeting.and_then(|greeting| greeting.doubt)) {
            (Verdict::Good, Some(doubt)) => Verdict::Doubtful(doubt),
            _ => verdict,
        }
    }

    fn version(&self) -> Option<ProtocolVersion> {
        match self.session {
            Some(session) => session.protocol_version(),
            None => self.greeting.map(|greeting| {
                if greeting.offers_tls13() && greeting.context.speaks_tls13() {
                    ProtocolVersion::TLSv1_3
                } else {
                    ProtocolVersion::TLSv1_2
                }
            }),
        }
    }

    fn is_resumed(&self) -> bool {
        let kind = self.session.and_then(|session| session.handshake_kind());
        kind == Some(HandshakeKind::Resumed)
    }

    /// Appends the session's number (`$ssl_session_id`): that of a session which is kept, or the one that a client with
    /// a ticket has made up. With TLS 1.3 and tickets it is any that is the connection's own.
    fn session_id(&self, out: &mut Vec<u8>) {
        let Some((session, greeting)) = self.session.zip(self.greeting) else {
            return;
        };
        let (mut made, notes) = ([0; 32], &greeting.notes);
        let id = if let Some(id) = notes.session.as_ref().filter(|_| !notes.has_ticket) {
            id.bytes()
        } else if self.version() == Some(ProtocolVersion::TLSv1_3) {
            let label = b"EXPORTER-session-id";
            match session.export_keying_material(&mut made, label, None) {
                Ok(id) => &*id,
                Err(_) => return,
            }
        } else if self.is_resumed() {
            greeting.session().bytes()
        } else {
            return;
        };
        out.extend_from_slice(HEXLOWER.encode(id).as_bytes());
    }
}

/// Appends the value of a variable of TLS; false when there is none.
pub fn variable(facts: &Facts<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    if let Some(is_there) = offered(facts, id, out) {
        return is_there;
    }
    let session = facts.session;
    let text: Option<&str> = match id {
        VarId::SslProtocol => facts.version().and_then(version_name),
        VarId::SslCipher => {
            let suite = session.and_then(|session| session.negotiated_cipher_suite());
            suite.and_then(|suite| cipher_name(suite.suite()))
        }
        VarId::SslCurve => {
            let group = session.and_then(|session| session.negotiated_key_exchange_group());
            group.and_then(|group| group_name(group.name()))
        }
        VarId::SslSessionReused => Some(if facts.is_resumed() { "r" } else { "." }),
        VarId::SslEarlyData => Some(if session.is_some_and(|session| session.is_handshaking()) {
            "1"
        } else {
            ""
        }),
        VarId::SslAlpnProtocol => {
            let chosen = session.and_then(|session| session.alpn_protocol());
            let chosen = chosen.unwrap_or_default();
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
            Verdict::Doubtful(doubt) => {
                out.extend_from_slice(b"FAILED:");
                Some(doubt.text())
            }
        },
        _ => {
            let shown = session.and_then(|session| session.peer_certificates());
            let own = shown.and_then(<[_]>::first);
            return own.is_some_and(|der| certificate::variable(der, id, facts.now, out));
        }
    };
    if let Some(text) = text {
        out.extend_from_slice(text.as_bytes());
    }
    text.is_some_and(|text| !text.is_empty())
}

/// Of what the client has said, and of what was noted; None when `id` is about something else.
fn offered(facts: &Facts<'_>, id: &VarId, out: &mut Vec<u8>) -> Option<bool> {
    let before = out.len();
    let greeting = facts.greeting;
    let mut scheme = None;
    match (id, greeting) {
        (VarId::SslServerName, Some(greeting)) => {
            out.extend_from_slice(greeting.name().unwrap_or_default().as_bytes());
        }
        (VarId::SslCiphers, Some(greeting)) => greeting.list_ciphers(out),
        (VarId::SslCurves, Some(greeting)) => greeting.list_groups(out),
        (VarId::SslSigalgs, Some(greeting)) => greeting.list_schemes(out),
        (VarId::SslSigalg, Some(greeting)) if !facts.is_resumed() => {
            scheme = greeting.notes.server_scheme;
        }
        (VarId::SslClientSigalg, Some(greeting)) => scheme = greeting.notes.client_scheme,
        (VarId::SslSessionId, _) => facts.session_id(out),
        (
            VarId::SslServerName
            | VarId::SslCiphers
            | VarId::SslCurves
            | VarId::SslSigalgs
            | VarId::SslSigalg
            | VarId::SslClientSigalg,
            _,
        ) => {}
        _ => return None,
    }
    let name = scheme.and_then(scheme_name).unwrap_or_default();
    out.extend_from_slice(name.as_bytes());
    Some(out.len() > before)
}

fn version_name(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
        ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
        _ => None,
    }
}
