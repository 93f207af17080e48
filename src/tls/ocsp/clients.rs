//! Whether clients' certificates are revoked (`ssl_ocsp`): asked after a handshake and before anything else is read.
//!
//! Mirrors `ngx_ssl_ocsp_validate` and its kin. A certificate that is not good as it stands is not asked about.

use std::{borrow::Cow, fmt, sync::Arc};

use rustls::pki_types::CertificateDer;

use super::{Answer, Cache, Report};
use crate::{
    common::clock,
    conf::model::{Asking, Level, Ocsp, Responder, Ssl},
    tls::verify::{CertStatus, Purpose, Question, Signer, Trust, responder_url},
};

/// What a server asks about its clients.
#[derive(Debug)]
pub(in crate::tls) struct Clients {
    /// Their own certificates alone, not those between them and the authority.
    only_leaf: bool,
    /// Who is asked whatever certificates say.
    responder: Option<Responder>,
    cache: Option<Arc<Cache>>,
}

/// Why a certificate that looks good does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Nobody could be asked.
    Unanswered,
    /// It is revoked.
    Revoked,
    /// Its issuer does not know it.
    Unknown,
}

impl Doubt {
    /// nginx's words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unanswered => "certificate status request failed",
            Self::Revoked => "certificate revoked",
            Self::Unknown => "certificate status unknown",
        }
    }
}

/// Where answers and lines of the log go while a client's certificates are asked about.
pub(in crate::tls) struct Asker<'a, A> {
    pub(in crate::tls) ask: A,
    pub(in crate::tls) report: &'a Report<'a>,
    /// Ends messages that are about the handshake.
    pub(in crate::tls) context: &'a dyn fmt::Display,
}

impl Clients {
    /// None: nothing is asked. The error is nginx's message.
    pub(in crate::tls) fn new(
        ssl: &Ssl,
        cache: Option<Arc<Cache>>,
    ) -> Result<Option<Self>, String> {
        let parse = |url: &Arc<str>| {
            Responder::parse(url, true).map_err(|bad| format!("{bad} in \"ssl_ocsp_responder\""))
        };
        if ssl.ocsp == Ocsp::Off {
            return Ok(None);
        }
        Ok(Some(Self {
            only_leaf: ssl.ocsp == Ocsp::Leaf,
            responder: ssl.ocsp_responder.as_ref().map(parse).transpose()?,
            cache,
        }))
    }

    /// Asks about what a client has shown, as far as `trust` finds it good.
    pub(in crate::tls) async fn confirm<A>(
        &self,
        trust: &Trust,
        shown: &[CertificateDer<'_>],
        asker: &Asker<'_, A>,
    ) -> Result<(), Doubt>
    where
        A: AsyncFn(&Responder, &[u8]) -> Answer,
    {
        let Ok(chain) = trust.chain(shown, Purpose::Client, clock::wall().secs) else {
            return Ok(());
        };
        for (index, pair) in chain.windows(2).enumerate() {
            if self.only_leaf && index > 0 {
                break;
            }
            match self
                .status(trust, (&pair[0], &pair[1], &chain), asker)
                .await
            {
                Some(CertStatus::Good) => {}
                Some(CertStatus::Revoked) => return Err(Doubt::Revoked),
                Some(CertStatus::Unknown) => return Err(Doubt::Unknown),
                None => return Err(Doubt::Unanswered),
            }
        }
        Ok(())
    }

    /// What is known of one certificate of a chain, kept or asked now.
    async fn status<A>(
        &self,
        trust: &Trust,
        (cert, issuer, chain): (
            &CertificateDer<'_>,
            &CertificateDer<'_>,
            &[CertificateDer<'_>],
        ),
        asker: &Asker<'_, A>,
    ) -> Option<CertStatus>
    where
        A: AsyncFn(&Responder, &[u8]) -> Answer,
    {
        let responder = match &self.responder {
            Some(responder) => Cow::Borrowed(responder),
            None => Cow::Owned(asker.responder(cert)?),
        };
        let question = Question::new(cert, issuer)?;
        let cache = self.cache.as_deref();
        let known = cache.and_then(|cache| cache.find(&question.key(), clock::wall().secs));
        if known.is_some() {
            return known;
        }
        let (answer, peer) = (asker.ask)(&responder, &question.der).await?;
        let now = clock::wall().secs;
        let heard = trust.hear(&answer, &question, (chain, Signer::Trusted), now);
        match heard {
            Ok(told) => {
                if let Some(cache) = cache {
                    cache.keep(question.key(), told, now);
                }
                Some(told.status)
            }
            Err(message) => {
                let asking = Asking {
                    responder: &responder.host,
                    peer: Some(&peer),
                    certificate: None,
                };
                (asker.report)(Level::Error, format_args!("{message}{asking}"));
                None
            }
        }
    }
}

impl<A> Asker<'_, A> {
    /// Whom a certificate itself names.
    fn responder(&self, cert: &CertificateDer<'_>) -> Option<Responder> {
        let fail = |message: fmt::Arguments<'_>| {
            (self.report)(Level::Error, format_args!("{message}{}", self.context));
        };
        let Some(url) = responder_url(cert) else {
            fail(format_args!("no OCSP responder URL in certificate"));
            return None;
        };
        Responder::parse(&url, false)
            .inspect_err(|bad| fail(format_args!("{bad} in certificate")))
            .ok()
    }
}
