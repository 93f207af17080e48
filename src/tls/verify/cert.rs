//! A certificate as verification sees it: what `ossl_x509v3_cache_extensions` and its readers say of one.

use rustls::{crypto::WebPkiSupportedAlgorithms, pki_types::AlgorithmIdentifier};
use x509_parser::{
    asn1_rs::{Any, FromDer, Oid, Tag},
    certificate::X509Certificate,
    extensions::{ExtendedKeyUsage, GeneralName, KeyUsage, ParsedExtension, X509Extension},
    parse_x509_certificate,
    public_key::PublicKey,
    x509::{SubjectPublicKeyInfo, X509Name},
};

use super::Purpose;

/// A certificate that was read.
#[derive(Debug)]
pub(super) struct Cert<'a> {
    /// Its encoding.
    pub(super) der: &'a [u8],
    /// Its fields.
    pub(super) x509: X509Certificate<'a>,
    /// Its subject in canonical form.
    pub(super) subject: Vec<u8>,
    /// Its issuer likewise.
    pub(super) issuer: Vec<u8>,
}

/// Whether a certificate may issue others (`X509_check_ca`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authority {
    /// No.
    No,
    /// Its basic constraints say so.
    Yes,
    /// It may as a trusted one: older forms than basic constraints.
    Old,
}

/// Extensions that OpenSSL knows, so that they may be critical; OIDs.
const KNOWN: [&str; 15] = [
    "2.5.29.15",
    "2.5.29.17",
    "2.5.29.19",
    "2.5.29.30",
    "2.5.29.31",
    "2.5.29.32",
    "2.5.29.33",
    "2.5.29.36",
    "2.5.29.37",
    "2.5.29.54",
    "2.16.840.1.113730.1.1",
    "1.3.6.1.5.5.7.1.7",
    "1.3.6.1.5.5.7.1.8",
    "1.3.6.1.5.5.7.1.14",
    "1.3.6.1.5.5.7.48.1.5",
];

impl<'a> Cert<'a> {
    pub(super) fn parse(der: &'a [u8]) -> Option<Self> {
        let (_, x509) = parse_x509_certificate(der).ok()?;
        Some(Self {
            der,
            subject: canonical(x509.subject()),
            issuer: canonical(x509.issuer()),
            x509,
        })
    }

    /// Whether it may have issued `subject`, as far as names and identifiers go (`ossl_x509_likely_issued`).
    pub(super) fn may_issue(&self, subject: &Cert<'_>) -> bool {
        self.subject == subject.issuer && self.has_identifiers_of(subject) && self.can_sign(subject)
    }

    /// `X509_check_akid`
    fn has_identifiers_of(&self, subject: &Cert<'_>) -> bool {
        let find = |extension: &ParsedExtension<'a>| match extension {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
            _ => None,
        };
        let own = self.extensions().find_map(find);
        for extension in subject.extensions() {
            let ParsedExtension::AuthorityKeyIdentifier(wanted) = extension else {
                continue;
            };
            if let (Some(wanted), Some(own)) = (&wanted.key_identifier, own)
                && wanted.0 != own
            {
                return false;
            }
            if let Some(serial) = wanted.authority_cert_serial
                && serial != self.x509.raw_serial()
            {
                return false;
            }
        }
        true
    }

    /// Whether the kind of its key is that of the signature of `subject`.
    fn can_sign(&self, subject: &Cert<'_>) -> bool {
        let key = self.x509.public_key().algorithm.algorithm.to_id_string();
        let signature = subject.x509.signature_algorithm.algorithm.to_id_string();
        match &*key {
            RSA | RSA_PSS => signature.starts_with("1.2.840.113549.1.1."),
            "1.2.840.10045.2.1" => signature.starts_with("1.2.840.10045.4."),
            _ => key == signature,
        }
    }

    pub(super) fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// `EXFLAG_SS`
    pub(super) fn is_self_signed(&self) -> bool {
        self.may_issue(self)
    }

    fn extensions(&self) -> impl Iterator<Item = &ParsedExtension<'a>> {
        let extensions = self.x509.extensions().iter();
        extensions.map(X509Extension::parsed_extension)
    }

    /// It has a critical extension that nobody here knows.
    pub(super) fn has_unknown_critical(&self) -> bool {
        let mut extensions = self.x509.extensions().iter();
        extensions.any(|extension| {
            extension.critical
                && (!KNOWN.contains(&&*extension.oid.to_id_string())
                    || extension.parsed_extension().error().is_some())
        })
    }

    pub(super) fn key_usage(&self) -> Option<KeyUsage> {
        self.extensions().find_map(|extension| match extension {
            ParsedExtension::KeyUsage(usage) => Some(*usage),
            _ => None,
        })
    }

    fn extended_usage(&self) -> Option<&ExtendedKeyUsage<'a>> {
        self.extensions().find_map(|extension| match extension {
            ParsedExtension::ExtendedKeyUsage(usage) => Some(usage),
            _ => None,
        })
    }

    /// Whether its key may sign certificates, as far as the key's usage goes.
    pub(super) fn may_sign_certificates(&self) -> bool {
        self.key_usage().is_none_or(|usage| usage.key_cert_sign())
    }

    /// `X509_check_ca`
    pub(super) fn authority(&self) -> Authority {
        if !self.may_sign_certificates() {
            return Authority::No;
        }
        let mut constraints = self.extensions().filter_map(|extension| match extension {
            ParsedExtension::BasicConstraints(constraints) => Some(constraints.ca),
            _ => None,
        });
        match constraints.next() {
            Some(true) => Authority::Yes,
            None if self.key_usage().is_some()
                || (self.x509.version().0 == 0 && self.is_self_signed()) =>
            {
                Authority::Old
            }
            _ => Authority::No,
        }
    }

    /// How many certificates of authorities may follow below it.
    pub(super) fn path_length(&self) -> Option<u32> {
        self.extensions().find_map(|extension| match extension {
            ParsedExtension::BasicConstraints(constraints) => constraints.path_len_constraint,
            _ => None,
        })
    }

    /// `X509_check_purpose`
    pub(super) fn suits(&self, purpose: Purpose, as_authority: bool) -> bool {
        if purpose == Purpose::Responder {
            // Whether it may answer is looked at with what it answers.
            return !as_authority || self.authority() != Authority::No;
        }
        if let Some(usage) = self.extended_usage() {
            // Step-up of Netscape's and Microsoft's counted as a server's.
            let step_up = || {
                let other = usage.other.iter();
                let mut names = other.map(Oid::to_id_string);
                names.any(|name| SERVER_GATED.contains(&&*name))
            };
            let has = match purpose {
                Purpose::Server => usage.server_auth || step_up(),
                Purpose::Client => usage.client_auth,
                Purpose::Responder => true,
            };
            if !has {
                return false;
            }
        }
        if as_authority {
            return self.authority() != Authority::No;
        }
        self.key_usage().is_none_or(|usage| match purpose {
            Purpose::Server => {
                usage.digital_signature() || usage.key_encipherment() || usage.key_agreement()
            }
            Purpose::Client => usage.digital_signature() || usage.key_agreement(),
            Purpose::Responder => true,
        })
    }

    /// Whether it may answer for the authority that has issued it (RFC 6960, section 4.2.2.2).
    pub(super) fn may_tell_status(&self) -> bool {
        self.extended_usage()
            .is_some_and(|usage| usage.ocsp_signing)
    }

    /// Whether it is good until it ends (`id-pkix-ocsp-nocheck`).
    pub(super) fn needs_no_status(&self) -> bool {
        let mut extensions = self.x509.extensions().iter();
        extensions.any(|extension| extension.oid.to_id_string() == "1.3.6.1.5.5.7.48.1.5")
    }

    /// The first URL at which its status can be asked (`X509_get1_ocsp`).
    pub(super) fn responder(&self) -> Option<&'a str> {
        let access = self.extensions().find_map(|extension| match extension {
            ParsedExtension::AuthorityInfoAccess(access) => Some(access),
            _ => None,
        })?;
        access.iter().find_map(|place| match place.access_location {
            GeneralName::URI(url) if place.access_method.to_id_string() == OCSP => Some(url),
            _ => None,
        })
    }

    /// The bytes of its key, without what kind it is.
    pub(super) fn key(&self) -> Option<&[u8]> {
        split_key(self.x509.public_key().raw).map(|(_, key)| key)
    }

    /// Whether the key is as strong as OpenSSL's second level of security asks for.
    pub(super) fn has_strong_key(&self) -> bool {
        match self.x509.public_key().parsed() {
            Ok(PublicKey::RSA(key)) => key.key_size() >= 2048,
            _ => true,
        }
    }

    /// Likewise for the digest that was signed.
    pub(super) fn has_strong_digest(&self) -> bool {
        !WEAK_DIGESTS.contains(&&*self.x509.signature_algorithm.algorithm.to_id_string())
    }

    /// Whether the key of `issuer` has made its signature.
    pub(super) fn is_signed_by(
        &self,
        issuer: &Cert<'_>,
        known: &WebPkiSupportedAlgorithms,
    ) -> bool {
        self.x509.signature_algorithm == self.x509.tbs_certificate.signature
            && is_signed(
                self.der,
                self.x509.tbs_certificate.as_ref(),
                issuer.x509.public_key(),
                known,
            )
    }

    /// The certificate is not good yet (9), or not any more (10).
    pub(super) fn time_error(&self, now: i64) -> Option<u16> {
        let validity = self.x509.validity();
        if validity.not_before.timestamp() > now {
            Some(super::NOT_YET_VALID)
        } else {
            (validity.not_after.timestamp() <= now).then_some(super::EXPIRED)
        }
    }
}

/// The access method of responders.
const OCSP: &str = "1.3.6.1.5.5.7.48.1";
const RSA: &str = "1.2.840.113549.1.1.1";
const RSA_PSS: &str = "1.2.840.113549.1.1.10";
const SERVER_GATED: [&str; 2] = ["1.3.6.1.4.1.311.10.3.3", "2.16.840.1.113730.4.1"];
/// MD2, MD5 and SHA-1, with RSA and ECDSA.
const WEAK_DIGESTS: [&str; 4] = [
    "1.2.840.113549.1.1.2",
    "1.2.840.113549.1.1.4",
    "1.2.840.113549.1.1.5",
    "1.2.840.10045.4.1",
];

/// Whether `key` has signed `content`, which is the first part of `whole`: its signature is behind.
pub(super) fn is_signed(
    whole: &[u8],
    content: &[u8],
    key: &SubjectPublicKeyInfo<'_>,
    known: &WebPkiSupportedAlgorithms,
) -> bool {
    let Some((algorithm, signature)) = behind(whole, content) else {
        return false;
    };
    let Some((key_algorithm, key)) = split_key(key.raw) else {
        return false;
    };
    let mut fitting = known.all.iter().filter(|known| {
        is(known.signature_alg_id(), algorithm) && is(known.public_key_alg_id(), key_algorithm)
    });
    fitting.any(|known| known.verify_signature(key, content, signature).is_ok())
}

fn is(id: AlgorithmIdentifier, der: &[u8]) -> bool {
    id.as_ref() == der
}

/// The identifier of a public key's algorithm and the key itself.
pub(super) fn split_key(raw: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, whole) = Any::from_der(raw).ok()?;
    let (rest, algorithm) = Any::from_der(whole.data).ok()?;
    let (_, key) = Any::from_der(rest).ok()?;
    Some((algorithm.data, bits(&key)?))
}

/// The identifier of a signature's algorithm and the signature, which stand behind what was signed.
fn behind<'a>(whole: &'a [u8], content: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (_, whole) = Any::from_der(whole).ok()?;
    let rest = whole.data.strip_prefix(content)?;
    let (rest, algorithm) = Any::from_der(rest).ok()?;
    let (_, signature) = Any::from_der(rest).ok()?;
    Some((algorithm.data, bits(&signature)?))
}

/// A string of bits that are whole bytes.
fn bits<'a>(any: &Any<'a>) -> Option<&'a [u8]> {
    match any.data.split_first() {
        Some((0, bytes)) if any.tag() == Tag::BitString => Some(bytes),
        _ => None,
    }
}

/// A name in a form in which equal names are equal bytes (`X509_NAME_cmp`): letters are lower case, spaces single.
pub(super) fn canonical(name: &X509Name<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for set in name.iter() {
        out.push(b'/');
        for attribute in set.iter() {
            let value = attribute.attr_value();
            let text = match value.tag() {
                Tag::Utf8String
                | Tag::PrintableString
                | Tag::Ia5String
                | Tag::TeletexString
                | Tag::VisibleString => Some(squeeze(value.data)),
                _ => None,
            };
            let kind = if text.is_some() { 0 } else { value.tag().0 };
            let text = text.unwrap_or_else(|| value.data.to_vec());
            for part in [attribute.attr_type().as_bytes(), &kind.to_be_bytes(), &text] {
                out.extend_from_slice(&part.len().to_be_bytes());
                out.extend_from_slice(part);
            }
        }
    }
    out
}

fn squeeze(text: &[u8]) -> Vec<u8> {
    let words = text.split(u8::is_ascii_whitespace);
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join(&b' ').to_ascii_lowercase()
}
