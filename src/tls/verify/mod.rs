//! Whether a chain of certificates is to be trusted, with OpenSSL's answers.
//!
//! rustls has a verifier of its own, stricter and with other words; behaviour that files rely on (which chains are good,
//! and what `$ssl_client_verify` and the error log say of the others) is OpenSSL's. nginx lets verification go on after a
//! fault, so that the last one counts. Mirrors `X509_verify_cert` (`crypto/x509/x509_vfy.c` of OpenSSL 3) with the
//! settings of `ngx_ssl_trusted_certificate` and `ngx_ssl_crl`.

mod cert;
mod constraints;
mod crl;
mod handshake;
mod name;
mod status;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt};

use rustls::{
    crypto::{WebPkiSupportedAlgorithms, aws_lc_rs::default_provider},
    pki_types::CertificateDer,
};

use cert::{Authority, Cert};

pub(super) use handshake::{verify_tls12, verify_tls13};
pub use status::CertStatus;
pub(super) use status::{Question, Signer, Told, responder_url, response};

/// What a certificate is to be good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The other side is a server.
    Server,
    /// It is a client.
    Client,
    /// It answers for an authority (`X509_PURPOSE_OCSP_HELPER`).
    Responder,
}

/// How many certificates may stand between a responder's and a trusted one: OpenSSL's own limit.
const RESPONDER_DEPTH: usize = 100;

/// What is wrong with a chain: OpenSSL's number, and with `Display` number and text as nginx logs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyError(pub u16);

const NO_ISSUER: u16 = 2;
const SIGNATURE: u16 = 7;
const NOT_YET_VALID: u16 = 9;
const EXPIRED: u16 = 10;
const SELF_SIGNED: u16 = 18;
const SELF_SIGNED_IN_CHAIN: u16 = 19;
const NO_LOCAL_ISSUER: u16 = 20;
const FIRST_UNVERIFIED: u16 = 21;
const PATH_LENGTH: u16 = 25;
const PURPOSE: u16 = 26;
const MAY_NOT_SIGN: u16 = 32;
const UNKNOWN_CRITICAL: u16 = 34;
const WEAK_KEY: u16 = 66;
const WEAK_AUTHORITY: u16 = 67;
const WEAK_DIGEST: u16 = 68;
const NO_AUTHORITY: u16 = 79;

impl VerifyError {
    /// OpenSSL's words.
    pub fn text(self) -> &'static str {
        match self.0 {
            NO_ISSUER => "unable to get issuer certificate",
            3 => "unable to get certificate CRL",
            SIGNATURE => "certificate signature failure",
            8 => "CRL signature failure",
            NOT_YET_VALID => "certificate is not yet valid",
            EXPIRED => "certificate has expired",
            11 => "CRL is not yet valid",
            12 => "CRL has expired",
            SELF_SIGNED => "self-signed certificate",
            SELF_SIGNED_IN_CHAIN => "self-signed certificate in certificate chain",
            NO_LOCAL_ISSUER => "unable to get local issuer certificate",
            FIRST_UNVERIFIED => "unable to verify the first certificate",
            23 => "certificate revoked",
            PATH_LENGTH => "path length constraint exceeded",
            PURPOSE => "unsuitable certificate purpose",
            MAY_NOT_SIGN => "key usage does not include certificate signing",
            33 => "unable to get CRL issuer certificate",
            UNKNOWN_CRITICAL => "unhandled critical extension",
            35 => "key usage does not include CRL signing",
            36 => "unhandled critical CRL extension",
            44 => "different CRL scope",
            47 => "permitted subtree violation",
            48 => "excluded subtree violation",
            51 => "unsupported name constraint type",
            WEAK_KEY => "EE certificate key too weak",
            WEAK_AUTHORITY => "CA certificate key too weak",
            WEAK_DIGEST => "CA signature digest algorithm too weak",
            NO_AUTHORITY => "invalid CA certificate",
            _ => "unspecified certificate verification error",
        }
    }
}

impl VerifyError {
    /// Whether all that is wrong is that nobody who is trusted has issued it (`ngx_ssl_verify_error_optional`).
    pub(super) fn is_about_issuer(self) -> bool {
        matches!(
            self.0,
            SELF_SIGNED | SELF_SIGNED_IN_CHAIN | NO_LOCAL_ISSUER | FIRST_UNVERIFIED
        )
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}:{})", self.0, self.text())
    }
}

/// Authorities that are trusted, and what they have revoked.
pub struct Trust {
    /// Certificates by their subjects in canonical form.
    authorities: HashMap<Vec<u8>, Vec<CertificateDer<'static>>>,
    /// Lists of revoked certificates with the issuers of each; None: no list is asked for.
    lists: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// How many certificates may stand between the first and a trusted one.
    depth: usize,
    known: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

impl Trust {
    /// Trusts these authorities; what is no certificate is left out. `lists` are lists of revoked certificates, DER.
    pub fn new(
        authorities: Vec<CertificateDer<'static>>,
        lists: Option<Vec<Vec<u8>>>,
        depth: u32,
    ) -> Self {
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        for der in authorities {
            let subject = Cert::parse(&der).map(|cert| cert.subject);
            if let Some(subject) = subject {
                by_name.entry(subject).or_default().push(der);
            }
        }
        let named = |der: Vec<u8>| Some((crl::issuer(&der)?, der));
        Self {
            authorities: by_name,
            lists: lists.map(|lists| lists.into_iter().filter_map(named).collect()),
            depth: usize::try_from(depth).unwrap_or(usize::MAX / 2),
            known: default_provider().signature_verification_algorithms,
        }
    }

    /// Verifies the chain that the other side has shown, its own certificate first; `now` is in seconds of the day's clock.
    pub fn verify(
        &self,
        shown: &[CertificateDer<'_>],
        purpose: Purpose,
        now: i64,
    ) -> Result<(), VerifyError> {
        self.check(shown, purpose, now).map(drop)
    }

    /// The same, and what comes back is the chain up to the authority that is trusted.
    pub(super) fn chain(
        &self,
        shown: &[CertificateDer<'_>],
        purpose: Purpose,
        now: i64,
    ) -> Result<Vec<CertificateDer<'static>>, VerifyError> {
        let chain = self.check(shown, purpose, now)?;
        let owned = chain.iter().map(|cert| cert.der.to_vec().into());
        Ok(owned.collect())
    }

    fn check<'a>(
        &'a self,
        shown: &'a [CertificateDer<'a>],
        purpose: Purpose,
        now: i64,
    ) -> Result<Vec<Cert<'a>>, VerifyError> {
        let mut shown = shown.iter().filter_map(|der| Cert::parse(der));
        let Some(own) = shown.next() else {
            return Err(VerifyError(1));
        };
        let mut check = Check {
            known: &self.known,
            chain: vec![own],
            purpose,
            now,
            error: None,
        };
        let is_peer = purpose != Purpose::Responder;
        if is_peer && !check.chain[0].has_strong_key() {
            check.fail(WEAK_KEY);
        }
        self.build(&mut check, shown.collect());
        check.extensions();
        if is_peer {
            check.strength();
        }
        if let Some(lists) = &self.lists
            && (is_peer || !check.chain[0].needs_no_status())
        {
            crl::check(&mut check, lists);
        }
        check.signatures();
        constraints::check(&mut check);
        match check.error {
            None => Ok(check.chain),
            Some(code) => Err(VerifyError(code)),
        }
    }

    /// Builds the chain up to a trusted certificate that is its own issuer (`build_chain`).
    fn build<'a>(&'a self, check: &mut Check<'a>, mut others: Vec<Cert<'a>>) {
        let depth = match check.purpose {
            Purpose::Responder => RESPONDER_DEPTH,
            Purpose::Server | Purpose::Client => self.depth,
        };
        let most = depth.saturating_add(1);
        let mut untrusted = 1;
        let mut is_wire = true;
        loop {
            let (count, top) = (check.chain.len(), check.chain.len() - 1);
            let current = &check.chain[top];
            let trusted = (count <= most)
                .then(|| self.issuer(current, check.now))
                .flatten();
            if let Some(issuer) = trusted {
                if !current.is_self_signed() {
                    is_wire = false;
                    let is_root = issuer.is_self_signed();
                    check.chain.push(issuer);
                    if is_root {
                        return;
                    }
                    continue;
                }
                if issuer.der == current.der {
                    return;
                }
            }
            if !is_wire || current.is_self_signed() || count > most {
                break;
            }
            let candidates = others.iter().map(|cert| (cert, !check.holds(cert)));
            let candidates = candidates
                .filter(|(_, is_new)| *is_new)
                .map(|(cert, _)| cert);
            let Some(index) = best(candidates, current, check.now)
                .and_then(|best| others.iter().position(|cert| cert.der == best.der))
            else {
                break;
            };
            check.chain.push(others.remove(index));
            untrusted += 1;
        }
        check.fail(unfinished(check, untrusted));
    }

    /// The trusted certificate that may have issued `cert`.
    pub(super) fn issuer_of(
        &self,
        cert: &CertificateDer<'_>,
        now: i64,
    ) -> Option<CertificateDer<'static>> {
        let issuer = self.issuer(&Cert::parse(cert)?, now)?;
        Some(issuer.der.to_vec().into())
    }

    /// A trusted certificate that may have issued `cert`.
    fn issuer<'a>(&'a self, cert: &Cert<'_>, now: i64) -> Option<Cert<'a>> {
        let named = self.authorities.get(&cert.issuer)?;
        let parsed: Vec<_> = named.iter().filter_map(|der| Cert::parse(der)).collect();
        let der = best(parsed.iter(), cert, now)?.der;
        parsed.into_iter().find(|parsed| parsed.der == der)
    }
}

/// Of those that may have issued `cert` the first that is valid, or the one that was valid last.
fn best<'c, 'a: 'c>(
    candidates: impl Iterator<Item = &'c Cert<'a>>,
    cert: &Cert<'_>,
    now: i64,
) -> Option<&'c Cert<'a>> {
    let mut late: Option<&Cert<'a>> = None;
    let end = |cert: &Cert<'_>| cert.x509.validity().not_after.timestamp();
    for candidate in candidates.filter(|candidate| candidate.may_issue(cert)) {
        if candidate.time_error(now).is_none() {
            return Some(candidate);
        }
        if late.is_none_or(|late| end(late) < end(candidate)) {
            late = Some(candidate);
        }
    }
    late
}

/// Why a chain has not come to its end.
///
/// That it is too long comes first with OpenSSL and is never the last word.
fn unfinished(check: &Check<'_>, untrusted: usize) -> u16 {
    let count = check.chain.len();
    if check.chain[count - 1].is_self_signed() {
        match count {
            1 => SELF_SIGNED,
            _ => SELF_SIGNED_IN_CHAIN,
        }
    } else if untrusted < count {
        NO_ISSUER
    } else {
        NO_LOCAL_ISSUER
    }
}

/// A verification under way.
struct Check<'a> {
    known: &'a WebPkiSupportedAlgorithms,
    /// From the certificate in question upwards.
    chain: Vec<Cert<'a>>,
    purpose: Purpose,
    now: i64,
    /// The last fault.
    error: Option<u16>,
}

impl Check<'_> {
    fn fail(&mut self, code: u16) {
        self.error = Some(code);
    }

    fn holds(&self, cert: &Cert<'_>) -> bool {
        self.chain.iter().any(|known| known.der == cert.der)
    }

    /// `check_extensions`
    fn extensions(&mut self) {
        let mut below = 0;
        for index in 0..self.chain.len() {
            let cert = &self.chain[index];
            let mut faults = Vec::new();
            if cert.has_unknown_critical() {
                faults.push(UNKNOWN_CRITICAL);
            }
            let (authority, is_last) = (cert.authority(), index + 1 == self.chain.len());
            if index > 0
                && (authority == Authority::No || (!is_last && authority != Authority::Yes))
            {
                faults.push(NO_AUTHORITY);
            }
            if !cert.suits(self.purpose, index > 0) {
                faults.push(PURPOSE);
            }
            if cert.path_length().is_some_and(|most| below > most) {
                faults.push(PATH_LENGTH);
            }
            if index > 0 && !cert.is_self_issued() {
                below += 1;
            }
            if let Some(code) = faults.last() {
                self.error = Some(*code);
            }
        }
    }

    /// `check_auth_level`, at OpenSSL's second level.
    fn strength(&mut self) {
        for index in 0..self.chain.len() {
            if index > 0 && !self.chain[index].has_strong_key() {
                self.fail(WEAK_AUTHORITY);
            }
            if index + 1 < self.chain.len() && !self.chain[index].has_strong_digest() {
                self.fail(WEAK_DIGEST);
            }
        }
    }

    /// `internal_verify`: signatures and times, from the top.
    fn signatures(&mut self) {
        let top = self.chain.len() - 1;
        let mut first = top;
        if !self.chain[top].may_issue(&self.chain[top]) {
            if top == 0 {
                self.fail(FIRST_UNVERIFIED);
            } else {
                first -= 1;
            }
        }
        for index in (0..=first).rev() {
            if let Some(issuer) = self.chain.get(index + 1) {
                let may_sign = issuer.may_sign_certificates();
                let subject = &self.chain[index];
                // One with a weak digest is refused for that, and rustls does not know these.
                let is_signed =
                    !subject.has_strong_digest() || subject.is_signed_by(issuer, self.known);
                if !may_sign {
                    self.fail(MAY_NOT_SIGN);
                }
                if !is_signed {
                    self.fail(SIGNATURE);
                }
            }
            if let Some(code) = self.chain[index].time_error(self.now) {
                self.fail(code);
            }
        }
    }
}

/// Whether `issuer` may have issued `cert`, as far as names and identifiers go (`X509_check_issued`).
pub(super) fn may_issue(issuer: &CertificateDer<'_>, cert: &CertificateDer<'_>) -> bool {
    let pair = Cert::parse(issuer).zip(Cert::parse(cert));
    pair.is_some_and(|(issuer, cert)| issuer.may_issue(&cert))
}

/// Whether a public key with its algorithm is the one in the certificate.
pub(super) fn is_key_of(key: &[u8], certificate: &CertificateDer<'_>) -> bool {
    let Some(cert) = Cert::parse(certificate) else {
        return false;
    };
    let own = cert::split_key(cert.x509.public_key().raw);
    own.map(|(_, bits)| bits) == cert::split_key(key).map(|(_, bits)| bits)
}

/// Whether a certificate is for the host `name` (`ngx_ssl_check_host`).
pub(super) fn is_for(certificate: &CertificateDer<'_>, name: &[u8]) -> bool {
    Cert::parse(certificate).is_some_and(|cert| name::is_for(&cert.x509, name))
}
