//! `proxy_ssl_*` and `grpc_ssl_*`: TLS towards upstreams, in `http` and in `stream`.
//!
//! Mirrors the TLS part of `http/modules/ngx_http_proxy_module.c` and `stream/ngx_stream_proxy_module.c`. nginx has most of
//! these once a protocol: one list here yields the rows of each.

use super::{
    FLAG, HSL, ONE_MORE, Row, STREAM, STREAM_SERVER, TAKE1, TAKE2, TAKE123,
    ssl_values::{certificate_cache, command, file, only_name, passwords, protocols, text},
};
use crate::{
    conf::{
        error::Problem,
        parser::Statement,
        read::{Reader, first, flag, num, unset},
    },
    vars::Template,
};

/// The rows of one protocol: its prefix, the contexts, the draft, and rows that it has alone.
macro_rules! rows {
    ($prefix:literal, $contexts:ident, $draft:ident; $($own:expr,)*) => {
        &[
            Row::new(
                concat!($prefix, "_ssl_certificate"),
                $contexts,
                TAKE1,
                |r, s| only_name(r, s, |r| &mut r.$draft().certificate),
                "Names the file with the certificate for servers.",
            ).takes("<file> | data:<pem>", ""),
            Row::new(
                concat!($prefix, "_ssl_certificate_key"),
                $contexts,
                TAKE1,
                |r, s| only_name(r, s, |r| &mut r.$draft().certificate_key),
                "Names the file with the key of that certificate.",
            ).takes("<file> | data:<pem>", ""),
            Row::new(
                concat!($prefix, "_ssl_certificate_cache"),
                $contexts,
                TAKE123,
                |r, s| certificate_cache(r, s, |r| &mut r.$draft().certificate_cache),
                "Keeps certificates whose name has variables.",
            ).takes("off; max=<number> [inactive=<time>] [valid=<time>]", "off"),
            Row::new(
                concat!($prefix, "_ssl_password_file"),
                $contexts,
                TAKE1,
                |r, s| passwords(r, s, |r| &mut r.$draft().passwords),
                "Names the file with passwords of keys, one a line.",
            ).takes("<file>", ""),
            Row::new(
                concat!($prefix, "_ssl_ciphers"),
                $contexts,
                TAKE1,
                |r, s| text(&mut r.$draft().ciphers, s),
                "Sets the ciphers of TLS 1.2 for connections to servers.",
            ).takes("<ciphers>", "DEFAULT"),
            Row::new(
                concat!($prefix, "_ssl_conf_command"),
                $contexts,
                TAKE2,
                |r, s| command(r, s, |r| &mut r.$draft().conf_commands),
                "Sets what OpenSSL's command of this name would set; a few are known.",
            ).takes("<name> <value>", "").differs(&["conf-command"]),
            Row::new(
                concat!($prefix, "_ssl_crl"),
                $contexts,
                TAKE1,
                |r, s| file(r, s, |r| &mut r.$draft().crl),
                "Names the file with revoked certificates of servers.",
            ).takes("<file>", ""),
            Row::new(
                concat!($prefix, "_ssl_name"),
                $contexts,
                TAKE1,
                |r, s| server(r, s, |r| &mut r.$draft().name),
                "Sets the name that servers must have, instead of the host that is written where requests are passed on.",
            ).takes("<name>", ""),
            Row::new(
                concat!($prefix, "_ssl_protocols"),
                $contexts,
                ONE_MORE,
                |r, s| protocols(r, s, |r| &mut r.$draft().protocols),
                "Sets the versions of TLS for connections to servers; 1.2 and 1.3 are there.",
            ).takes("SSLv2 | SSLv3 | TLSv1 | TLSv1.1 | TLSv1.2 | TLSv1.3 ...", "TLSv1.2 TLSv1.3").differs(&["tls-versions"]),
            Row::new(
                concat!($prefix, "_ssl_server_name"),
                $contexts,
                FLAG,
                |r, s| flag(&mut r.$draft().server_name, s),
                "Tells servers which name is meant.",
            ).default("off").differs(&["sni-case"]),
            Row::new(
                concat!($prefix, "_ssl_session_reuse"),
                $contexts,
                FLAG,
                |r, s| flag(&mut r.$draft().session_reuse, s),
                "Resumes sessions with servers.",
            ).default("on").differs(&["tls-sessions"]),
            Row::new(
                concat!($prefix, "_ssl_trusted_certificate"),
                $contexts,
                TAKE1,
                |r, s| file(r, s, |r| &mut r.$draft().trusted_certificate),
                "Names the file with the authorities of servers' certificates.",
            ).takes("<file>", ""),
            Row::new(
                concat!($prefix, "_ssl_verify"),
                $contexts,
                FLAG,
                |r, s| flag(&mut r.$draft().verify, s),
                "Verifies servers' certificates.",
            ).default("off"),
            Row::new(
                concat!($prefix, "_ssl_verify_depth"),
                $contexts,
                TAKE1,
                |r, s| num(&mut r.$draft().verify_depth, s),
                "Bounds the chain of a server's certificate.",
            ).takes("<number>", "1"),
            $($own,)*
        ]
    };
}

pub(super) const ROWS: &[Row] = rows! { "proxy", HSL, proxy_ssl; };

pub(super) const GRPC_ROWS: &[Row] = rows! { "grpc", HSL, grpc_ssl; };

pub(super) const STREAM_ROWS: &[Row] = rows! { "proxy", BOTH, proxy_ssl;
    Row::new(
        "proxy_ssl",
        BOTH,
        FLAG,
        |r, s| flag(&mut r.proxy_ssl().enabled, s),
        "Speaks TLS with servers.",
    ).default("off"),
    Row::new(
        "proxy_ssl_alpn",
        BOTH,
        ONE_MORE,
        alpn,
        "Sets the protocols that servers may choose from.",
    ).takes("<protocol> ...", ""),
};

const BOTH: u32 = STREAM | STREAM_SERVER;

/// The name of a server.
fn server(
    reader: &mut Reader,
    statement: &Statement,
    slot: fn(&mut Reader) -> &mut Option<Option<Template>>,
) -> Result<(), Problem> {
    unset(slot(reader).as_ref())?;
    let name = reader.template(first(statement))?;
    *slot(reader) = Some(Some(name));
    Ok(())
}

/// `proxy_ssl_alpn`
fn alpn(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.proxy_ssl().alpn.as_ref())?;
    let mut protocols = Vec::new();
    for word in &statement.args {
        let protocol = reader.template(word.bytes())?;
        if protocol.as_literal().is_some_and(|text| text.len() > 255) {
            return Err(Problem::Directive("protocol too long".to_owned()));
        }
        protocols.push(protocol);
    }
    reader.proxy_ssl().alpn = Some(protocols);
    Ok(())
}
