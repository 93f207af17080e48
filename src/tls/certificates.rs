//! The certificates of a server: those of its files, or those of a connection, whose names have variables.
//!
//! Mirrors `ngx_ssl_certificates` and `ngx_ssl_connection_certificate` (`event/ngx_event_openssl.c`).

use std::sync::Arc;

use rustls::{
    SignatureScheme,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::{
    notes,
    objects::Loader,
    ocsp::{self, Staple},
    pem,
    verify::Trust,
};
use crate::{
    common::clock,
    conf::model::{Pem, Ssl},
    vars::Template,
};

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) certified: Arc<CertifiedKey>,
    /// What it is called in messages.
    pub(super) name: String,
    /// What a responder says of it.
    pub(super) staple: Option<Arc<Staple>>,
}

impl From<CertifiedKey> for Own {
    fn from(certified: CertifiedKey) -> Self {
        Self {
            certified: Arc::new(certified),
            name: String::new(),
            staple: None,
        }
    }
}

/// Certificates with their keys; which of them a client gets depends on what signatures it knows. Of two with keys of one
/// kind the later counts.
#[derive(Debug)]
pub(super) struct Certificates(pub(super) Vec<Own>);

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        let fits = |scheme: &SignatureScheme| {
            let mut keys = self.0.iter().rev();
            keys.find(|own| own.certified.key.choose_scheme(&[*scheme]).is_some())
        };
        let own = offered.iter().find_map(fits).or(self.0.last())?;
        let signer = own.certified.key.choose_scheme(offered);
        notes::server_scheme(signer.map(|signer| signer.scheme()));
        // DIFFERS(stapling-wanted): rustls does not tell whether the client wants the statement.
        Some(match &own.staple {
            Some(staple) => staple.certificate(clock::wall().secs),
            None => own.certified.clone(),
        })
    }
}

/// The certificates of files; none where there are variables. The error is nginx's message.
pub(super) fn fixed(ssl: &Ssl, loader: &Loader<'_>) -> Result<Vec<Own>, String> {
    let mut keys = Vec::new();
    if ssl.is_dynamic() {
        return Ok(keys);
    }
    for (certificate, key) in ssl.certificates() {
        let (Some(certificate), Some(key)) = (certificate.as_literal(), key.as_literal()) else {
            continue;
        };
        let (certificate, key) = sources(ssl, certificate, key);
        let certified = loader.certified_key(&certificate, &key, &ssl.passwords)?;
        keys.push(Own {
            name: pem::name(&certificate),
            ..Own::from(certified)
        });
    }
    Ok(keys)
}

/// Gives certificates the statements that `ssl_stapling` asks for, or a way to them; `now` is in seconds of the day's clock.
/// What comes back are nginx's warnings about those that get none; the error is its message.
pub(super) fn staple(
    keys: &mut [Own],
    ssl: &Ssl,
    trust: &Arc<Trust>,
    now: i64,
) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    if !ssl.stapling {
        return Ok(warnings);
    }
    for own in keys {
        if let Some(path) = &ssl.stapling_file {
            let mut stapled = (*own.certified).clone();
            stapled.ocsp = Some(ocsp::from_file(path)?);
            own.certified = Arc::new(stapled);
            continue;
        }
        match ocsp::staple(ssl, &own.certified, own.name.clone(), trust, now) {
            Ok(staple) => own.staple = Some(Arc::new(staple)),
            Err(warning) => warnings.push(warning),
        }
    }
    Ok(warnings)
}

/// What a certificate and its key are called, with variables replaced.
pub(super) fn sources(ssl: &Ssl, certificate: &[u8], key: &[u8]) -> (Pem, Pem) {
    let certificate = Pem::new(certificate, &ssl.directory);
    (certificate, Pem::key(key, &ssl.directory))
}

/// Names of certificates and keys with variables replaced, `render`ed one after the other.
pub fn rendered(
    ssl: &Ssl,
    mut render: impl FnMut(&Template) -> Vec<u8>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = ssl.certificates();
    pairs
        .map(|(certificate, key)| (render(certificate), render(key)))
        .collect()
}
