//! Keys with a password (`ssl_password_file`): those of PKCS 8, and the older form in which the lines of a key are encrypted.
//!
//! Mirrors `PEM_read_bio_PrivateKey` of OpenSSL with a password, and its `EVP_BytesToKey`.

use aes::{Aes128, Aes192, Aes256};
use cbc::{
    Decryptor,
    cipher::{BlockCipher, BlockDecryptMut, KeyInit, KeyIvInit, block_padding::Pkcs7},
};
use data_encoding::{BASE64, HEXUPPER_PERMISSIVE};
use des::TdesEde3;
use md5::{Digest as _, Md5};
use pkcs8::{EncryptedPrivateKeyInfo, SecretDocument};
use rustls::{
    crypto::aws_lc_rs::sign::any_supported_type,
    pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer},
};

/// A key that is encrypted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sealed<'a> {
    /// With its lines of PEM (RFC 7468, section 11).
    Pkcs8(&'a str),
    /// As OpenSSL did it before (RFC 1421).
    Legacy {
        /// `RSA` or `EC`.
        kind: &'a str,
        /// `AES-256-CBC` for example.
        cipher: &'a str,
        iv: Vec<u8>,
        body: Vec<u8>,
    },
}

impl<'a> Sealed<'a> {
    /// The first key in a text that is one.
    pub(super) fn find(pem: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(pem).ok()?;
        let (before, _) = text.split_once("PRIVATE KEY-----")?;
        let begin = before.rfind("-----BEGIN ")?;
        let kind = before.get(begin + "-----BEGIN ".len()..)?.trim_end();
        let end = match kind {
            "" => "-----END PRIVATE KEY-----".to_owned(),
            kind => format!("-----END {kind} PRIVATE KEY-----"),
        };
        let section = text.get(begin..)?;
        let length = section.find(&end)?;
        if kind == "ENCRYPTED" {
            return Some(Self::Pkcs8(section.get(..length + end.len())?));
        }
        let (_, inside) = section.get(..length)?.split_once('\n')?;
        let mut lines = inside.lines().map(str::trim);
        if lines.next()? != "Proc-Type: 4,ENCRYPTED" {
            return None;
        }
        let (cipher, iv) = lines.next()?.strip_prefix("DEK-Info: ")?.split_once(',')?;
        let body: String = lines.collect();
        Some(Self::Legacy {
            kind,
            cipher,
            iv: HEXUPPER_PERMISSIVE.decode(iv.as_bytes()).ok()?,
            body: BASE64.decode(body.as_bytes()).ok()?,
        })
    }

    /// The key, opened with the first password that fits.
    pub(super) fn open(&self, passwords: &[Box<[u8]>]) -> Option<PrivateKeyDer<'static>> {
        passwords.iter().find_map(|password| match self {
            Self::Pkcs8(text) => open_pkcs8(text, password),
            Self::Legacy {
                kind,
                cipher,
                iv,
                body,
            } => {
                let opened = decrypt(cipher, iv, body, password)?;
                let key: PrivateKeyDer<'static> = match *kind {
                    "RSA" => PrivatePkcs1KeyDer::from(opened).into(),
                    "EC" => PrivateSec1KeyDer::from(opened).into(),
                    _ => return None,
                };
                // The padding alone may fit by chance.
                any_supported_type(&key).is_ok().then_some(key)
            }
        })
    }
}

fn open_pkcs8(text: &str, password: &[u8]) -> Option<PrivateKeyDer<'static>> {
    let (_, document) = SecretDocument::from_pem(text).ok()?;
    let sealed = EncryptedPrivateKeyInfo::try_from(document.as_bytes()).ok()?;
    let opened = sealed.decrypt(password).ok()?;
    Some(PrivatePkcs8KeyDer::from(opened.as_bytes().to_vec()).into())
}

fn decrypt(cipher: &str, iv: &[u8], body: &[u8], password: &[u8]) -> Option<Vec<u8>> {
    match cipher {
        "AES-128-CBC" => decrypt_with::<Aes128>(16, iv, body, password),
        "AES-192-CBC" => decrypt_with::<Aes192>(24, iv, body, password),
        "AES-256-CBC" => decrypt_with::<Aes256>(32, iv, body, password),
        "DES-EDE3-CBC" => decrypt_with::<TdesEde3>(24, iv, body, password),
        _ => None,
    }
}

fn decrypt_with<C>(length: usize, iv: &[u8], body: &[u8], password: &[u8]) -> Option<Vec<u8>>
where
    C: BlockCipher + BlockDecryptMut + KeyInit,
    Decryptor<C>: KeyIvInit,
{
    let key = derive(password, iv.get(..8)?, length);
    let decryptor = Decryptor::<C>::new_from_slices(&key, iv).ok()?;
    let mut body = body.to_vec();
    let opened = decryptor.decrypt_padded_mut::<Pkcs7>(&mut body).ok()?;
    Some(opened.to_vec())
}

/// A key of so many bytes out of a password: MD5 of what came before, the password and the salt, again and again.
fn derive(password: &[u8], salt: &[u8], length: usize) -> Vec<u8> {
    let mut key: Vec<u8> = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    while key.len() < length {
        last = Md5::digest([&last[..], password, salt].concat()).to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(length);
    key
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn text(name: &str) -> Vec<u8> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs::read(root.join("testdata/tls").join(name)).unwrap()
    }

    #[test]
    fn all_forms_open_with_their_password() {
        let words = ["first", "second"].map(|word| Box::from(word.as_bytes()));
        for name in ["", ".des3", ".old", ".ec"] {
            let pem = text(&format!("encrypted{name}.key"));
            let sealed = Sealed::find(&pem).unwrap();
            assert!(sealed.open(&words).is_some(), "{name}");
            assert!(sealed.open(&words[..1]).is_none(), "{name}");
            assert!(sealed.open(&[]).is_none(), "{name}");
        }
    }

    #[test]
    fn what_is_open_or_broken() {
        assert_eq!(Sealed::find(&text("rsa.key")), None);
        assert_eq!(Sealed::find(&text("rsa.crt")), None);
        let old = String::from_utf8(text("encrypted.old.key")).unwrap();
        let words = [Box::from(&b"second"[..])];
        for (from, to) in [
            ("EDE3", "EDE9"),
            ("DEK-Info: ", "DEK-Info "),
            ("-----END", "-----"),
            ("RSA", "DSA"),
        ] {
            let broken = old.replace(from, to);
            let opened = Sealed::find(broken.as_bytes()).and_then(|sealed| sealed.open(&words));
            assert!(opened.is_none(), "{to}");
        }
        let (first, second) = old.split_at(old.find("DEK-Info").unwrap());
        let info = second.lines().next().unwrap();
        let short = second.replace(info, "DEK-Info: DES-EDE3-CBC,00");
        let broken = format!("{first}{short}");
        assert!(
            Sealed::find(broken.as_bytes())
                .unwrap()
                .open(&words)
                .is_none()
        );
    }
}
