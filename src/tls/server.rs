//! What servers need for handshakes: one context for each block of `ssl_*` settings.
//!
//! Mirrors `ngx_http_ssl_merge_srv_conf` and `ngx_stream_ssl_merge_srv_conf` from where they make an `SSL_CTX`.

use std::{fmt, sync::Arc};

use rustls::{
    Connection, ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, aws_lc_rs::default_provider},
    server::NoServerSessionStorage,
    version::{TLS12, TLS13},
};

use super::{
    cache::Cache,
    certificates::{self, Certificates, Own},
    ciphers,
    client_auth::{Authorities, ClientAuth, Verdict},
    compress::Zlib,
    contexts::Workshop,
    objects,
    ocsp::{Answer, Asker, Doubt, Report, Staple},
    sessions::{self, Context, Room, Store, Zone},
    tickets::{Keys, TicketKey, Tickets},
};
use crate::{
    common::clock,
    conf::model::{Protocols, Responder, SessionCache, Ssl},
};

/// What a server's handshakes are made of.
pub struct ServerContext {
    config: Arc<ServerConfig>,
    /// The same with HTTP/2.
    with_http2: Arc<ServerConfig>,
    auth: Option<ClientAuth>,
    staples: Vec<Arc<Staple>>,
    warnings: Vec<String>,
    /// No handshake comes to a good end (`ssl_reject_handshake`).
    pub rejects: bool,
    /// Certificates are known for each connection only: their names have variables.
    pub is_dynamic: bool,
    /// What is kept of these.
    cache: Option<Arc<Cache>>,
    speaks_tls13: bool,
}

impl fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerContext")
            .field("rejects", &self.rejects)
            .finish_non_exhaustive()
    }
}

/// What a server of `http` can speak, and clients may offer.
const HTTP1: [&[u8]; 3] = [b"http/1.1", b"http/1.0", b"http/0.9"];
/// How much a client may send before the handshake is over, bytes (`NGX_SSL_BUFSIZE`).
const EARLY_DATA: u32 = 16384;
/// How many sessions are kept for early data where nothing is said, as many as OpenSSL's own cache has.
const SESSIONS: usize = 20480;

impl ServerContext {
    /// Loads what the settings of a server name; `realm` is its part of the configuration. The error is nginx's message.
    pub(super) fn new(
        realm: &'static str,
        ssl: &Ssl,
        workshop: &Workshop<'_>,
    ) -> Result<Self, String> {
        let mut keys = certificates::fixed(ssl, workshop.loader)?;
        let provider = provider(
            &ssl.ciphers,
            ssl.ciphersuites.as_deref(),
            &ssl.ecdh_curve,
            ssl.protocols,
        )?;
        let builder = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions(ssl.protocols)?)
            .map_err(|error| format!("SSL_CTX_new() failed (SSL: {error})"))?;
        let authorities = Authorities::new(ssl, workshop.loader)?;
        let statuses = workshop.statuses(realm, ssl);
        let (auth, told, builder) = match ClientAuth::new(ssl, &authorities, statuses)? {
            Some((auth, verifier)) => (
                Some(auth),
                verifier.told().to_vec(),
                builder.with_client_cert_verifier(Arc::new(verifier)),
            ),
            None => (None, Vec::new(), builder.with_no_client_auth()),
        };
        let context = sessions::context(realm, ssl, &keys, &told);
        let now = clock::wall().secs;
        let warnings = certificates::staple(&mut keys, ssl, &authorities.trust, now)?;
        let staples = keys.iter().filter_map(|own| own.staple.clone()).collect();
        let mut config = builder.with_cert_resolver(Arc::new(Certificates(keys)));
        config.ignore_client_order = ssl.prefer_server_ciphers;
        config.max_fragment_size = Some(ssl.buffer_size.clamp(64, 16384) + 5);
        resumption(&mut config, ssl, (realm, context), workshop)?;
        if ssl.certificate_compression && !ssl.is_dynamic() {
            config.cert_compressors = vec![&Zlib];
        }
        let mut with_http2 = config.clone();
        config.alpn_protocols = match realm {
            "HTTP" => HTTP1.map(<[u8]>::to_vec).to_vec(),
            _ => ssl.alpn.iter().map(|name| name.to_vec()).collect(),
        };
        with_http2.alpn_protocols = std::iter::once(&b"h2"[..])
            .chain(HTTP1)
            .map(<[u8]>::to_vec)
            .collect();
        Ok(Self {
            config: Arc::new(config),
            with_http2: Arc::new(with_http2),
            auth,
            staples,
            warnings,
            rejects: ssl.reject_handshake,
            is_dynamic: ssl.is_dynamic(),
            cache: workshop.certificates(ssl),
            speaks_tls13: ssl.protocols.tls13,
        })
    }

    /// What became of the certificate of a client; `now` is in seconds of the day's clock.
    pub fn judge(&self, session: &Connection, now: i64) -> Verdict {
        let auth = self.auth.as_ref();
        auth.map_or(Verdict::None, |auth| {
            auth.judge(session.peer_certificates(), now)
        })
    }

    /// Asks whether the certificate of a client is revoked, where that is wanted. `context` ends messages that are about
    /// the handshake.
    pub async fn confirm(
        &self,
        session: &Connection,
        ask: impl AsyncFn(&Responder, &[u8]) -> Answer,
        report: &Report<'_>,
        context: &dyn fmt::Display,
    ) -> Result<(), Doubt> {
        let auth = self.auth.as_ref();
        let wanted = auth.and_then(|auth| Some((&auth.trust, auth.ocsp.as_ref()?)));
        let Some(((trust, ocsp), shown)) = wanted.zip(session.peer_certificates()) else {
            return Ok(());
        };
        let asker = Asker {
            ask,
            report,
            context,
        };
        ocsp.confirm(trust, shown, &asker).await
    }

    /// Statements that it is time to ask for; who takes one asks and lets it [`learn`](Staple::learn) the answer.
    pub fn due_staples(&self, now: i64) -> impl Iterator<Item = Arc<Staple>> {
        let staples = self.staples.iter();
        staples.filter(move |staple| staple.begin(now)).cloned()
    }

    /// nginx's warnings about what the settings ask for and do not get.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// For handshakes.
    pub fn config(&self, http2: bool) -> Arc<ServerConfig> {
        if http2 {
            self.with_http2.clone()
        } else {
            self.config.clone()
        }
    }

    /// For the handshake of one connection, whose certificates and keys are called so; `now` is in seconds of the day's
    /// clock. The error is nginx's message.
    pub fn config_with(
        &self,
        ssl: &Ssl,
        names: &[(Vec<u8>, Vec<u8>)],
        http2: bool,
        now: i64,
    ) -> Result<Arc<ServerConfig>, String> {
        let certified = |(certificate, key): &(Vec<u8>, Vec<u8>)| {
            let (certificate, key) = certificates::sources(ssl, certificate, key);
            let found = match &self.cache {
                None => objects::certified_key(&certificate, &key, &ssl.passwords),
                Some(cache) => cache.certified_key(&certificate, &key, &ssl.passwords, now),
            };
            found.map(Own::from)
        };
        let keys: Vec<Own> = names.iter().map(certified).collect::<Result<_, _>>()?;
        let mut config = ServerConfig::clone(&self.config(http2));
        config.cert_resolver = Arc::new(Certificates(keys));
        Ok(Arc::new(config))
    }

    pub(super) fn speaks_tls13(&self) -> bool {
        self.speaks_tls13
    }
}

/// Sets how sessions are resumed: by tickets, or kept here.
fn resumption(
    config: &mut ServerConfig,
    ssl: &Ssl,
    (realm, context): (&'static str, Context),
    workshop: &Workshop<'_>,
) -> Result<(), String> {
    let zone = workshop.zone(realm, ssl);
    config.send_tls13_tickets = 2;
    // DIFFERS(early-data): a session brings early data once, so that nobody can send it again; nginx lets that happen.
    if ssl.early_data {
        config.max_early_data_size = EARLY_DATA;
        config.send_half_rtt_data = true;
        let own = || Arc::new(Zone::new(Room::Sessions(SESSIONS)));
        config.session_storage = Arc::new(Store {
            zone: Some(zone.unwrap_or_else(own)),
            context,
            lifetime: ssl.session_timeout,
        });
        return Ok(());
    }
    if ssl.session_cache == SessionCache::Off {
        config.session_storage = Arc::new(NoServerSessionStorage {});
    } else {
        config.session_storage = Arc::new(Store {
            zone,
            context,
            lifetime: ssl.session_timeout,
        });
    }
    if ssl.session_tickets {
        config.ticketer = Arc::new(Tickets {
            keys: ticket_keys(ssl, workshop)?,
            context,
            lifetime: ssl.session_timeout,
        });
    }
    Ok(())
}

fn ticket_keys(ssl: &Ssl, workshop: &Workshop<'_>) -> Result<Keys, String> {
    let files = ssl.session_ticket_keys.iter().map(TicketKey::read);
    let fixed: Vec<TicketKey> = files.collect::<Result<_, _>>()?;
    Ok(match &workshop.keyring {
        Some(keyring) if fixed.is_empty() => Keys::Renewed(keyring.clone()),
        _ => Keys::Fixed(fixed),
    })
}

/// The versions of TLS that are asked for and that there are.
pub(super) fn versions(
    protocols: Protocols,
) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    if protocols.tls13 {
        versions.push(&TLS13);
    }
    if protocols.tls12 {
        versions.push(&TLS12);
    }
    if versions.is_empty() {
        return Err(
            "none of these versions of TLS is supported: TLSv1.2 and TLSv1.3 are".to_owned(),
        );
    }
    Ok(versions)
}

/// Algorithms as the settings select them.
pub(super) fn provider(
    list: &str,
    tls13: Option<&str>,
    curves: &str,
    protocols: Protocols,
) -> Result<CryptoProvider, String> {
    let mut provider = default_provider();
    let tls12 = ciphers::select(list);
    if tls12.is_empty() && protocols.tls12 {
        return Err(format!(
            "SSL_CTX_set_cipher_list(\"{list}\") failed (SSL: error:0A0000B9:SSL routines::no cipher match)"
        ));
    }
    provider.cipher_suites = ciphers::select_tls13(tls13);
    provider.cipher_suites.extend(tls12);
    provider.kx_groups = ciphers::groups(curves)
        .ok_or_else(|| format!("SSL_CTX_set1_curves_list(\"{curves}\") failed"))?;
    Ok(provider)
}
