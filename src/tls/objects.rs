//! What files of TLS hold: certificates, keys and lists, read once for a whole configuration.
//!
//! A configuration names the same files in many places, and a file that can be read only once is enough for all of them.
//! Over a reload what has not changed is not read again (`ssl_object_cache_inheritable`). Mirrors `ngx_ssl_cache_fetch`
//! (`event/ngx_event_openssl_cache.c`). Keys with a password are not kept: who has no password must not get them.

use std::{
    cell::RefCell, collections::HashMap, fmt, fs, os::unix::fs::MetadataExt, path::Path, sync::Arc,
};

use rustls::{
    pki_types::CertificateDer,
    sign::{CertifiedKey, SigningKey},
};

use super::{pem, trusted, verify::Purpose};
use crate::conf::model::{Passwords, Pem};

/// What a file is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A certificate with its chain.
    Chain,
    Key,
    /// Certificates of authorities, with what stands behind them.
    Authorities,
    /// Lists of revoked certificates.
    Lists,
}

/// What an object is told by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) kind: Kind,
    pub(super) source: Pem,
}

/// An object.
#[derive(Clone)]
pub(super) enum Object {
    Certificates(Vec<CertificateDer<'static>>),
    Key(Arc<dyn SigningKey>),
    Lists(Vec<Vec<u8>>),
}

/// Tells that a file is another one: its number, and when it was changed.
pub(super) type Stamp = (u64, i64);

/// Objects with the stamps of their files.
#[derive(Default)]
pub(super) struct Kept(HashMap<Id, (Object, Option<Stamp>)>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.0.len())
    }
}

impl Id {
    /// The stamp of its file; None when it has none.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let Pem::File(path) = &self.source else {
            return None;
        };
        let file = fs::metadata(path).ok()?;
        Some((file.ino(), file.mtime()))
    }

    /// Reads it, and whether it may be kept. The error is nginx's message.
    pub(super) fn read(&self, passwords: &Passwords) -> Result<(Object, bool), String> {
        let source = &self.source;
        Ok(match self.kind {
            Kind::Chain => (Object::Certificates(pem::chain(source)?), true),
            Kind::Authorities => (Object::Certificates(pem::certificates(source)?), true),
            Kind::Lists => (Object::Lists(pem::lists(source)?), true),
            Kind::Key => {
                let (key, is_open) = pem::signing_key(source, passwords)?;
                (Object::Key(key), is_open)
            }
        })
    }
}

/// Puts a certificate and its key together; `find` gets each of them, anew when it is told so: one of two that do not fit may
/// be older than the other. The error is nginx's message.
pub(super) fn pair(
    certificate: &Pem,
    key: &Pem,
    mut find: impl FnMut(Id, bool) -> Result<Object, String>,
) -> Result<CertifiedKey, String> {
    let mut parts = |anew: bool| {
        let id = |kind, source: &Pem| Id {
            kind,
            source: source.clone(),
        };
        let chain = find(id(Kind::Chain, certificate), anew)?;
        let signing = find(id(Kind::Key, key), anew)?;
        match (chain, signing) {
            (Object::Certificates(chain), Object::Key(signing)) => Ok((chain, signing)),
            _ => Err("a key is no certificate".to_owned()),
        }
    };
    let (chain, signing) = parts(false)?;
    pem::pair(chain, signing, key).or_else(|_| {
        let (chain, signing) = parts(true)?;
        pem::pair(chain, signing, key)
    })
}

/// A certificate and its key, read now. The error is nginx's message.
pub(super) fn certified_key(
    certificate: &Pem,
    key: &Pem,
    passwords: &Passwords,
) -> Result<CertifiedKey, String> {
    pair(certificate, key, |id, _| {
        id.read(passwords).map(|(object, _)| object)
    })
}

/// Reads what a configuration names.
#[derive(Default)]
pub(super) struct Loader<'a> {
    kept: RefCell<Kept>,
    /// What was read for the configuration before, if it may be used.
    older: Option<&'a Kept>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(older: Option<&'a Kept>) -> Self {
        Self {
            kept: RefCell::default(),
            older,
        }
    }

    /// A certificate with its chain and its key. The error is nginx's message.
    pub(super) fn certified_key(
        &self,
        certificate: &Pem,
        key: &Pem,
        passwords: &Passwords,
    ) -> Result<CertifiedKey, String> {
        pair(certificate, key, |id, anew| self.find(id, passwords, anew))
    }

    /// The certificates of a file of authorities that are to be trusted for `purpose`. The error is nginx's message.
    pub(super) fn authorities(
        &self,
        path: &Path,
        purpose: Purpose,
    ) -> Result<Vec<CertificateDer<'static>>, String> {
        let Object::Certificates(certificates) = self.file(Kind::Authorities, path)? else {
            return Ok(Vec::new());
        };
        let fitting = certificates
            .iter()
            .filter(|bytes| trusted::is_for(bytes, purpose));
        Ok(fitting.filter_map(|bytes| trusted::bare(bytes)).collect())
    }

    /// The lists of revoked certificates of a file. The error is nginx's message.
    pub(super) fn lists(&self, path: &Path) -> Result<Vec<Vec<u8>>, String> {
        match self.file(Kind::Lists, path)? {
            Object::Lists(lists) => Ok(lists),
            Object::Key(_) | Object::Certificates(_) => Ok(Vec::new()),
        }
    }

    /// All that was read.
    pub(super) fn into_kept(self) -> Kept {
        self.kept.into_inner()
    }

    fn file(&self, kind: Kind, path: &Path) -> Result<Object, String> {
        let source = Pem::File(path.to_owned());
        self.find(Id { kind, source }, &Passwords::default(), false)
    }

    fn find(&self, id: Id, passwords: &Passwords, anew: bool) -> Result<Object, String> {
        let anew = anew && !matches!(id.source, Pem::Data(_));
        let mut kept = self.kept.borrow_mut();
        if let Some((object, _)) = kept.0.get(&id).filter(|_| !anew) {
            return Ok(object.clone());
        }
        let stamp = id.stamp();
        let is_same = |known: &&(Object, Option<Stamp>)| {
            matches!(id.source, Pem::Data(_)) || (stamp.is_some() && known.1 == stamp)
        };
        let older = self.older.and_then(|older| older.0.get(&id));
        let (object, may_be_kept) = match older.filter(is_same).filter(|_| !anew) {
            Some((object, _)) => (object.clone(), true),
            None => id.read(passwords)?,
        };
        if may_be_kept {
            kept.0.insert(id, (object.clone(), stamp));
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there is not read again, over a reload too, unless its file is another one.
    #[test]
    fn files_are_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls");
        let path = directory.path().join("x.crt");
        let put = |name: &str| {
            fs::copy(source.join(name), directory.path().join("new")).unwrap();
            fs::rename(directory.path().join("new"), &path).unwrap();
        };
        put("rsa.crt");
        let first = Loader::default();
        let rsa = first.authorities(&path, Purpose::Client).unwrap();
        put("ecdsa.crt");
        assert_eq!(first.authorities(&path, Purpose::Client).unwrap(), rsa);
        let kept = first.into_kept();
        let second = Loader::new(Some(&kept));
        assert_ne!(second.authorities(&path, Purpose::Client).unwrap(), rsa);
        let kept = second.into_kept();
        // In place, with the old time.
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let text = fs::read(source.join("rsa.crt")).unwrap();
        fs::write(&path, text).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(time).unwrap();
        let third = Loader::new(Some(&kept));
        assert_ne!(third.authorities(&path, Purpose::Client).unwrap(), rsa);
        assert_eq!(
            Loader::default()
                .authorities(&path, Purpose::Client)
                .unwrap(),
            rsa
        );
    }

    /// A key with a password is for those who have it.
    #[test]
    fn keys_with_passwords_are_not_kept() {
        let file = |name: &str| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            Pem::File(root.join("testdata/tls").join(name))
        };
        let (certificate, key) = (file("rsa.crt"), file("encrypted.key"));
        let loader = Loader::default();
        let known = Passwords(vec![Box::from(&b"second"[..])].into());
        let load = |passwords: &Passwords| loader.certified_key(&certificate, &key, passwords);
        assert!(load(&known).is_ok());
        assert!(load(&Passwords::default()).is_err());
    }
}
