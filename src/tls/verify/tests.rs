//! Chains of the testdata and chains made here, against the answers of OpenSSL.

use std::path::Path;

use rustls::pki_types::{CertificateRevocationListDer, pem::PemObject as _};

use super::*;

/// Some moment in 2026.
const NOW: i64 = 1_780_000_000;

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/tls/chains")
        .join(name)
}

fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    let items = CertificateDer::pem_file_iter(path(name)).unwrap();
    items.collect::<Result<_, _>>().unwrap()
}

fn lists(name: &str) -> Vec<Vec<u8>> {
    let items = CertificateRevocationListDer::pem_file_iter(path(name)).unwrap();
    items.map(|item| item.unwrap().to_vec()).collect()
}

/// OpenSSL's number for a chain; 0 is good.
fn verdict(trust: &Trust, name: &str, purpose: Purpose, now: i64) -> u16 {
    let verified = trust.verify(&certificates(name), purpose, now);
    verified.map_or_else(|error| error.0, |()| 0)
}

#[test]
fn chains() {
    let trust = Trust::new(certificates("trusted.pem"), None, 1);
    for (name, expected) in [
        ("good.pem", 0),
        ("middle.pem", 0),
        ("whole.pem", 0),
        ("old.pem", 0),
        ("alone.pem", 0),
        ("missing.pem", FIRST_UNVERIFIED),
        ("deep.pem", NO_LOCAL_ISSUER),
        ("expired.pem", EXPIRED),
        ("aged.pem", EXPIRED),
        ("early.pem", NOT_YET_VALID),
        ("client.pem", PURPOSE),
        ("usage.pem", PURPOSE),
        ("critical.pem", UNKNOWN_CRITICAL),
        ("mimic.pem", SELF_SIGNED),
        ("sha1.pem", WEAK_DIGEST),
        ("outside.pem", 47),
        ("excluded.pem", 48),
        ("cut.pem", PATH_LENGTH),
        ("muted.pem", MAY_NOT_SIGN),
        ("unmuted.pem", PURPOSE),
    ] {
        assert_eq!(
            verdict(&trust, name, Purpose::Server, NOW),
            expected,
            "{name}"
        );
    }
    assert_eq!(verdict(&trust, "client.pem", Purpose::Client, NOW), 0);
    assert_eq!(trust.verify(&[], Purpose::Server, NOW), Err(VerifyError(1)));
}

#[test]
fn depth_and_trust() {
    let roots = || certificates("root.pem");
    let deep = Trust::new(roots(), None, 2);
    assert_eq!(verdict(&deep, "deep.pem", Purpose::Server, NOW), 0);
    assert_eq!(verdict(&deep, "disordered.pem", Purpose::Server, NOW), 0);
    assert_eq!(verdict(&deep, "cut.pem", Purpose::Server, NOW), PATH_LENGTH);
    let flat = Trust::new(roots(), None, 0);
    assert_eq!(verdict(&flat, "good.pem", Purpose::Server, NOW), 0);
    assert_eq!(
        verdict(&flat, "middle.pem", Purpose::Server, NOW),
        NO_LOCAL_ISSUER
    );
    let middle = Trust::new(certificates("only_middle.pem"), None, 1);
    assert_eq!(
        verdict(&middle, "missing.pem", Purpose::Server, NOW),
        NO_ISSUER
    );
    let nobody = Trust::new(Vec::new(), None, 1);
    assert_eq!(
        verdict(&nobody, "whole.pem", Purpose::Server, NOW),
        SELF_SIGNED_IN_CHAIN
    );
}

#[test]
fn times_are_those_of_the_moment() {
    let trust = Trust::new(certificates("root.pem"), None, 1);
    let begin = 1_735_689_600;
    assert_eq!(verdict(&trust, "good.pem", Purpose::Server, begin), 0);
    assert_eq!(
        verdict(&trust, "good.pem", Purpose::Server, begin - 1),
        NOT_YET_VALID
    );
    let end = 2_366_841_600;
    assert_eq!(verdict(&trust, "good.pem", Purpose::Server, end - 1), 0);
    assert_eq!(verdict(&trust, "good.pem", Purpose::Server, end), EXPIRED);
}

#[test]
fn revoked_certificates() {
    let with = |name: &str| Trust::new(certificates("root.pem"), Some(lists(name)), 1);
    for (list, name, expected) in [
        ("root.crl", "good.pem", 0),
        ("root.crl", "revoked.pem", 23),
        ("root.crl", "middle.pem", 3),
        ("both.crl", "middle.pem", 0),
        ("old.crl", "good.pem", 12),
    ] {
        assert_eq!(
            verdict(&with(list), name, Purpose::Server, NOW),
            expected,
            "{list} {name}"
        );
    }
}

/// A changed byte is noticed wherever it is, and nothing panics.
#[test]
fn damaged_certificates() {
    let trust = Trust::new(certificates("root.pem"), Some(lists("root.crl")), 1);
    let good = certificates("good.pem").remove(0);
    assert_eq!(
        trust.verify(std::slice::from_ref(&good), Purpose::Server, NOW),
        Ok(())
    );
    for at in 0..good.len() {
        let mut damaged = good.to_vec();
        damaged[at] ^= 1;
        let verdict = trust.verify(&[CertificateDer::from(damaged)], Purpose::Server, NOW);
        assert!(verdict.is_err(), "{at}");
    }
}

#[test]
fn hosts() {
    let good = certificates("good.pem").remove(0);
    assert!(is_for(&good, b"WWW.example.com") && !is_for(&good, b"good") && !is_for(&good, b""));
    // Its only alternative name is an address, so that the common name counts.
    let address = certificates("address.pem").remove(0);
    assert!(is_for(&address, b"address") && !is_for(&address, b"127.0.0.1"));
}

#[test]
fn verdicts_have_words() {
    assert_eq!(
        VerifyError(SELF_SIGNED).to_string(),
        "(18:self-signed certificate)"
    );
}
