//! Certificates with what they are to be trusted for (`BEGIN TRUSTED CERTIFICATE`), as `openssl x509 -trustout` makes them.
//!
//! Mirrors `X509_CERT_AUX` and `obj_trust` of OpenSSL. Behind the certificate stands a sequence: what it is trusted for, in a
//! field with the tag 0 what it is not, and names, which mean nothing here.

use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

use super::verify::Purpose;

/// A certificate without what stands behind it; None when it is none.
pub(super) fn bare(bytes: &[u8]) -> Option<CertificateDer<'static>> {
    let (rest, _) = parse_x509_certificate(bytes).ok()?;
    let own = bytes.len().checked_sub(rest.len())?;
    Some(bytes.get(..own)?.to_vec().into())
}

/// Whether an authority may be trusted for `purpose`, as far as what stands behind its certificate says.
// DIFFERS(trusted-purpose): one that may not is as if it were not there; OpenSSL has a verdict of its own for it.
pub(super) fn is_for(bytes: &[u8], purpose: Purpose) -> bool {
    let Ok((behind, _)) = parse_x509_certificate(bytes) else {
        return false;
    };
    let Some((SEQUENCE, mut fields, _)) = field(behind) else {
        return true;
    };
    let own: &[u8] = match purpose {
        Purpose::Server => &SERVER,
        Purpose::Client => &CLIENT,
        Purpose::Responder => &RESPONDER,
    };
    let mut answer = true;
    while let Some((tag, mut list, rest)) = field(fields) {
        let mut is_named = false;
        while let Some((_, id, others)) = field(list) {
            is_named |= id == own || id == ANY;
            list = others;
        }
        match tag {
            SEQUENCE => answer &= is_named,
            REJECTED => answer &= !is_named,
            _ => {}
        }
        fields = rest;
    }
    answer
}

/// A field of DER: its tag, its content, and what follows.
fn field(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => {
            let (length, rest) = rest.split_first()?;
            (usize::from(*length), rest)
        }
        0x82 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

const SEQUENCE: u8 = 0x30;
const REJECTED: u8 = 0xa0;
/// `id-kp-serverAuth`, `id-kp-clientAuth` and `id-kp-OCSPSigning` of RFC 5280, and `anyExtendedKeyUsage`.
const SERVER: [u8; 8] = [0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT: [u8; 8] = [0x2b, 6, 1, 5, 5, 7, 3, 2];
const RESPONDER: [u8; 8] = [0x2b, 6, 1, 5, 5, 7, 3, 9];
const ANY: &[u8] = &[0x55, 0x1d, 0x25, 0];

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// What `openssl x509 -addtrust clientAuth -addreject serverAuth` and the like put behind a certificate.
    #[test]
    fn what_stands_behind_counts() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tls/ca.crt");
        let own = CertificateDer::from_pem_file(path).unwrap();
        let list = |tag: u8, id: &[u8]| {
            let length = u8::try_from(id.len()).unwrap();
            [&[tag, length + 2, 6, length][..], id].concat()
        };
        let behind = |fields: &[u8]| {
            let length = u8::try_from(fields.len()).unwrap();
            [&own[..], &[SEQUENCE, length], fields].concat()
        };
        let answers = |bytes: &[u8]| {
            assert_eq!(bare(bytes).as_ref(), Some(&own));
            [Purpose::Server, Purpose::Client].map(|purpose| is_for(bytes, purpose))
        };
        assert_eq!(answers(&own), [true, true]);
        assert_eq!(answers(&behind(&[])), [true, true]);
        assert_eq!(answers(&behind(&list(SEQUENCE, &CLIENT))), [false, true]);
        assert_eq!(answers(&behind(&list(SEQUENCE, ANY))), [true, true]);
        assert_eq!(answers(&behind(&list(REJECTED, &SERVER))), [false, true]);
        let alias = [0x0c, 1, b'x'];
        let both = [list(SEQUENCE, &SERVER), alias.to_vec()].concat();
        assert_eq!(answers(&behind(&both)), [true, false]);
        assert_eq!(bare(&own[1..]), None);
    }
}
