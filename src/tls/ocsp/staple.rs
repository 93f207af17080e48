//! What a responder says of a server's own certificate, sent to clients with it (`ssl_stapling`).
//!
//! Mirrors `ngx_ssl_stapling` and its kin: it is asked for when the first client comes, and again before it ends; until it is
//! there clients go without. All threads share it.

use std::{
    fmt, fs,
    io::Read as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{pki_types::CertificateDer, sign::CertifiedKey};

use super::{Answer, Report};
use crate::{
    conf::model::{Asking, Level, Responder, Ssl},
    tls::{
        pem,
        verify::{self, CertStatus, Question, Signer, Told, Trust},
    },
};

/// A statement about one certificate, renewed from time to time.
pub struct Staple {
    /// The certificate's file.
    name: String,
    /// The certificate without the statement.
    plain: Arc<CertifiedKey>,
    question: Question,
    responder: Responder,
    signer: Signer,
    trust: Arc<Trust>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The certificate with it.
    stapled: Option<Arc<CertifiedKey>>,
    /// Until when it is good, seconds of the day's clock, as is all here.
    valid: i64,
    /// When it is time to ask again.
    refresh: i64,
    is_loading: bool,
    /// A client has come since.
    is_wanted: bool,
}

/// It is asked for no sooner than so many seconds after the last time, and so many before it ends.
const SOON: i64 = 300;
/// It is asked for after so many seconds at the latest.
const LATE: i64 = 3600;

impl fmt::Debug for Staple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staple")
            .field("name", &self.name)
            .field("responder", &self.responder)
            .finish_non_exhaustive()
    }
}

/// The statement in a file, DER. The error is nginx's message.
pub(in crate::tls) fn from_file(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let mut file = fs::File::open(path).map_err(|error| {
        let why = pem::open_failure(path, &error, Some("rb"));
        format!("BIO_new_file(\"{shown}\") failed ({why})")
    })?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| {
        let why = pem::open_failure(path, &error, None);
        let end = "error:0680008E:asn1 encoding routines::not enough data";
        format!("d2i_OCSP_RESPONSE_bio(\"{shown}\") failed ({why} {end})")
    })?;
    let found = verify::response(&bytes)
        .map_err(|why| format!("d2i_OCSP_RESPONSE_bio(\"{shown}\") failed{why}"))?;
    Ok(found.to_vec())
}

/// What is to be asked about a certificate. The error is nginx's warning that nothing is.
pub(in crate::tls) fn staple(
    ssl: &Ssl,
    certified: &Arc<CertifiedKey>,
    name: String,
    trust: &Arc<Trust>,
    now: i64,
) -> Result<Staple, String> {
    let ignored = |why: &str| format!("\"ssl_stapling\" ignored, {why} \"{name}\"");
    let (own, others) = certified
        .cert
        .split_first()
        .ok_or_else(|| ignored("no certificate in"))?;
    let issuer = issuer(own, others, trust, now)
        .ok_or_else(|| ignored("issuer certificate not found for certificate"))?;
    let url = match &ssl.stapling_responder {
        Some(url) if !url.is_empty() => url.to_string(),
        _ => verify::responder_url(own)
            .ok_or_else(|| ignored("no OCSP responder URL in the certificate"))?,
    };
    let responder = Responder::parse(&url, true)
        .map_err(|bad| ignored(&format!("{bad} in the certificate")))?;
    let question = Question::new(own, &issuer)
        .ok_or_else(|| ignored("unusual issuer or serial number in the certificate"))?;
    Ok(Staple {
        plain: certified.clone(),
        question,
        responder,
        signer: if ssl.stapling_verify {
            Signer::InChain
        } else {
            Signer::Any
        },
        trust: trust.clone(),
        state: Mutex::default(),
        name,
    })
}

/// The issuer of a certificate: of those behind it, or of those that are trusted.
fn issuer(
    own: &CertificateDer<'static>,
    others: &[CertificateDer<'static>],
    trust: &Trust,
    now: i64,
) -> Option<CertificateDer<'static>> {
    let mut others = others.iter();
    let found = others.find(|other| verify::may_issue(other, own));
    found.cloned().or_else(|| trust.issuer_of(own, now))
}

impl Staple {
    /// The certificate for a client that comes at `now`.
    pub(in crate::tls) fn certificate(&self, now: i64) -> Arc<CertifiedKey> {
        let mut state = self.state();
        state.is_wanted = true;
        let stapled = state.stapled.as_ref().filter(|_| state.valid >= now);
        stapled.unwrap_or(&self.plain).clone()
    }

    /// Whether it is time to ask; who is told so asks, and [`learn`](Self::learn) ends it.
    pub(in crate::tls) fn begin(&self, now: i64) -> bool {
        let mut state = self.state();
        let is_due = state.is_wanted && !state.is_loading && state.refresh < now;
        state.is_wanted = false;
        state.is_loading |= is_due;
        is_due
    }

    /// The certificate's file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whom to ask.
    pub fn responder(&self) -> &Responder {
        &self.responder
    }

    /// What to ask, DER.
    pub fn query(&self) -> &[u8] {
        &self.question.der
    }

    /// Takes what was answered at `now`, seconds of the day's clock.
    pub fn learn(&self, answer: Answer, now: i64, report: &Report<'_>) {
        let told = answer.and_then(|(bytes, peer)| {
            let told = self.hear(&bytes, now).inspect_err(|message| {
                let asking = Asking {
                    responder: &self.responder.host,
                    peer: Some(&peer),
                    certificate: Some(&self.name),
                };
                report(Level::Error, format_args!("{message}{asking}"));
            });
            Some((bytes, told.ok()?))
        });
        let mut state = self.state();
        state.is_loading = false;
        state.refresh = now + SOON;
        if let Some((bytes, told)) = told {
            let valid = told.until.unwrap_or(i64::MAX);
            state.refresh = state.refresh.max((valid - SOON).min(now + LATE));
            state.valid = valid;
            let mut stapled = (*self.plain).clone();
            stapled.ocsp = Some(bytes);
            state.stapled = Some(Arc::new(stapled));
        }
    }

    fn hear(&self, bytes: &[u8], now: i64) -> Result<Told, String> {
        let chain = self.plain.cert.get(1..).unwrap_or_default();
        let told = self
            .trust
            .hear(bytes, &self.question, (chain, self.signer), now)?;
        match told.status {
            CertStatus::Good => Ok(told),
            status => Err(format!(
                "certificate status \"{}\" in the OCSP response",
                status.text()
            )),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
