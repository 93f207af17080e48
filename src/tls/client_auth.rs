//! Certificates of clients: they are asked for in the handshake, and judged after it, so that a request can be answered.
//!
//! Mirrors `ngx_ssl_client_certificate`, and `ngx_ssl_verify_callback`, which lets every handshake go on.

use std::{fmt, path::PathBuf, sync::Arc};

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, aws_lc_rs::default_provider},
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use x509_parser::parse_x509_certificate;

use super::{
    notes,
    objects::Loader,
    ocsp::{Cache, Clients, Doubt},
    verify::{Purpose, Trust, VerifyError, verify_tls12, verify_tls13},
};
use crate::conf::model::{Ssl, VerifyClient};

/// Whom a server trusts.
pub(super) struct Authorities {
    /// Of these clients are told.
    told: Vec<CertificateDer<'static>>,
    pub(super) trust: Arc<Trust>,
}

impl Authorities {
    /// Reads them. The error is nginx's message.
    pub(super) fn new(ssl: &Ssl, loader: &Loader<'_>) -> Result<Self, String> {
        let read = |path: Option<&PathBuf>| match path {
            Some(path) => loader.authorities(path, Purpose::Client),
            None => Ok(Vec::new()),
        };
        let asked = ssl.verify_client != VerifyClient::Off;
        let told = read(ssl.client_certificate.as_ref().filter(|_| asked))?;
        let others = read(ssl.trusted_certificate.as_ref())?;
        let lists = ssl
            .crl
            .as_ref()
            .map(|path| loader.lists(path))
            .transpose()?;
        let all = [told.clone(), others].concat();
        Ok(Self {
            told,
            trust: Arc::new(Trust::new(all, lists, ssl.verify_depth)),
        })
    }
}

/// What a server wants to see of its clients.
#[derive(Debug)]
pub(super) struct ClientAuth {
    pub(super) trust: Arc<Trust>,
    pub(super) ocsp: Option<Clients>,
}

/// What became of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is none.
    None,
    /// It is good.
    Good,
    /// It is not.
    Bad(VerifyError),
    /// It is, but that it is not revoked is not certain.
    Doubtful(Doubt),
}

impl ClientAuth {
    /// None: nothing is asked of clients. `statuses` is what is known of their certificates. The error is nginx's message.
    pub(super) fn new(
        ssl: &Ssl,
        authorities: &Authorities,
        statuses: Option<Arc<Cache>>,
    ) -> Result<Option<(Self, AnyClient)>, String> {
        if ssl.verify_client == VerifyClient::Off {
            return Ok(None);
        }
        let hints = authorities.told.iter().filter_map(|der| {
            let (_, x509) = parse_x509_certificate(der).ok()?;
            Some(DistinguishedName::from(x509.subject().as_raw().to_vec()))
        });
        let mut hints: Vec<DistinguishedName> = hints.collect();
        hints.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
        hints.dedup_by(|one, other| one.as_ref() == other.as_ref());
        let auth = Self {
            trust: authorities.trust.clone(),
            ocsp: Clients::new(ssl, statuses)?,
        };
        let known = default_provider().signature_verification_algorithms;
        Ok(Some((auth, AnyClient { hints, known })))
    }

    /// Judges what a client has shown; `now` is in seconds of the day's clock.
    pub(super) fn judge(&self, shown: Option<&[CertificateDer<'_>]>, now: i64) -> Verdict {
        let shown = shown.unwrap_or_default();
        if shown.is_empty() {
            return Verdict::None;
        }
        match self.trust.verify(shown, Purpose::Client, now) {
            Ok(()) => Verdict::Good,
            Err(error) => Verdict::Bad(error),
        }
    }
}

impl Verdict {
    /// Whether a server with this mode goes on after it. The mode is that of the server that answers, which need not be the
    /// one whose settings the handshake had.
    pub fn passes(self, mode: VerifyClient) -> bool {
        match (self, mode) {
            (_, VerifyClient::Off) | (Self::Good, _) => true,
            (Self::None, mode) => mode != VerifyClient::On,
            (Self::Doubtful(_), _) => false,
            (Self::Bad(error), mode) => {
                mode == VerifyClient::OptionalNoCa && error.is_about_issuer()
            }
        }
    }
}

impl fmt::Display for Verdict {
    /// As nginx says of a certificate that it refuses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BAD: &str = "client SSL certificate verify error: ";
        match self {
            Self::None | Self::Good => f.write_str("client sent no required SSL certificate"),
            Self::Bad(error) => write!(f, "{BAD}{error}"),
            Self::Doubtful(doubt) => write!(f, "{BAD}{}", doubt.text()),
        }
    }
}

/// Asks for a certificate and takes any, if only the client has its key.
#[derive(Debug)]
pub(super) struct AnyClient {
    hints: Vec<DistinguishedName>,
    known: WebPkiSupportedAlgorithms,
}

impl AnyClient {
    /// The authorities that clients are told of.
    pub(super) fn told(&self) -> &[DistinguishedName] {
        &self.hints
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        notes::client_scheme(signed.scheme);
        verify_tls12(&self.known, message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        notes::client_scheme(signed.scheme);
        verify_tls13(&self.known, message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.known.supported_schemes()
    }
}
