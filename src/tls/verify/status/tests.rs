//! Answers of testdata/tls/ocsp, against what OpenSSL says of them.

use std::{fs, path::Path};

use rustls::pki_types::pem::PemObject as _;

use super::*;

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/tls")
        .join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path(&format!("{name}.crt"))).unwrap()
}

fn answer(name: &str) -> Vec<u8> {
    fs::read(path(&format!("ocsp/{name}.der"))).unwrap()
}

fn trust() -> Trust {
    Trust::new(vec![certificate("ca")], None, 1)
}

/// What an answer says of a certificate at `now`, when the authority's own is at hand.
fn ask(name: &str, about: &str, signer: Signer, now: i64) -> Result<Told, String> {
    let question = Question::new(&certificate(about), &certificate("ca")).unwrap();
    let chain = [certificate("ca")];
    trust().hear(&answer(name), &question, (&chain, signer), now)
}

/// When all of them are good: not long before they end.
fn now() -> i64 {
    let told = ask("good", "rsa", Signer::Any, 2_200_000_000).unwrap();
    told.until.unwrap() - 1000
}

#[test]
fn what_answers_say() {
    let now = now();
    let status = |name, about| ask(name, about, Signer::Trusted, now).map(|told| told.status);
    for (name, about, expected) in [
        ("good", "rsa", CertStatus::Good),
        ("key", "rsa", CertStatus::Good),
        ("several", "rsa", CertStatus::Good),
        ("several", "revoked", CertStatus::Revoked),
        ("revoked", "revoked", CertStatus::Revoked),
        ("unknown", "ecdsa", CertStatus::Unknown),
        ("delegated", "rsa", CertStatus::Good),
    ] {
        assert_eq!(status(name, about), Ok(expected), "{name} {about}");
    }
    let failed = |text| format!("OCSP_basic_verify() failed (SSL: error:138000{text})");
    for (name, about, message) in [
        (
            "idle",
            "rsa",
            failed(
                "67:OCSP routines::missing ocspsigning usage error:13800070:OCSP routines::root ca not trusted",
            ),
        ),
        (
            "stranger",
            "rsa",
            failed(
                "65:OCSP routines::certificate verify error:Verify error: self-signed certificate",
            ),
        ),
        (
            "refused",
            "rsa",
            "OCSP response not successful (6: unauthorized)".to_owned(),
        ),
        (
            "good",
            "ecdsa",
            "certificate status not found in the OCSP response".to_owned(),
        ),
        (
            "sha256",
            "rsa",
            "certificate status not found in the OCSP response".to_owned(),
        ),
    ] {
        assert_eq!(status(name, about), Err(message), "{name} {about}");
    }
}

/// Whom one is told to believe need not be trusted, but must have signed.
#[test]
fn signers() {
    let now = now();
    let is_good = |name, signer| ask(name, "rsa", signer, now).is_ok();
    for (name, any, in_chain) in [
        ("good", true, true),
        ("idle", true, false),
        ("stranger", true, false),
    ] {
        assert_eq!(is_good(name, Signer::Any), any, "{name}");
        assert_eq!(is_good(name, Signer::InChain), in_chain, "{name}");
    }
    let question = Question::new(&certificate("rsa"), &certificate("ca")).unwrap();
    let alone = trust().hear(&answer("good"), &question, (&[], Signer::Any), now);
    assert_eq!(
        alone.unwrap_err(),
        "OCSP_basic_verify() failed (SSL: error:13800076:OCSP routines::signer certificate not found)"
    );
    // An authority that speaks for another is not believed.
    let other = [certificate("ocsp/stranger")];
    let elsewhere = Trust::new(other.to_vec(), None, 1);
    let heard = elsewhere.hear(&answer("stranger"), &question, (&[], Signer::Trusted), now);
    assert_eq!(
        heard.unwrap_err(),
        "OCSP_basic_verify() failed (SSL: error:13800070:OCSP routines::root ca not trusted)"
    );
}

#[test]
fn answers_have_their_time() {
    let until = now() + 1000;
    let at = |now| ask("good", "rsa", Signer::Any, now).map(|_| ());
    let failed = |text| {
        Err(format!(
            "OCSP_check_validity() failed (SSL: error:138000{text})"
        ))
    };
    assert_eq!(at(until + 300), Ok(()));
    assert_eq!(at(until + 301), failed("7D:OCSP routines::status expired"));
    assert_eq!(at(0), failed("7E:OCSP routines::status not yet valid"));
}

/// A changed byte is noticed wherever it is, a missing end too, and nothing panics.
#[test]
fn damaged_answers() {
    let question = Question::new(&certificate("rsa"), &certificate("ca")).unwrap();
    let chain = [certificate("ca")];
    let (trust, now) = (trust(), now());
    let hear = |bytes: &[u8]| trust.hear(bytes, &question, (&chain, Signer::Trusted), now);
    let good = answer("good");
    assert!(hear(&good).is_ok());
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        assert!(hear(&damaged).is_err(), "{at}");
        assert!(hear(&good[..at]).is_err(), "{at}");
    }
    assert_eq!(
        hear(b"garbage\n").unwrap_err(),
        "d2i_OCSP_RESPONSE() failed (SSL: error:0680008E:asn1 encoding routines::not enough data)"
    );
}

/// What is asked is what OpenSSL asks.
#[test]
fn questions() {
    let question = Question::new(&certificate("rsa"), &certificate("ca")).unwrap();
    let OcspRequest { tbs_request, .. } = Decode::from_der(&question.der).unwrap();
    let response = OcspResponse::from_der(&answer("good")).unwrap();
    let basic = BasicOcspResponse::from_der(&basic(response).unwrap()).unwrap();
    let single = &basic.tbs_response_data.responses[0];
    assert_eq!(tbs_request.request_list[0].req_cert, single.cert_id);
    assert_eq!(question.key().len(), 42);
    assert_eq!(
        responder_url(&certificate("ocsp/place")).as_deref(),
        Some("http://ocsp.example.com:81/x")
    );
    assert_eq!(responder_url(&certificate("rsa")), None);
}
