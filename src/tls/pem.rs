//! Certificates and keys out of their files, with nginx's words for what is wrong with them.

use std::{borrow::Cow, ffi::OsStr, fs, io, os::unix::ffi::OsStrExt as _, path::Path, sync::Arc};

use rustls::{
    crypto::aws_lc_rs::sign::any_supported_type,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
        pem::{self, PemObject as _},
    },
    sign::{CertifiedKey, SigningKey},
};

use super::{sealed::Sealed, trusted, verify};
use crate::{
    common::errno::Errno,
    conf::model::{Passwords, Pem},
};

fn refused(key: &Pem, why: &str) -> String {
    let name = name(key);
    format!("SSL_CTX_use_PrivateKey(\"{name}\") failed (SSL: {why})")
}

/// A key, and whether it needed no password.
pub(super) fn signing_key(
    source: &Pem,
    passwords: &Passwords,
) -> Result<(Arc<dyn SigningKey>, bool), String> {
    let (der, is_open) = private_key(source, passwords)?;
    let signing = any_supported_type(&der).map_err(|error| refused(source, &format!("{error}")))?;
    Ok((signing, is_open))
}

/// A certificate and its key together; `source` is what the key is called.
pub(super) fn pair(
    chain: Vec<CertificateDer<'static>>,
    signing: Arc<dyn SigningKey>,
    source: &Pem,
) -> Result<CertifiedKey, String> {
    // DIFFERS(key-kind): OpenSSL compares it only with a certificate for its own kind of keys.
    // rustls's own comparison reads the certificate with webpki, which does not know certificates of version 1.
    let key = signing.public_key();
    if let (Some(own), Some(key)) = (chain.first(), key)
        && !verify::is_key_of(&key, own)
    {
        return Err(refused(
            source,
            "error:05800074:x509 certificate routines::key values mismatch",
        ));
    }
    Ok(CertifiedKey::new(chain, signing))
}

/// All certificates of a file, the first of which is one's own.
pub(super) fn chain(source: &Pem) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = certificates(source)?;
    Ok(certificates
        .iter()
        .filter_map(|bytes| trusted::bare(bytes))
        .collect())
}

/// All certificates of a file, with what stands behind them. The error is nginx's message.
pub(super) fn certificates(source: &Pem) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: String| format!("cannot load certificate \"{}\": {why}", name(source));
    let bytes = read(source).map_err(failed)?;
    let mut certificates = Vec::new();
    for item in CertificateDer::pem_slice_iter(&plain_labels(&bytes)) {
        let item = item.map_err(|error| failed(broken("PEM_read_bio_X509_AUX()", &error)))?;
        if trusted::bare(&item).is_none() {
            return Err(failed(
                "PEM_read_bio_X509_AUX() failed (SSL: error:0688010A:asn1 encoding routines::nested asn1 error)".to_owned(),
            ));
        }
        certificates.push(item);
    }
    if certificates.is_empty() {
        return Err(failed(NO_CERTIFICATE.to_owned()));
    }
    Ok(certificates)
}

/// The same text with the one label that the library knows in the place of OpenSSL's others.
fn plain_labels(pem: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(pem) else {
        return pem.into();
    };
    let others = ["TRUSTED CERTIFICATE-----", "X509 CERTIFICATE-----"];
    if !others.iter().any(|label| text.contains(label)) {
        return pem.into();
    }
    let plain = others.iter().fold(text.to_owned(), |text, label| {
        text.replace(label, "CERTIFICATE-----")
    });
    plain.into_bytes().into()
}

/// All lists of revoked certificates of a file. The error is nginx's message.
pub(super) fn lists(source: &Pem) -> Result<Vec<Vec<u8>>, String> {
    const CALL: &str = "PEM_read_bio_X509_CRL()";
    let failed = |why: String| format!("cannot load CRL \"{}\": {why}", name(source));
    let bytes = read(source).map_err(failed)?;
    let mut lists = Vec::new();
    for item in CertificateRevocationListDer::pem_slice_iter(&bytes) {
        let item = item.map_err(|error| failed(broken(CALL, &error)))?;
        if x509_parser::parse_x509_crl(&item).is_err() {
            return Err(failed(format!(
                "{CALL} failed (SSL: error:0688010A:asn1 encoding routines::nested asn1 error)"
            )));
        }
        lists.push(item.to_vec());
    }
    if lists.is_empty() {
        let why = "error:0480006C:PEM routines::no start line:Expecting: X509 CRL";
        return Err(failed(format!("{CALL} failed (SSL: {why})")));
    }
    Ok(lists)
}

const NO_CERTIFICATE: &str = "PEM_read_bio_X509_AUX() failed (SSL: error:0480006C:PEM routines::no start line:\
                              Expecting: TRUSTED CERTIFICATE)";
const NO_KEY: &str = "PEM_read_bio_PrivateKey() failed (SSL: error:1E08010C:DECODER routines::unsupported:\
                      No supported data to decode. Input type: PEM)";

/// A key, and whether it needed no password.
fn private_key(
    source: &Pem,
    passwords: &Passwords,
) -> Result<(PrivateKeyDer<'static>, bool), String> {
    let failed = |why: &str| format!("cannot load certificate key \"{}\": {why}", name(source));
    let bytes = read(source).map_err(|why| failed(&why))?;
    if let Some(sealed) = Sealed::find(&bytes) {
        let known = match source {
            // A store asks once.
            Pem::Store(_) => passwords.0.get(..1).unwrap_or_default(),
            _ => &passwords.0,
        };
        // DIFFERS(pass-phrase): OpenSSL asks whoever starts nginx.
        let opened = sealed.open(known).ok_or_else(|| failed(BAD_PASSWORD))?;
        return Ok((opened, false));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| failed(NO_KEY))?;
    Ok((key, true))
}

const BAD_PASSWORD: &str =
    "PEM_read_bio_PrivateKey() failed (SSL: error:1C800064:Provider routines::bad decrypt)";

fn broken(call: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::Base64Decode(_) => {
            format!("{call} failed (SSL: error:04800064:PEM routines::bad base64 decode)")
        }
        _ => format!("{call} failed (SSL: error:04800066:PEM routines::bad end line)"),
    }
}

fn read(source: &Pem) -> Result<Vec<u8>, String> {
    match source {
        Pem::Data(bytes) => Ok(bytes.clone()),
        Pem::File(path) => fs::read(path).map_err(|error| cannot_open(path, &error)),
        Pem::Store(uri) => {
            let path = store_file(uri).ok_or_else(|| "OSSL_STORE_open() failed".to_owned())?;
            fs::read(path).map_err(|_| "OSSL_STORE_open() failed".to_owned())
        }
        Pem::Engine(_) => {
            Err("loading \"engine:...\" certificate keys is not supported".to_owned())
        }
    }
}

/// The file of a store, which is `store:` and a URI of the scheme `file` or a path.
// DIFFERS(engines): OpenSSL has other schemes where providers have them.
fn store_file(uri: &[u8]) -> Option<&Path> {
    let uri = uri.strip_prefix(b"store:")?;
    let path = match uri.strip_prefix(b"file:") {
        None => uri,
        Some(path) => match path.strip_prefix(b"//") {
            None => path,
            Some(path) => path.strip_prefix(b"localhost").unwrap_or(path),
        },
    };
    Some(Path::new(OsStr::from_bytes(path)))
}

fn cannot_open(path: &Path, error: &io::Error) -> String {
    format!(
        "BIO_new_file() failed ({})",
        open_failure(path, error, Some("r"))
    )
}

/// OpenSSL's words for a file that cannot be opened in this mode; without one, that cannot be read.
pub(super) fn open_failure(path: &Path, error: &io::Error, mode: Option<&str>) -> String {
    let (code, shown) = (error.raw_os_error().unwrap_or(0), path.display());
    let text = Errno(error).to_string();
    let text = text.split_once(": ").map_or(&*text, |(_, text)| text);
    let reason = if code == nix::libc::ENOENT {
        "error:10000080:BIO routines::no such file"
    } else {
        "error:10080002:BIO routines::system lib"
    };
    let call = match mode {
        Some(mode) => format!("fopen({shown}, {mode})"),
        None => "fread()".to_owned(),
    };
    format!(
        "SSL: error:{:08X}:system library::{text}:calling {call} {reason}",
        0x8000_0000_u32 | code.unsigned_abs()
    )
}

/// What messages call it.
pub(super) fn name(source: &Pem) -> String {
    match source {
        Pem::File(path) => path.display().to_string(),
        Pem::Data(bytes) => format!("data:{}", String::from_utf8_lossy(bytes)),
        Pem::Engine(text) | Pem::Store(text) => String::from_utf8_lossy(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::objects::Loader, *};

    fn load(certificate: &Pem, key: &Pem, passwords: &Passwords) -> Result<(), String> {
        let loaded = Loader::default().certified_key(certificate, key, passwords);
        loaded.map(drop)
    }

    fn file(name: &str) -> Pem {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        Pem::File(root.join("testdata/tls").join(name))
    }

    /// A key of somebody else is noticed with old certificates too.
    #[test]
    fn keys_that_do_not_match() {
        let file = |name: &str| {
            Pem::File(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("testdata/tls")
                    .join(name),
            )
        };
        let pair = |certificate: &str, key: &str| {
            load(&file(certificate), &file(key), &Passwords::default())
        };
        assert_eq!(pair("chains/old.pem", "chains/leaf.key"), Ok(()));
        for certificate in ["chains/old.pem", "ecdsa.crt", "rsa.crt"] {
            let message = pair(certificate, "other.key").unwrap_err();
            assert!(message.ends_with("::key values mismatch)"), "{message}");
        }
    }

    #[test]
    fn a_password_among_others_opens_a_key() {
        let open = |words: &[&[u8]]| {
            let words = words.iter().map(|word| Box::from(*word)).collect();
            load(&file("rsa.crt"), &file("encrypted.key"), &Passwords(words))
        };
        assert_eq!(open(&[b"first", b"second"]), Ok(()));
        for words in [&[][..], &[&b"wrong"[..]]] {
            assert!(open(words).unwrap_err().contains("bad decrypt"));
        }
    }
}
