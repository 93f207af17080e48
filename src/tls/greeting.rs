//! What a client has said in its greeting, and what came of it: kept with the connection, for variables.

use std::sync::Arc;

use rustls::{SignatureScheme, server::ClientHello};

use super::{ServerContext, names, notes::Notes, ocsp::Doubt, session_id::SessionId};

/// A client's TLS, as far as rustls does not keep it.
#[derive(Debug)]
pub struct Greeting {
    /// With whose settings TLS is spoken.
    pub context: Arc<ServerContext>,
    /// What was noted during the handshake.
    pub notes: Notes,
    /// What a responder has said against the client's certificate.
    pub doubt: Option<Doubt>,
    name: Option<Box<str>>,
    /// Numbers of ciphers, then of groups, then of signature schemes.
    offered: Box<[u16]>,
    /// Where groups and schemes begin.
    starts: (usize, usize),
    session: SessionId,
}

impl Greeting {
    /// What `hello` says, which came with the number of an older session.
    pub fn new(hello: &ClientHello<'_>, session: SessionId, context: Arc<ServerContext>) -> Self {
        let ciphers = hello.cipher_suites().iter().copied().map(u16::from);
        let groups = hello.named_groups().unwrap_or_default();
        let groups = groups.iter().copied().map(u16::from);
        let schemes = hello.signature_schemes().iter().copied().map(u16::from);
        let first = ciphers.len();
        let starts = (first, first + groups.len());
        Self {
            context,
            notes: Notes::default(),
            doubt: None,
            name: hello.server_name().map(Box::from),
            offered: ciphers.chain(groups).chain(schemes).collect(),
            starts,
            session,
        }
    }

    /// The name that the client asks for.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The number of the session that the client wants to resume; with TLS 1.3 it means nothing.
    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Whether the client offers TLS 1.3, which has ciphers of its own.
    pub(super) fn offers_tls13(&self) -> bool {
        self.ciphers()
            .iter()
            .any(|code| (0x1301..=0x1305).contains(code))
    }

    fn ciphers(&self) -> &[u16] {
        self.offered.get(..self.starts.0).unwrap_or_default()
    }

    /// Appends what the client offers of ciphers (`$ssl_ciphers`).
    pub(super) fn list_ciphers(&self, out: &mut Vec<u8>) {
        names::list(self.ciphers(), names::cipher, out);
    }

    /// Appends what it offers of groups (`$ssl_curves`).
    pub(super) fn list_groups(&self, out: &mut Vec<u8>) {
        let groups = self.offered.get(self.starts.0..self.starts.1);
        names::list(groups.unwrap_or_default(), names::group, out);
    }

    /// Appends what it offers of signatures (`$ssl_sigalgs`); they have no names before OpenSSL 4.
    pub(super) fn list_schemes(&self, out: &mut Vec<u8>) {
        let schemes = self.offered.get(self.starts.1..);
        names::list(schemes.unwrap_or_default(), |_| None, out);
    }
}

/// The name of a signature scheme in IANA's registry, as OpenSSL has it too.
pub(super) fn scheme_name(scheme: SignatureScheme) -> Option<&'static str> {
    Some(match scheme {
        SignatureScheme::RSA_PKCS1_SHA1 => "rsa_pkcs1_sha1",
        SignatureScheme::ECDSA_SHA1_Legacy => "ecdsa_sha1",
        SignatureScheme::RSA_PKCS1_SHA256 => "rsa_pkcs1_sha256",
        SignatureScheme::ECDSA_NISTP256_SHA256 => "ecdsa_secp256r1_sha256",
        SignatureScheme::RSA_PKCS1_SHA384 => "rsa_pkcs1_sha384",
        SignatureScheme::ECDSA_NISTP384_SHA384 => "ecdsa_secp384r1_sha384",
        SignatureScheme::RSA_PKCS1_SHA512 => "rsa_pkcs1_sha512",
        SignatureScheme::ECDSA_NISTP521_SHA512 => "ecdsa_secp521r1_sha512",
        SignatureScheme::RSA_PSS_SHA256 => "rsa_pss_rsae_sha256",
        SignatureScheme::RSA_PSS_SHA384 => "rsa_pss_rsae_sha384",
        SignatureScheme::RSA_PSS_SHA512 => "rsa_pss_rsae_sha512",
        SignatureScheme::ED25519 => "ed25519",
        SignatureScheme::ED448 => "ed448",
        _ => return None,
    })
}
