//! The certificates of a server: those of its files, or those of a connection, whose names have variables.
//!
//! Mirrors `ngx_ssl_certificates` and `ngx_ssl_connection_certificate` (`event/ngx_event_openssl.c`).

use std::sync::Arc;

use rustls::{
    SignatureScheme,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::{notes, objects::Loader};
use crate::{
    conf::model::{Pem, Ssl},
    vars::Template,
};

/// Certificates with their keys; which of them a client gets depends on what signatures it knows. Of two with keys of one
/// kind the later counts.
#[derive(Debug)]
pub(super) struct Certificates(pub(super) Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        let fits = |scheme: &SignatureScheme| {
            let mut keys = self.0.iter().rev();
            keys.find(|certified| certified.key.choose_scheme(&[*scheme]).is_some())
        };
        let found = offered.iter().find_map(fits).or(self.0.last()).cloned();
        let signer = found
            .as_ref()
            .and_then(|own| own.key.choose_scheme(offered));
        notes::server_scheme(signer.map(|signer| signer.scheme()));
        found
    }
}

/// The certificates of files; none where there are variables. The error is nginx's message.
pub(super) fn fixed(ssl: &Ssl, loader: &Loader<'_>) -> Result<Vec<Arc<CertifiedKey>>, String> {
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
        keys.push(Arc::new(certified));
    }
    Ok(keys)
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
