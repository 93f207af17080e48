//! Whether the other side of a handshake has the key of its certificate.
//!
//! The key is taken as it stands in the certificate, whatever else does: webpki would refuse old forms of certificates
//! that OpenSSL takes, such as those of version 1.

use rustls::{
    CertificateError, DigitallySignedStruct, Error,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, SubjectPublicKeyInfoDer},
};
use x509_parser::parse_x509_certificate;

use super::cert::split_key;

/// For TLS 1.3.
pub(in crate::tls) fn verify_tls13(
    known: &WebPkiSupportedAlgorithms,
    message: &[u8],
    cert: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let (_, x509) = parse_x509_certificate(cert).map_err(|_| CertificateError::BadEncoding)?;
    let key = SubjectPublicKeyInfoDer::from(x509.public_key().raw);
    verify_tls13_signature_with_raw_key(message, &key, signed, known)
}

/// For TLS 1.2, where a scheme leaves the curve open.
pub(in crate::tls) fn verify_tls12(
    known: &WebPkiSupportedAlgorithms,
    message: &[u8],
    cert: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let (_, x509) = parse_x509_certificate(cert).map_err(|_| CertificateError::BadEncoding)?;
    let (algorithm, key) = split_key(x509.public_key().raw).ok_or(CertificateError::BadEncoding)?;
    let mut schemes = known.mapping.iter();
    let found = schemes.find(|(scheme, _)| *scheme == signed.scheme);
    let (_, candidates) = found.ok_or(CertificateError::BadSignature)?;
    let mut fitting = candidates
        .iter()
        .filter(|candidate| candidate.public_key_alg_id().as_ref() == algorithm);
    if fitting.any(|candidate| {
        candidate
            .verify_signature(key, message, signed.signature())
            .is_ok()
    }) {
        return Ok(HandshakeSignatureValid::assertion());
    }
    Err(CertificateError::BadSignature.into())
}
