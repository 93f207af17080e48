//! What a responder says of a certificate, and whether it may say so.
//!
//! Mirrors `ngx_ssl_ocsp_verify` (`event/ngx_event_openssl_stapling.c`) and, of OpenSSL 3, `OCSP_basic_verify` and
//! `OCSP_check_validity` (`crypto/ocsp`), with their words.

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use der::{Decode, Encode, ErrorKind, asn1::OctetString, oid::ObjectIdentifier};
use rustls::pki_types::CertificateDer;
use x509_ocsp::{
    BasicOcspResponse, CertId, CertStatus as Said, OcspRequest, OcspResponse, OcspResponseStatus,
    Request, ResponderId, TbsRequest,
};
use x509_parser::{
    asn1_rs::{Any, FromDer},
    x509::X509Name,
};

use super::{
    Purpose, Trust,
    cert::{self, Cert},
};

/// What is known of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertStatus {
    /// It is not revoked.
    Good,
    /// It is.
    Revoked,
    /// Its issuer does not know it.
    Unknown,
}

impl CertStatus {
    /// OpenSSL's word (`OCSP_cert_status_str`).
    pub fn text(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Revoked => "revoked",
            Self::Unknown => "unknown",
        }
    }
}

/// What is asked about a certificate.
#[derive(Clone, Debug)]
pub(in crate::tls) struct Question {
    id: CertId,
    /// The request, DER.
    pub(in crate::tls) der: Vec<u8>,
}

/// Who may have signed an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tls) enum Signer {
    /// Anyone whose certificate is there (`OCSP_NOVERIFY`).
    Any,
    /// Anyone in the chain at hand, or who is trusted to tell (`OCSP_TRUSTOTHER`).
    InChain,
    /// Who is trusted to tell: the authority in question, or whom it lets tell.
    Trusted,
}

/// An answer that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tls) struct Told {
    pub(in crate::tls) status: CertStatus,
    /// Until when, seconds of the day's clock; None: nobody knows.
    pub(in crate::tls) until: Option<i64>,
}

/// How far clocks may be apart, seconds.
const SLACK: i64 = 300;
const BASIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");
/// The identifier of SHA-1 as OpenSSL writes it, with a null behind.
const SHA1: [u8; 11] = [0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0];

impl Question {
    /// About `cert`, which `issuer` has issued; None when these are no certificates as they have to be.
    pub(in crate::tls) fn new(
        cert: &CertificateDer<'_>,
        issuer: &CertificateDer<'_>,
    ) -> Option<Self> {
        let (cert, issuer) = (Cert::parse(cert)?, Cert::parse(issuer)?);
        let serial = cert.x509.raw_serial();
        let length = u8::try_from(serial.len())
            .ok()
            .filter(|length| *length < 0x80)?;
        let name = cert.x509.issuer().as_raw();
        let id = CertId {
            hash_algorithm: Decode::from_der(&SHA1).ok()?,
            issuer_name_hash: OctetString::new(hash(name)).ok()?,
            issuer_key_hash: OctetString::new(hash(issuer.key()?)).ok()?,
            serial_number: Decode::from_der(&[&[2, length], serial].concat()).ok()?,
        };
        let request = OcspRequest {
            tbs_request: TbsRequest {
                request_list: vec![Request {
                    req_cert: id.clone(),
                    single_request_extensions: None,
                }],
                ..TbsRequest::default()
            },
            optional_signature: None,
        };
        let der = request.to_der().ok()?;
        Some(Self { id, der })
    }

    /// What distinguishes it from others: the issuer and the number of the certificate.
    pub(in crate::tls) fn key(&self) -> Vec<u8> {
        let CertId {
            issuer_name_hash,
            issuer_key_hash,
            serial_number,
            ..
        } = &self.id;
        let parts = [issuer_name_hash.as_bytes(), issuer_key_hash.as_bytes()];
        [parts[0], parts[1], serial_number.as_bytes()].concat()
    }
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
}

/// The first URL at which the status of a certificate can be asked.
pub(in crate::tls) fn responder_url(cert: &CertificateDer<'_>) -> Option<String> {
    Cert::parse(cert)?.responder().map(str::to_owned)
}

/// The answer that `bytes` begin with. The error is what stands behind nginx's "failed".
pub(in crate::tls) fn response(bytes: &[u8]) -> Result<&[u8], String> {
    if bytes.is_empty() {
        return Err(String::new());
    }
    read(bytes).map(|(whole, _)| whole)
}

fn read(bytes: &[u8]) -> Result<(&[u8], OcspResponse), String> {
    let (rest, _) = Any::from_der(bytes).map_err(|_| NOT_ENOUGH.to_owned())?;
    let whole = &bytes[..bytes.len() - rest.len()];
    let response = OcspResponse::from_der(whole).map_err(asn1)?;
    Ok((whole, response))
}

const NOT_ENOUGH: &str = " (SSL: error:0680008E:asn1 encoding routines::not enough data)";
const WRONG_TAG: &str = " (SSL: error:068000A8:asn1 encoding routines::wrong tag)";

fn asn1(error: der::Error) -> String {
    match error.kind() {
        ErrorKind::Incomplete { .. } => NOT_ENOUGH.to_owned(),
        _ => WRONG_TAG.to_owned(),
    }
}

/// A failure of OpenSSL's part that is about OCSP.
fn failed(call: &str, reason: u8, text: &str) -> String {
    format!("{call}() failed (SSL: error:138000{reason:02X}:OCSP routines::{text})")
}

impl Trust {
    /// What `answer` says to `question`, if it counts. `chain` are certificates at hand beside those in the answer; `now` is
    /// in seconds of the day's clock. The error is nginx's message.
    pub(in crate::tls) fn hear(
        &self,
        answer: &[u8],
        question: &Question,
        (chain, signer): (&[CertificateDer<'_>], Signer),
        now: i64,
    ) -> Result<Told, String> {
        let (_, response) =
            read(answer).map_err(|why| format!("d2i_OCSP_RESPONSE() failed{why}"))?;
        if response.response_status != OcspResponseStatus::Successful {
            let (number, text) = refusal(response.response_status);
            return Err(format!("OCSP response not successful ({number}: {text})"));
        }
        let bytes = basic(response)?;
        let basic = BasicOcspResponse::from_der(&bytes)
            .map_err(|error| format!("OCSP_response_get1_basic() failed{}", asn1(error)))?;
        self.check_signer(&bytes, &basic, (chain, signer), now)?;
        let responses = &basic.tbs_response_data.responses;
        let single = responses
            .iter()
            .find(|single| single.cert_id == question.id)
            .ok_or("certificate status not found in the OCSP response")?;
        let seconds = |time: x509_ocsp::OcspGeneralizedTime| {
            i64::try_from(time.0.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
        };
        let until = single.next_update.map(seconds);
        check_times(seconds(single.this_update), until, now)?;
        Ok(Told {
            status: match single.cert_status {
                Said::Good(_) => CertStatus::Good,
                Said::Revoked(_) => CertStatus::Revoked,
                Said::Unknown(_) => CertStatus::Unknown,
            },
            until,
        })
    }

    /// `OCSP_basic_verify`
    fn check_signer(
        &self,
        bytes: &[u8],
        basic: &BasicOcspResponse,
        (chain, wanted): (&[CertificateDer<'_>], Signer),
        now: i64,
    ) -> Result<(), String> {
        let wrong = |reason, text: &str| failed("OCSP_basic_verify", reason, text);
        let own = basic.certs.iter().flatten();
        let own: Vec<CertificateDer<'_>> = own
            .filter_map(|cert| Some(cert.to_der().ok()?.into()))
            .collect();
        let responder = &basic.tbs_response_data.responder_id;
        let is_signer = |der: &&CertificateDer<'_>| {
            Cert::parse(der).is_some_and(|cert| is_named(&cert, responder))
        };
        let in_chain = chain.iter().find(is_signer);
        let signer = in_chain
            .or_else(|| own.iter().find(is_signer))
            .ok_or_else(|| wrong(0x76, "signer certificate not found"))?;
        if !self.has_signed(bytes, signer) {
            return Err(wrong(0x75, "signature failure"));
        }
        if wanted == Signer::Any || (wanted == Signer::InChain && in_chain.is_some()) {
            return Ok(());
        }
        let mut shown = vec![signer.as_ref().into()];
        let others = own.iter().chain(chain).map(|der| der.as_ref().into());
        shown.extend(others);
        let chain = self
            .check(&shown, Purpose::Responder, now)
            .map_err(|error| {
                let text = error.text();
                wrong(
                    0x65,
                    &format!("certificate verify error:Verify error: {text}"),
                )
            })?;
        may_tell(&chain, basic).map_err(|(reason, text)| wrong(reason, text))
    }

    fn has_signed(&self, bytes: &[u8], signer: &CertificateDer<'_>) -> bool {
        let content = || {
            let (_, whole) = Any::from_der(bytes).ok()?;
            let (rest, _) = Any::from_der(whole.data).ok()?;
            Some(&whole.data[..whole.data.len() - rest.len()])
        };
        let parts = Cert::parse(signer).zip(content());
        parts.is_some_and(|(signer, content)| {
            cert::is_signed(bytes, content, signer.x509.public_key(), &self.known)
        })
    }
}

fn refusal(status: OcspResponseStatus) -> (u8, &'static str) {
    match status {
        OcspResponseStatus::Successful => (0, "successful"),
        OcspResponseStatus::MalformedRequest => (1, "malformedrequest"),
        OcspResponseStatus::InternalError => (2, "internalerror"),
        OcspResponseStatus::TryLater => (3, "trylater"),
        OcspResponseStatus::SigRequired => (5, "sigrequired"),
        OcspResponseStatus::Unauthorized => (6, "unauthorized"),
    }
}

/// The part of an answer that says something.
fn basic(response: OcspResponse) -> Result<Vec<u8>, String> {
    let wrong = |reason, text| failed("OCSP_response_get1_basic", reason, text);
    match response.response_bytes {
        None => Err(wrong(0x6c, "no response data")),
        Some(bytes) if bytes.response_type != BASIC => Err(wrong(0x68, "not basic response")),
        Some(bytes) => Ok(bytes.response.into_bytes()),
    }
}

/// Whether a certificate is the one that an answer says it is signed with.
fn is_named(cert: &Cert<'_>, responder: &ResponderId) -> bool {
    match responder {
        ResponderId::ByKey(wanted) => cert.key().is_some_and(|key| hash(key) == wanted.as_bytes()),
        ResponderId::ByName(name) => {
            let der = name.to_der().unwrap_or_default();
            let parsed = X509Name::from_der(&der);
            parsed.is_ok_and(|(_, name)| cert::canonical(&name) == cert.subject)
        }
    }
}

/// Whether the first of a chain may speak of the certificates in an answer: it is their issuer, or their issuer lets it
/// (`ocsp_check_issuer`). The error is OpenSSL's number and words.
fn may_tell(chain: &[Cert<'_>], basic: &BasicOcspResponse) -> Result<(), (u8, &'static str)> {
    const UNTRUSTED: (u8, &str) = (0x70, "root ca not trusted");
    let responses = &basic.tbs_response_data.responses;
    let is_issuer = |cert: &Cert<'_>| {
        let key = cert.key().unwrap_or_default();
        let subject = cert.x509.subject().as_raw();
        !responses.is_empty()
            && responses
                .iter()
                .all(|single| is_issuer_in(&single.cert_id, subject, key))
    };
    let (Some(signer), above) = (chain.first(), chain.get(1)) else {
        return Err(UNTRUSTED);
    };
    if above.is_some_and(is_issuer) {
        if signer.may_tell_status() {
            return Ok(());
        }
        // OpenSSL goes on to look for another kind of trust, and has two things to say.
        let text = "missing ocspsigning usage error:13800070:OCSP routines::root ca not trusted";
        return Err((0x67, text));
    }
    if is_issuer(signer) {
        return Ok(());
    }
    Err(UNTRUSTED)
}

/// Whether a certificate with this subject and key is the issuer that an identifier names (`ocsp_match_issuerid`).
fn is_issuer_in(id: &CertId, subject: &[u8], key: &[u8]) -> bool {
    let known = DIGESTS
        .iter()
        .find(|(oid, _)| *oid == id.hash_algorithm.oid);
    known.is_some_and(|(_, algorithm)| {
        let is =
            |wanted: &OctetString, bytes| wanted.as_bytes() == digest(algorithm, bytes).as_ref();
        is(&id.issuer_name_hash, subject) && is(&id.issuer_key_hash, key)
    })
}

/// What identifiers are hashed with.
static DIGESTS: [(ObjectIdentifier, &Algorithm); 4] = [
    (
        ObjectIdentifier::new_unwrap("1.3.14.3.2.26"),
        &SHA1_FOR_LEGACY_USE_ONLY,
    ),
    (
        ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1"),
        &SHA256,
    ),
    (
        ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2"),
        &SHA384,
    ),
    (
        ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3"),
        &SHA512,
    ),
];

/// `OCSP_check_validity`
fn check_times(from: i64, until: Option<i64>, now: i64) -> Result<(), String> {
    let wrong = |reason, text| Err(failed("OCSP_check_validity", reason, text));
    match until {
        _ if from > now.saturating_add(SLACK) => wrong(0x7e, "status not yet valid"),
        Some(until) if until < now.saturating_sub(SLACK) => wrong(0x7d, "status expired"),
        Some(until) if until < from => wrong(0x7c, "nextupdate before thisupdate"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
