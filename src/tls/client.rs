//! What proxies need for handshakes with upstreams: one context for each block of `proxy_ssl_*` settings.
//!
//! Mirrors `ngx_http_proxy_set_ssl`, `ngx_stream_proxy_set_ssl` and what `ngx_http_upstream_ssl_init_connection` and
//! `ngx_http_upstream_ssl_handshake` do with an `SSL`. rustls is told to take any certificate: whether it is a good one is
//! decided after the handshake, where nginx decides it.

use std::{fmt, num::NonZeroUsize, sync::Arc};

use aws_lc_rs::digest::{Context, SHA256};
use lru::LruCache;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateDer, DnsName, ServerName, UnixTime},
    sign::{CertifiedKey, SingleCertAndKey},
};
use x509_parser::parse_x509_certificate;

use super::{
    cache::Cache,
    objects::{self, Loader},
    server,
    verify::{self, Purpose, Trust, VerifyError},
};
use crate::conf::model::{Pem, UpstreamSsl};

/// What handshakes of one block of settings are made of.
pub struct ClientContext {
    base: ClientConfig,
    /// Certificate and key, when they have no variables.
    fixed: Option<Identity>,
    trust: Option<Trust>,
    /// Certificates and keys whose names have variables (`proxy_ssl_certificate_cache`).
    cache: Option<Arc<Cache>>,
    /// Upstreams are told the name (`proxy_ssl_server_name`).
    names: bool,
    /// Sessions are resumed (`proxy_ssl_session_reuse`).
    reuse: bool,
    /// With the sessions of each peer, and for each certificate.
    configs: std::sync::Mutex<LruCache<Place, Arc<ClientConfig>>>,
}

/// Whose sessions they are.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    peer: String,
    identity: Option<Fingerprint>,
}

/// Tells certificates with their keys apart.
pub type Fingerprint = [u8; 32];

/// A certificate that is shown to upstreams, and its key.
#[derive(Clone)]
pub struct Identity {
    /// What it is told by.
    pub fingerprint: Fingerprint,
    certified: Arc<CertifiedKey>,
}

impl Identity {
    fn new(certified: CertifiedKey) -> Self {
        let mut digest = Context::new(&SHA256);
        for der in &certified.cert {
            digest.update(&der.len().to_be_bytes());
            digest.update(der);
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest.finish().as_ref());
        Self {
            fingerprint,
            certified: Arc::new(certified),
        }
    }
}

fn sources(ssl: &UpstreamSsl, certificate: &[u8], key: &[u8]) -> (Pem, Pem) {
    let certificate = Pem::new(certificate, &ssl.directory);
    (certificate, Pem::key(key, &ssl.directory))
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

impl fmt::Debug for ClientContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientContext")
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

/// Why a peer is not who it should be. The display is nginx's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistrust {
    /// Its certificate is not to be trusted.
    Chain(VerifyError),
    /// It is for somebody else than this host.
    Name(Vec<u8>),
}

impl fmt::Display for Mistrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(error) => write!(f, "upstream SSL certificate verify error: {error}"),
            Self::Name(name) => {
                let name = name.escape_ascii();
                write!(f, "upstream SSL certificate does not match \"{name}\"")
            }
        }
    }
}

/// How many peers have their sessions kept by one context.
const PEERS: NonZeroUsize = NonZeroUsize::new(512).expect("it is not zero");
/// Room for the sessions of a peer; rustls keeps eight for each name.
const SESSIONS: usize = 32;

impl ClientContext {
    /// Loads everything that the settings name. The error is nginx's message.
    pub(super) fn new(
        ssl: &UpstreamSsl,
        cache: Option<Arc<Cache>>,
        loader: &Loader<'_>,
    ) -> Result<Self, String> {
        let provider = server::provider(
            &ssl.ciphers,
            ssl.ciphersuites.as_deref(),
            &ssl.ecdh_curve,
            ssl.protocols,
        )?;
        let known = provider.signature_verification_algorithms;
        let base = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&server::versions(ssl.protocols)?)
            .map_err(|error| format!("SSL_CTX_new() failed (SSL: {error})"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(known)))
            .with_no_client_auth();
        let texts = ssl
            .certificates()
            .filter(|(certificate, _)| !certificate.is_empty());
        let fixed = match texts.and_then(|(a, b)| Some((a.as_literal()?, b.as_literal()?))) {
            None => None,
            Some((certificate, key)) => {
                let (certificate, key) = sources(ssl, certificate, key);
                let certified = loader.certified_key(&certificate, &key, &ssl.passwords)?;
                Some(Identity::new(certified))
            }
        };
        Ok(Self {
            base,
            fixed,
            trust: trust(ssl, loader)?,
            cache,
            names: ssl.server_name,
            reuse: ssl.session_reuse,
            configs: LruCache::new(PEERS).into(),
        })
    }

    /// A certificate and its key as their texts, with variables replaced, name them; `now` is in seconds of the day's
    /// clock. The error is nginx's message.
    pub fn identity(
        &self,
        ssl: &UpstreamSsl,
        (certificate, key): (&[u8], &[u8]),
        now: i64,
    ) -> Result<Identity, String> {
        let (certificate, key) = sources(ssl, certificate, key);
        let certified = match &self.cache {
            None => objects::certified_key(&certificate, &key, &ssl.passwords),
            Some(cache) => cache.certified_key(&certificate, &key, &ssl.passwords, now),
        };
        certified.map(Identity::new)
    }

    /// Whether the name of the host matters at all.
    pub fn needs_name(&self) -> bool {
        self.names || self.trust.is_some()
    }

    /// Begins a handshake, in which the peer is told `name` if it is to be told; `peer` is what its sessions are kept by.
    /// `identity` is the certificate of this connection, when it has variables.
    pub fn connect(
        &self,
        peer: String,
        name: &[u8],
        identity: Option<&Identity>,
        alpn: Vec<Vec<u8>>,
    ) -> Result<ClientConnection, Error> {
        let told = self.told(name).unwrap_or_else(nobody);
        ClientConnection::new_with_alpn(self.config(peer, identity), told, alpn)
    }

    /// The name that upstreams are told: no address, and only if they are told any.
    fn told(&self, name: &[u8]) -> Option<ServerName<'static>> {
        let text = std::str::from_utf8(name).ok().filter(|_| self.names)?;
        if text.parse::<std::net::Ipv4Addr>().is_ok() {
            return None;
        }
        // DIFFERS(sni-case): rustls tells it in lower case.
        let name = DnsName::try_from(text.to_owned()).ok()?;
        Some(ServerName::DnsName(name))
    }

    fn config(&self, peer: String, identity: Option<&Identity>) -> Arc<ClientConfig> {
        let identity = identity.or(self.fixed.as_ref());
        let place = Place {
            peer,
            identity: identity.map(|identity| identity.fingerprint),
        };
        let mut configs = self
            .configs
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let make = || {
            let mut config = self.base.clone();
            config.resumption = if self.reuse {
                Resumption::in_memory_sessions(SESSIONS)
            } else {
                Resumption::disabled()
            };
            if let Some(identity) = identity {
                let certified = CertifiedKey::clone(&identity.certified);
                config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
            }
            Arc::new(config)
        };
        configs.get_or_insert(place, make).clone()
    }

    /// Whether the peer is who it should be (`proxy_ssl_verify`), with a resumed session too; `now` is in seconds of the
    /// day's clock.
    pub fn check(
        &self,
        session: &rustls::Connection,
        name: &[u8],
        now: i64,
    ) -> Result<(), Mistrust> {
        let Some(trust) = &self.trust else {
            return Ok(());
        };
        // DIFFERS(tls-sessions): nginx believes what was found when the session began, by whomever.
        let shown = session.peer_certificates().unwrap_or_default();
        trust
            .verify(shown, Purpose::Server, now)
            .map_err(Mistrust::Chain)?;
        match shown.first() {
            Some(own) if verify::is_for(own, name) => Ok(()),
            _ => Err(Mistrust::Name(name.to_vec())),
        }
    }
}

/// Whether one context does for both settings, so that sessions and connections are shared.
pub(super) fn is_alike(a: &UpstreamSsl, b: &UpstreamSsl) -> bool {
    a.server_name == b.server_name
        && a.verify == b.verify
        && a.verify_depth == b.verify_depth
        && a.trusted_certificate == b.trusted_certificate
        && a.crl == b.crl
        && a.certificate == b.certificate
        && a.certificate_key == b.certificate_key
        && a.certificate_cache == b.certificate_cache
        && a.passwords == b.passwords
        && a.protocols == b.protocols
        && a.ciphers == b.ciphers
        && a.session_reuse == b.session_reuse
        && a.conf_commands == b.conf_commands
        && a.ciphersuites == b.ciphersuites
        && a.ecdh_curve == b.ecdh_curve
        && a.directory == b.directory
}

/// Stands where no name is told: addresses never are.
fn nobody() -> ServerName<'static> {
    ServerName::from(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))
}

fn trust(ssl: &UpstreamSsl, loader: &Loader<'_>) -> Result<Option<Trust>, String> {
    let Some(path) = ssl.trusted_certificate.as_ref().filter(|_| ssl.verify) else {
        return Ok(None);
    };
    let authorities = loader.authorities(path, Purpose::Server)?;
    let lists = ssl
        .crl
        .as_ref()
        .map(|path| loader.lists(path))
        .transpose()?;
    Ok(Some(Trust::new(authorities, lists, ssl.verify_depth)))
}

/// A name without the port that may stand behind it.
pub fn without_port(name: &[u8]) -> &[u8] {
    let skip = match name.first() {
        Some(b'[') => memchr::memchr(b']', name).unwrap_or(0),
        _ => 0,
    };
    let colon = memchr::memchr(b':', &name[skip..]);
    colon.map_or(name, |colon| &name[..skip + colon])
}

/// Takes any certificate, and looks only at whether the peer has its key.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match parse_x509_certificate(end_entity) {
            Ok(_) => Ok(ServerCertVerified::assertion()),
            Err(_) => Err(rustls::CertificateError::BadEncoding.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify::verify_tls12(&self.0, message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify::verify_tls13(&self.0, message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_cut_off() {
        for (name, host) in [
            ("example.com:8080", "example.com"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("[::1", "["),
            ("unix:/s", "unix"),
            ("", ""),
        ] {
            assert_eq!(without_port(name.as_bytes()), host.as_bytes(), "{name}");
        }
    }
}
