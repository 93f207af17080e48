//! A responder of OCSP: answers of the authority of testdata, made when they are asked for.

use std::time::{Duration, SystemTime};

use aws_lc_rs::{
    digest::{SHA1_FOR_LEGACY_USE_ONLY, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use data_encoding::BASE64;
use der::{
    Decode, Encode,
    asn1::{BitString, OctetString},
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use x509_ocsp::{
    BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspRequest, OcspResponse, ResponderId,
    ResponseData, RevokedInfo, SingleResponse, Version,
};
use x509_parser::parse_x509_certificate;

use super::{Conn, backend::Request, tls::file};

/// The identifier of ECDSA with SHA-256.
const ALGORITHM: [u8; 12] = [0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const HOUR: Duration = Duration::from_hours(1);

/// What an answer is to say.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Say {
    Good,
    Revoked,
    Unknown,
    /// That it was good; it ended an hour ago.
    Old,
}

/// The query in the path of a request, DER.
fn query(request: &Request) -> Vec<u8> {
    let (_, text) = request.target().rsplit_once('/').unwrap();
    let text = text
        .replace("%2B", "+")
        .replace("%2F", "/")
        .replace("%3D", "=");
    BASE64.decode(text.as_bytes()).unwrap()
}

fn time(at: SystemTime) -> OcspGeneralizedTime {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let whole = Duration::from_secs(since.as_secs());
    OcspGeneralizedTime(der::asn1::GeneralizedTime::from_unix_duration(whole).unwrap())
}

/// The authority's answer to a query, DER.
fn answer(query: &[u8], say: Say) -> Vec<u8> {
    let request = OcspRequest::from_der(query).unwrap();
    let now = SystemTime::now();
    let (from, until) = match say {
        Say::Old => (now - 2 * HOUR, now - HOUR),
        _ => (now, now + HOUR),
    };
    let der = CertificateDer::from_pem_file(file("ca.crt")).unwrap();
    let (_, authority) = parse_x509_certificate(&der).unwrap();
    let key = authority.public_key().subject_public_key.as_ref();
    let key = digest(&SHA1_FOR_LEGACY_USE_ONLY, key);
    let said = SingleResponse {
        cert_id: request.tbs_request.request_list[0].req_cert.clone(),
        cert_status: match say {
            Say::Good | Say::Old => CertStatus::good(),
            Say::Unknown => CertStatus::unknown(),
            Say::Revoked => CertStatus::Revoked(RevokedInfo {
                revocation_time: time(from),
                revocation_reason: None,
            }),
        },
        this_update: time(from),
        next_update: Some(time(until)),
        single_extensions: None,
    };
    let data = ResponseData {
        version: Version::V1,
        responder_id: ResponderId::ByKey(OctetString::new(key.as_ref()).unwrap()),
        produced_at: time(from),
        responses: vec![said],
        response_extensions: None,
    };
    let signature = sign(&data.to_der().unwrap());
    let basic = BasicOcspResponse {
        tbs_response_data: data,
        signature_algorithm: Decode::from_der(&ALGORITHM).unwrap(),
        signature: BitString::from_bytes(&signature).unwrap(),
        certs: Some(vec![Decode::from_der(&der).unwrap()]),
    };
    OcspResponse::successful(basic).unwrap().to_der().unwrap()
}

fn sign(content: &[u8]) -> Vec<u8> {
    let key = PrivateKeyDer::from_pem_file(file("ca.key")).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.secret_der()).unwrap();
    let signature = key.sign(&SystemRandom::new(), content).unwrap();
    signature.as_ref().to_vec()
}

/// Answers the request of a connection; what comes back is the answer, DER.
pub(crate) fn respond(conn: &mut Conn, say: Say) -> Option<Vec<u8>> {
    let request = conn.request()?;
    let answer = answer(&query(&request), say);
    conn.write("HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n\r\n");
    conn.write(&answer);
    Some(answer)
}
