//! What servers need for handshakes: one context for each block of `ssl_*` settings.
//!
//! Mirrors `ngx_http_ssl_merge_srv_conf` and `ngx_stream_ssl_merge_srv_conf` from where they make an `SSL_CTX`.

use std::{collections::HashMap, fmt, sync::Arc};

use rustls::{
    Connection, ServerConfig, SignatureScheme, SupportedProtocolVersion,
    crypto::{CryptoProvider, aws_lc_rs::default_provider},
    server::{
        ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache,
        StoresServerSessions,
    },
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use super::{
    cache::Cache,
    ciphers,
    client::{self, ClientContext},
    client_auth::{ClientAuth, Verdict},
    pem,
    tickets::{TicketKey, Tickets},
};
use crate::conf::model::{Config, Pem, Protocols, SessionCache, Ssl, UpstreamSsl};

/// The contexts of a whole configuration. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Contexts {
    /// By address of the settings, which the configuration keeps.
    servers: Arc<HashMap<usize, Arc<ServerContext>>>,
    /// Likewise for proxies.
    clients: Arc<HashMap<usize, Arc<ClientContext>>>,
    random: Option<TicketKey>,
}

impl Contexts {
    /// Loads everything that the servers of `config` name. `older` are those before a reload: their tickets stay good. The
    /// error is nginx's message.
    pub fn new(config: &Config, older: Option<&Self>) -> Result<Self, String> {
        let known = older.and_then(|older| older.random.clone());
        let random = known.or_else(TicketKey::random);
        let http = config
            .http
            .iter()
            .flat_map(|http| &http.servers)
            .map(|server| &server.ssl);
        let streams = config.stream.iter().flat_map(|stream| &stream.servers);
        let mut servers = HashMap::new();
        for ssl in http.chain(streams.map(|server| &server.ssl)) {
            if ssl.is_usable() && !servers.contains_key(&address(ssl)) {
                let context = ServerContext::new(ssl, random.as_ref())?;
                servers.insert(address(ssl), Arc::new(context));
            }
        }
        Ok(Self {
            servers: Arc::new(servers),
            clients: Arc::new(clients(config)?),
            random,
        })
    }

    /// The context of these settings; None when a server cannot take part in handshakes.
    pub fn server(&self, ssl: &Arc<Ssl>) -> Option<&Arc<ServerContext>> {
        self.servers.get(&address(ssl))
    }

    /// The context of these settings of a proxy; None where nothing goes out over TLS.
    pub fn client(&self, ssl: &Arc<UpstreamSsl>) -> Option<&Arc<ClientContext>> {
        self.clients.get(&address(ssl))
    }
}

/// Contexts of all proxies that may speak TLS.
fn clients(config: &Config) -> Result<HashMap<usize, Arc<ClientContext>>, String> {
    let mut wanted: Vec<Arc<UpstreamSsl>> = Vec::new();
    if let Some(http) = &config.http {
        http.each_location(&mut |location| {
            let proxy = location.grpc.as_ref().unwrap_or(&location.proxy);
            if proxy.pass.as_ref().is_some_and(|pass| pass.may_be_tls()) {
                wanted.push(proxy.ssl.clone());
            }
        });
    }
    let streams = config.stream.iter().flat_map(|stream| &stream.servers);
    let streams = streams.map(|server| &server.proxy.ssl);
    wanted.extend(streams.filter(|ssl| ssl.enabled).cloned());
    let mut clients = HashMap::new();
    let mut known: Vec<(Arc<UpstreamSsl>, Arc<ClientContext>)> = Vec::new();
    let mut caches: Vec<Arc<Cache>> = Vec::new();
    for ssl in wanted {
        // Blocks that inherit the directive share what is kept.
        let cache = ssl.certificate_cache.map(|rule| {
            let known = caches.iter().find(|cache| cache.rule() == rule);
            let cache = known.cloned().unwrap_or_else(|| Arc::new(Cache::new(rule)));
            caches.push(cache.clone());
            cache
        });
        let alike = known
            .iter()
            .find(|(other, _)| client::is_alike(other, &ssl));
        let context = match alike {
            Some((_, context)) => context.clone(),
            None => Arc::new(ClientContext::new(&ssl, cache)?),
        };
        clients.insert(address(&ssl), context.clone());
        known.push((ssl, context));
    }
    Ok(clients)
}

fn address<T>(settings: &Arc<T>) -> usize {
    Arc::as_ptr(settings).addr()
}

/// What a server's handshakes are made of.
pub struct ServerContext {
    config: Arc<ServerConfig>,
    /// The same with HTTP/2.
    with_http2: Arc<ServerConfig>,
    /// The same with `ssl_alpn`.
    of_stream: Arc<ServerConfig>,
    auth: Option<ClientAuth>,
    /// No handshake comes to a good end (`ssl_reject_handshake`).
    pub rejects: bool,
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

impl ServerContext {
    fn new(ssl: &Ssl, random: Option<&TicketKey>) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (certificate, key) in ssl.certificates() {
            let (Some(certificate), Some(key)) = (certificate.as_literal(), key.as_literal())
            else {
                continue;
            };
            let key = Pem::key(key, &ssl.directory);
            let certificate = Pem::new(certificate, &ssl.directory);
            let certified = pem::certified_key(&certificate, &key, &ssl.passwords)?;
            keys.push(Arc::new(certified));
        }
        let provider = provider(
            &ssl.ciphers,
            ssl.ciphersuites.as_deref(),
            &ssl.ecdh_curve,
            ssl.protocols,
        )?;
        let builder = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions(ssl.protocols)?)
            .map_err(|error| format!("SSL_CTX_new() failed (SSL: {error})"))?;
        let (auth, builder) = match ClientAuth::new(ssl)? {
            Some((auth, verifier)) => (
                Some(auth),
                builder.with_client_cert_verifier(Arc::new(verifier)),
            ),
            None => (None, builder.with_no_client_auth()),
        };
        let mut config = builder.with_cert_resolver(Arc::new(Certificates(keys)));
        config.ignore_client_order = ssl.prefer_server_ciphers;
        config.max_fragment_size = Some(ssl.buffer_size.clamp(64, 16384) + 5);
        config.session_storage = sessions(ssl);
        config.send_tls13_tickets = 2;
        if ssl.session_tickets {
            config.ticketer = Arc::new(Tickets {
                keys: ticket_keys(ssl, random)?,
                lifetime: ssl.session_timeout,
            });
        }
        let (mut with_http2, mut of_stream) = (config.clone(), config.clone());
        of_stream.alpn_protocols = ssl.alpn.iter().map(|name| name.to_vec()).collect();
        config.alpn_protocols = HTTP1.map(<[u8]>::to_vec).to_vec();
        with_http2.alpn_protocols = std::iter::once(&b"h2"[..])
            .chain(HTTP1)
            .map(<[u8]>::to_vec)
            .collect();
        Ok(Self {
            config: Arc::new(config),
            with_http2: Arc::new(with_http2),
            of_stream: Arc::new(of_stream),
            auth,
            rejects: ssl.reject_handshake,
        })
    }

    /// What became of the certificate of a client; `now` is in seconds of the day's clock.
    pub fn judge(&self, session: &Connection, now: i64) -> Verdict {
        let auth = self.auth.as_ref();
        auth.map_or(Verdict::None, |auth| {
            auth.judge(session.peer_certificates(), now)
        })
    }

    /// For handshakes of a server of `stream`.
    pub fn stream(&self) -> Arc<ServerConfig> {
        self.of_stream.clone()
    }

    /// For handshakes of a server of `http`.
    pub fn http(&self, http2: bool) -> Arc<ServerConfig> {
        if http2 {
            self.with_http2.clone()
        } else {
            self.config.clone()
        }
    }
}

fn ticket_keys(ssl: &Ssl, random: Option<&TicketKey>) -> Result<Vec<TicketKey>, String> {
    if ssl.session_ticket_keys.is_empty() {
        return Ok(random.cloned().into_iter().collect());
    }
    ssl.session_ticket_keys
        .iter()
        .map(TicketKey::read)
        .collect()
}

/// Where sessions without tickets are kept.
fn sessions(ssl: &Ssl) -> Arc<dyn StoresServerSessions> {
    let builtin = match ssl.session_cache {
        SessionCache::Builtin(count) => count,
        SessionCache::Off | SessionCache::None | SessionCache::ZoneOnly => 0,
    };
    // nginx keeps some 4000 sessions in a megabyte.
    let zone = ssl
        .session_zone
        .as_ref()
        .map_or(0, |zone| usize::try_from(zone.size / 256).unwrap_or(0));
    match builtin.max(zone) {
        0 => Arc::new(NoServerSessionStorage {}),
        count => ServerSessionMemoryCache::new(count),
    }
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

/// The certificates of a server; which of them a client gets depends on what signatures it knows. Of two with keys of one
/// kind the later counts.
#[derive(Debug)]
struct Certificates(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        let fits = |scheme: &SignatureScheme| {
            let mut keys = self.0.iter().rev();
            keys.find(|certified| certified.key.choose_scheme(&[*scheme]).is_some())
        };
        offered.iter().find_map(fits).or(self.0.last()).cloned()
    }
}
