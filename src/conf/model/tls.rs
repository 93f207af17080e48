//! TLS, of servers towards clients and of proxies towards upstreams.
//!
//! Mirrors `ngx_http_ssl_srv_conf_t`, `ngx_stream_ssl_srv_conf_t` and the `ssl_*` members of the proxy modules. What is
//! here is checked as far as it can be without opening a certificate; files are named with their full paths, which begin
//! at the configuration file's directory as in nginx. Passwords alone are read with the configuration, as nginx does.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::vars::Template;

layered! {
    /// `ssl_*` of `server`, in `http` and in `stream`. Servers that say nothing themselves share that of the block around.
    pub struct Ssl / SslDraft {
        /// `ssl_certificate`, in order; see [`Ssl::certificates`].
        certificate: Vec<PemName> = Vec::new(),
        /// `ssl_certificate_key`, in order; there are at least as many as certificates.
        certificate_key: Vec<PemName> = Vec::new(),
        /// `ssl_certificate_cache`; None = `off`. Blocks that inherit it share what is kept.
        certificate_cache: Option<Arc<CertificateCache>> = None,
        /// `ssl_certificate_compression`
        certificate_compression: bool = false,
        /// `ssl_ech_file`: not supported, as in an nginx whose OpenSSL cannot do it either.
        ech_files: Vec<PathBuf> = Vec::new(),
        /// `ssl_password_file`
        passwords: Passwords = Passwords::default(),
        /// `ssl_protocols`
        protocols: Protocols = Protocols::DEFAULT,
        /// `ssl_ciphers`: a list in OpenSSL's form.
        ciphers: Arc<str> = "HIGH:!aNULL:!MD5".into(),
        /// `ssl_prefer_server_ciphers`
        prefer_server_ciphers: bool = false,
        /// `ssl_ecdh_curve`: names with colons between, or `auto`.
        ecdh_curve: Arc<str> = "auto".into(),
        /// `ssl_session_cache`: what is kept by each worker, or nothing.
        session_cache: SessionCache = SessionCache::None,
        /// `ssl_session_cache shared:NAME:SIZE`
        session_zone: Option<SslZone> = None,
        /// `ssl_session_timeout`
        session_timeout: Duration = Duration::from_mins(5),
        /// `ssl_session_tickets`
        session_tickets: bool = true,
        /// `ssl_session_ticket_key`, in order: the first encrypts.
        session_ticket_keys: Vec<PathBuf> = Vec::new(),
        /// `ssl_verify_client`
        verify_client: VerifyClient = VerifyClient::Off,
        /// `ssl_verify_depth`
        verify_depth: u32 = 1,
        /// `ssl_client_certificate`: authorities of which clients are told.
        client_certificate: Option<PathBuf> = None,
        /// `ssl_trusted_certificate`: authorities of which they are not.
        trusted_certificate: Option<PathBuf> = None,
        /// `ssl_crl`
        crl: Option<PathBuf> = None,
        /// `ssl_ocsp`
        ocsp: Ocsp = Ocsp::Off,
        /// `ssl_ocsp_responder`: a URL instead of the certificates' own.
        ocsp_responder: Option<Arc<str>> = None,
        /// `ssl_ocsp_cache`; None = `off`.
        ocsp_cache: Option<SslZone> = None,
        /// `ssl_stapling`
        stapling: bool = false,
        /// `ssl_stapling_file`: an answer in DER, instead of asking for one.
        stapling_file: Option<PathBuf> = None,
        /// `ssl_stapling_responder`: a URL instead of the certificate's own.
        stapling_responder: Option<Arc<str>> = None,
        /// `ssl_stapling_verify`
        stapling_verify: bool = false,
        /// `ssl_early_data`; `http` only.
        early_data: bool = false,
        /// `ssl_buffer_size`, bytes; `http` only.
        buffer_size: usize = 16384,
        /// `ssl_reject_handshake`
        reject_handshake: bool = false,
        /// `ssl_conf_command`, name and value, in order. What they say is in the other fields already.
        conf_commands: Vec<(Arc<str>, Arc<str>)> = Vec::new(),
        /// `ssl_conf_command Ciphersuites`: those of TLS 1.3 in OpenSSL's form; None = all.
        ciphersuites: Option<Arc<str>> = None,
        /// `ssl_alpn`, in order of preference; `stream` only.
        alpn: Vec<Arc<[u8]>> = Vec::new(),
        /// `ssl_handshake_timeout`; `stream` only: `client_header_timeout` bounds handshakes of `http`.
        handshake_timeout: Duration = Duration::from_mins(1),
        /// Directory of the configuration file, where a path begins whose text has variables.
        directory: Arc<Path> = Path::new("").into(),
    }
}

impl Ssl {
    /// Certificates with their keys, in order; of two for one kind of key the later counts. Fixed ones have full paths; with variables, see [`Pem::new`].
    pub fn certificates(&self) -> impl ExactSizeIterator<Item = (&Template, &Template)> {
        let pairs = self.certificate.iter().zip(&self.certificate_key);
        pairs.map(|(certificate, key)| (&certificate.template, &key.template))
    }

    /// Whether the server can take part in handshakes at all, if only to refuse them.
    pub fn is_usable(&self) -> bool {
        !self.certificate.is_empty() || self.reject_handshake
    }

    /// Whether certificates are known for each connection only (`certificate_values` in nginx: one with variables makes all so).
    pub fn is_dynamic(&self) -> bool {
        self.certificates().any(|(certificate, key)| {
            certificate.as_literal().is_none() || key.as_literal().is_none()
        })
    }
}

layered! {
    /// `proxy_ssl_*` of `http` and `stream`, and their like of other protocols. Blocks that say nothing themselves share
    /// that of the block around.
    pub struct UpstreamSsl / UpstreamSslDraft {
        /// `proxy_ssl`; `stream` only. In `http` the scheme of `proxy_pass` decides.
        enabled: bool = false,
        /// `proxy_ssl_name`; None = the host of `proxy_pass`. A port in it is cut off.
        name: Option<Template> = None,
        /// `proxy_ssl_server_name`: upstreams are told the name.
        server_name: bool = false,
        /// `proxy_ssl_verify`
        verify: bool = false,
        /// `proxy_ssl_verify_depth`
        verify_depth: u32 = 1,
        /// `proxy_ssl_trusted_certificate`
        trusted_certificate: Option<PathBuf> = None,
        /// `proxy_ssl_crl`; read where certificates are verified.
        crl: Option<PathBuf> = None,
        /// `proxy_ssl_certificate`; None = none, the empty text too. A fixed one has a full path; with variables, see
        /// [`Pem::new`].
        certificate: Option<PemName> = None,
        /// `proxy_ssl_certificate_key`; there where a certificate is.
        certificate_key: Option<PemName> = None,
        /// `proxy_ssl_certificate_cache`; None = `off`.
        certificate_cache: Option<Arc<CertificateCache>> = None,
        /// `proxy_ssl_password_file`
        passwords: Passwords = Passwords::default(),
        /// `proxy_ssl_protocols`
        protocols: Protocols = Protocols::DEFAULT,
        /// `proxy_ssl_ciphers`: a list in OpenSSL's form.
        ciphers: Arc<str> = "DEFAULT".into(),
        /// `proxy_ssl_session_reuse`
        session_reuse: bool = true,
        /// `proxy_ssl_conf_command`, name and value, in order. What they say is in the other fields already.
        conf_commands: Vec<(Arc<str>, Arc<str>)> = Vec::new(),
        /// `proxy_ssl_conf_command Ciphersuites`: those of TLS 1.3 in OpenSSL's form; None = all.
        ciphersuites: Option<Arc<str>> = None,
        /// `proxy_ssl_conf_command Curves`: names with colons between, or `auto`.
        ecdh_curve: Arc<str> = "auto".into(),
        /// `proxy_ssl_alpn`, in order of preference; `stream` only.
        alpn: Vec<Template> = Vec::new(),
        /// Directory of the configuration file, where a path begins whose text has variables.
        directory: Arc<Path> = Path::new("").into(),
    }
}

impl UpstreamSsl {
    /// The certificate with its key, if connections to upstreams have one.
    pub fn certificates(&self) -> Option<(&Template, &Template)> {
        let pair = self.certificate.as_ref().zip(self.certificate_key.as_ref());
        pair.map(|(certificate, key)| (&certificate.template, &key.template))
    }
}

/// What a certificate or key is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemName {
    /// The argument as written.
    pub written: Arc<str>,
    /// The same; a fixed file has its full path.
    pub template: Template,
}

/// Where a certificate or a key comes from (`ngx_ssl_cache_init_key`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pem {
    /// A file, with its full path.
    File(PathBuf),
    /// `data:`: what follows is PEM itself.
    Data(Vec<u8>),
    /// `engine:` (keys only), with the whole text.
    Engine(Vec<u8>),
    /// `store:` (keys only), with the whole text.
    Store(Vec<u8>),
}

impl Pem {
    /// A certificate as `text` (with variables replaced) names it; a relative path begins at `directory`.
    pub fn new(text: &[u8], directory: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt;
        match text.strip_prefix(b"data:") {
            Some(data) => Self::Data(data.to_vec()),
            None => Self::File(directory.join(std::ffi::OsStr::from_bytes(text))),
        }
    }

    /// A key likewise.
    pub fn key(text: &[u8], directory: &Path) -> Self {
        if text.starts_with(b"engine:") {
            Self::Engine(text.to_vec())
        } else if text.starts_with(b"store:") {
            Self::Store(text.to_vec())
        } else {
            Self::new(text, directory)
        }
    }
}

/// `ssl_certificate_cache`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateCache {
    /// `max`: how many are kept.
    pub max: usize,
    /// `inactive`: how long without use.
    pub inactive: Duration,
    /// `valid`: how long without looking at the file again.
    pub valid: Duration,
}

/// Lines of a password file. Each is tried for an encrypted key, in order; none is ever shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Passwords(pub Arc<[Box<[u8]>]>);

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passwords({})", self.0.len())
    }
}

/// Versions of TLS: `ssl_protocols` and its kin.
#[expect(clippy::struct_excessive_bools, reason = "a set of six words")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Protocols {
    /// `SSLv2`; OpenSSL has it no more.
    pub ssl2: bool,
    /// `SSLv3`; not spoken here.
    pub ssl3: bool,
    /// `TLSv1`; not spoken here.
    pub tls1: bool,
    /// `TLSv1.1`; not spoken here.
    pub tls11: bool,
    /// `TLSv1.2`
    pub tls12: bool,
    /// `TLSv1.3`
    pub tls13: bool,
}

impl Protocols {
    /// What nginx speaks where nothing is said.
    pub const DEFAULT: Self = Self {
        ssl2: false,
        ssl3: false,
        tls1: false,
        tls11: false,
        tls12: true,
        tls13: true,
    };
}

/// Sessions that a worker keeps for its own clients (`builtin_session_cache`); a [`SslZone`] may be beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCache {
    /// `off`: clients are told that sessions cannot be resumed.
    Off,
    /// `none`, the default: clients are told that they can, but none is kept.
    None,
    /// `builtin`: OpenSSL's own cache of this many sessions (20480 where no number is given).
    Builtin(usize),
    /// There is a zone and nothing was said of a built-in one.
    ZoneOnly,
}

/// A shared zone of sessions or of OCSP answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SslZone {
    /// Its name; zones of one name are one.
    pub name: Arc<str>,
    /// Bytes.
    pub size: u64,
}

/// `ssl_verify_client`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyClient {
    /// `off`
    Off,
    /// `on`
    On,
    /// `optional`
    Optional,
    /// `optional_no_ca`
    OptionalNoCa,
}

/// `ssl_ocsp`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ocsp {
    /// `off`
    Off,
    /// `on`: the whole chain is asked about.
    On,
    /// `leaf`: the client's own certificate alone.
    Leaf,
}
