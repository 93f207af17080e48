//! TLS: drafts of the block that is being read, password files, and what merging checks.
//!
//! Mirrors `ngx_http_ssl_merge_srv_conf`, `ngx_http_ssl_init` (`http/modules/ngx_http_ssl_module.c`), their twins in
//! `stream`, the TLS part of the proxy modules and `ngx_ssl_read_password_file`. What needs certificates to be opened is
//! found when they are.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ListenDraft, Names, Problem, Reader, Realm,
    names::{Named, by_port},
    tls_commands,
};
use crate::{
    conf::{
        error::{ConfError, failed},
        model::{
            Ocsp, Passwords, Pem, PemName, Protocols, ProxyDraft, Responder, Ssl, SslDraft,
            UpstreamSsl, UpstreamSslDraft, VerifyClient,
        },
    },
    vars::Template,
};

impl Reader {
    /// `ssl_*` of the innermost block.
    pub(crate) fn ssl(&mut self) -> &mut SslDraft {
        match self.realm.kind {
            Realm::Http => &mut self.srv.ssl,
            Realm::Stream => &mut self.session.ssl,
        }
    }

    /// `proxy_ssl_*` of the innermost block.
    pub(crate) fn proxy_ssl(&mut self) -> &mut UpstreamSslDraft {
        match self.realm.kind {
            Realm::Http => &mut self.loc.proxy_ssl,
            Realm::Stream => &mut self.session.proxy_ssl,
        }
    }

    /// `grpc_ssl_*` of the innermost block.
    pub(crate) fn grpc_ssl(&mut self) -> &mut UpstreamSslDraft {
        &mut self.loc.grpc_ssl
    }

    /// Where paths of TLS begin: the configuration file's directory.
    pub(crate) fn directory(&self) -> Arc<Path> {
        self.options.file.parent().unwrap_or(Path::new("/")).into()
    }

    /// A path that begins there.
    pub(crate) fn tls_path(&self, path: &[u8]) -> PathBuf {
        self.directory().join(OsStr::from_bytes(path))
    }

    /// The lines of a password file.
    pub(crate) fn passwords(&self, path: &[u8]) -> Result<Passwords, Problem> {
        if self.names == Names::Skip {
            return Ok(Passwords::default());
        }
        let path = self.tls_path(path);
        let wrong = |call: &str, error: &io::Error| Problem::message(failed(call, &path, error));
        let mut file = File::open(&path).map_err(|error| wrong("open", &error))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .map_err(|error| wrong("read", &error))?;
        let lines = || text.split(|byte| *byte == b'\n');
        if lines().any(|line| line.len() >= LONGEST_LINE) {
            let text = format!("too long line in \"{}\"", path.display());
            return Err(Problem::message(text));
        }
        let mut passwords: Vec<Box<[u8]>> = lines()
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
            .map(Box::from)
            .collect();
        if passwords.is_empty() {
            passwords.push(Box::default());
        }
        Ok(Passwords(passwords.into()))
    }

    /// Merges the `ssl_*` of servers with those around.
    pub(super) fn merge_ssl<'d>(
        &mut self,
        drafts: impl Iterator<Item = &'d mut SslDraft>,
        outer: &mut SslDraft,
    ) -> Result<Vec<Arc<Ssl>>, ConfError> {
        outer.directory = Some(self.directory());
        let shared = Arc::new(server(outer));
        let mut merged = Vec::new();
        for draft in drafts {
            let ssl = if draft.is_unset() {
                Arc::clone(&shared)
            } else {
                draft.inherit(outer);
                Arc::new(server(draft))
            };
            self.check_ssl(&ssl)?;
            merged.push(ssl);
        }
        Ok(merged)
    }

    fn check_ssl(&mut self, ssl: &Ssl) -> Result<(), ConfError> {
        if let Some(last) = ssl.certificate.last()
            && ssl.certificate_key.len() < ssl.certificate.len()
        {
            return Err(ConfError::new(format!(
                "no \"ssl_certificate_key\" is defined for certificate \"{}\"",
                last.written
            )));
        }
        if !ssl.is_usable() {
            return Ok(());
        }
        check_protocols(ssl.protocols, "ssl_protocols")?;
        let asked = matches!(ssl.verify_client, VerifyClient::On | VerifyClient::Optional);
        if asked && ssl.client_certificate.is_none() && ssl.trusted_certificate.is_none() {
            return Err(ConfError::new(
                "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
            ));
        }
        if ssl.ocsp != Ocsp::Off {
            self.check_ocsp(ssl)?;
        }
        if !ssl.ech_files.is_empty() {
            let text = "\"ssl_ech_file\" is not supported on this platform, ignored";
            self.warnings.push(text.to_owned());
        }
        if ssl.stapling && ssl.certificate_compression {
            return Err(ConfError::new(
                "\"ssl_stapling\" is incompatible with \"ssl_certificate_compression\"",
            ));
        }
        Ok(())
    }

    /// `ngx_ssl_ocsp`
    fn check_ocsp(&self, ssl: &Ssl) -> Result<(), ConfError> {
        if ssl.verify_client == VerifyClient::OptionalNoCa {
            return Err(ConfError::new(
                "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"",
            ));
        }
        let Some(responder) = &ssl.ocsp_responder else {
            return Ok(());
        };
        Responder::parse(responder, self.names != Names::Skip)
            .map(drop)
            .map_err(|bad| ConfError::new(format!("{bad} in \"ssl_ocsp_responder\"")))
    }
}

/// Settings of a server from a merged draft: paths are full, commands are followed.
fn server(draft: &SslDraft) -> Ssl {
    let mut ssl = draft.build();
    let directory = Arc::clone(&ssl.directory);
    for name in &mut ssl.certificate {
        full_path(name, |text| Pem::new(text, &directory));
    }
    for name in &mut ssl.certificate_key {
        full_path(name, |text| Pem::key(text, &directory));
    }
    tls_commands::apply_server(&mut ssl);
    ssl
}

/// Settings of a proxy likewise.
pub(super) fn upstream(draft: &UpstreamSslDraft) -> UpstreamSsl {
    let mut ssl = draft.build();
    let directory = Arc::clone(&ssl.directory);
    let named = |name: &PemName| !name.written.is_empty();
    ssl.certificate = ssl.certificate.filter(named);
    if let Some(name) = &mut ssl.certificate {
        full_path(name, |text| Pem::new(text, &directory));
    }
    if let Some(name) = &mut ssl.certificate_key {
        full_path(name, |text| Pem::key(text, &directory));
    }
    tls_commands::apply_upstream(&mut ssl);
    ssl
}

fn full_path(name: &mut PemName, source: impl Fn(&[u8]) -> Pem) {
    if let Some(text) = name.template.as_literal()
        && let Pem::File(path) = source(text)
    {
        name.template = Template::literal(path.as_os_str().as_bytes());
    }
}

/// Whether a merged proxy that may speak TLS has what it needs.
pub(super) fn check_proxy(proxy: &ProxyDraft, prefix: &str) -> Result<(), ConfError> {
    match (proxy.pass.as_ref().and_then(Option::as_ref), &proxy.ssl) {
        (Some(pass), Some(ssl)) if pass.may_be_tls() => check_upstream(ssl, prefix),
        _ => Ok(()),
    }
}

/// What a proxy that speaks TLS needs (`ngx_http_proxy_set_ssl`); `prefix` is that of its directives.
pub(super) fn check_upstream(ssl: &UpstreamSsl, prefix: &str) -> Result<(), ConfError> {
    check_protocols(ssl.protocols, &format!("{prefix}_ssl_protocols"))?;
    if let Some(certificate) = &ssl.certificate
        && ssl.certificate_key.is_none()
    {
        return Err(ConfError::new(format!(
            "no \"{prefix}_ssl_certificate_key\" is defined for certificate \"{}\"",
            certificate.written
        )));
    }
    if ssl.verify && ssl.trusted_certificate.is_none() {
        return Err(ConfError::new(format!(
            "no {prefix}_ssl_trusted_certificate for {prefix}_ssl_verify"
        )));
    }
    Ok(())
}

// DIFFERS(tls-versions): OpenSSL speaks TLS 1.0 and 1.1 where its security level lets it.
fn check_protocols(protocols: Protocols, name: &str) -> Result<(), ConfError> {
    if protocols.tls12 || protocols.tls13 {
        return Ok(());
    }
    Err(ConfError::new(format!(
        "\"{name}\" must enable TLSv1.2 or TLSv1.3"
    )))
}

/// Whether each address with `ssl` has a server with a certificate, in the order in which nginx looks.
pub(super) fn check_listens<S: Named>(
    drafts: &[ListenDraft],
    servers: &[Arc<S>],
) -> Result<(), ConfError> {
    let drafts = by_port(drafts.iter()).into_iter().flatten();
    for draft in drafts.filter(|draft| draft.ssl) {
        let default = servers.get(draft.default_server);
        let Some(default) = default.filter(|server| server.ssl().certificate.is_empty()) else {
            continue;
        };
        // A default server that only refuses leaves the others in charge.
        let others = draft.servers.iter().filter_map(|index| servers.get(*index));
        let lacking = if default.ssl().reject_handshake {
            others.into_iter().find(|server| !server.ssl().is_usable())
        } else {
            Some(default)
        };
        if let Some(server) = lacking {
            let (file, line) = server.origin();
            return Err(ConfError::new(format!(
                "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive in {}:{line}",
                file.display()
            )));
        }
    }
    Ok(())
}

/// `NGX_SSL_PASSWORD_BUFFER_SIZE`
const LONGEST_LINE: usize = 4096;
