//! `ssl_*`: TLS towards clients, in `http` and in `stream`.
//!
//! Mirrors `http/modules/ngx_http_ssl_module.c` and `stream/ngx_stream_ssl_module.c`. nginx has nearly all of these twice:
//! one list here yields the rows of both.

use super::{
    FLAG, HTTP, ONE_MORE, Row, SERVER, STREAM, STREAM_SERVER, TAKE1, TAKE2, TAKE12, TAKE123,
    ssl_values::{
        alpn, certificate_cache, command, file, files, name, not_supported, ocsp_cache, optional,
        passwords, protocols, session_cache, text,
    },
};
use crate::conf::{
    model::{Ocsp, VerifyClient},
    read::{bytes, choice, flag, msec, num, sec},
};

/// The rows of one realm, with those that it has alone.
macro_rules! rows {
    ($contexts:ident; $($own:expr,)*) => {
        &[
            Row::new(
                "ssl_certificate",
                $contexts,
                TAKE1,
                |r, s| name(r, s, |r| &mut r.ssl().certificate),
                "Names the file with a server's certificate, PEM, followed by the chain; several are for several kinds of key.",
            ).takes("<file> | data:<pem>", "").differs(&["resumed-certificate"]),
            Row::new(
                "ssl_certificate_key",
                $contexts,
                TAKE1,
                |r, s| name(r, s, |r| &mut r.ssl().certificate_key),
                "Names the file with the key of the certificate; `data:` is followed by the key itself.",
            ).takes("<file> | data:<pem> | store:file:<file>", "").differs(&["key-kind", "engines"]),
            Row::new(
                "ssl_certificate_cache",
                $contexts,
                TAKE123,
                |r, s| certificate_cache(r, s, |r| &mut r.ssl().certificate_cache),
                "Keeps certificates whose name has variables.",
            ).takes("off; max=<number> [inactive=<time>] [valid=<time>]", "off"),
            Row::new(
                "ssl_certificate_compression",
                $contexts,
                FLAG,
                |r, s| flag(&mut r.ssl().certificate_compression, s),
                "Compresses certificates.",
            ).default("off").differs(&["certificate-compression"]),
            Row::accepted(
                "ssl_ech_file",
                $contexts,
                TAKE1,
                |r, s| files(r, s, |r| &mut r.ssl().ech_files),
                "Names the file with keys for Encrypted Client Hello; a warning says that it is not used.",
            ).takes("<file>", ""),
            Row::new(
                "ssl_password_file",
                $contexts,
                TAKE1,
                |r, s| passwords(r, s, |r| &mut r.ssl().passwords),
                "Names the file with passwords of keys, one a line.",
            ).takes("<file>", "").differs(&["pass-phrase"]),
            Row::accepted(
                "ssl_dhparam",
                $contexts,
                TAKE1,
                not_supported,
                "Names the file with DH parameters; a warning says that it is not used.",
            ).takes("<file>", "").differs(&["dhe"]),
            Row::new(
                "ssl_ecdh_curve",
                $contexts,
                TAKE1,
                |r, s| text(&mut r.ssl().ecdh_curve, s),
                "Sets the curves for ECDHE.",
            ).takes("<curves>", "auto"),
            Row::new(
                "ssl_protocols",
                $contexts,
                ONE_MORE,
                |r, s| protocols(r, s, |r| &mut r.ssl().protocols),
                "Sets the versions of TLS that servers speak; 1.2 and 1.3 are there.",
            ).takes("SSLv2 | SSLv3 | TLSv1 | TLSv1.1 | TLSv1.2 | TLSv1.3 ...", "TLSv1.2 TLSv1.3").differs(&["tls-versions"]),
            Row::new(
                "ssl_ciphers",
                $contexts,
                TAKE1,
                |r, s| text(&mut r.ssl().ciphers, s),
                "Sets the ciphers of TLS 1.2 that servers take.",
            ).takes("<ciphers>", "HIGH:!aNULL:!MD5"),
            Row::new(
                "ssl_verify_client",
                $contexts,
                TAKE1,
                |r, s| choice(&mut r.ssl().verify_client, s, &VERIFY),
                "Asks clients for a certificate.",
            ).takes("off | on | optional | optional_no_ca", "off"),
            Row::new(
                "ssl_verify_depth",
                $contexts,
                TAKE1,
                |r, s| num(&mut r.ssl().verify_depth, s),
                "Bounds the chain of a client's certificate.",
            ).takes("<number>", "1"),
            Row::new(
                "ssl_client_certificate",
                $contexts,
                TAKE1,
                |r, s| file(r, s, |r| &mut r.ssl().client_certificate),
                "Names the file with the authorities of clients' certificates.",
            ).takes("<file>", ""),
            Row::new(
                "ssl_trusted_certificate",
                $contexts,
                TAKE1,
                |r, s| file(r, s, |r| &mut r.ssl().trusted_certificate),
                "Names the file with authorities that clients are not told of.",
            ).takes("<file>", ""),
            Row::new(
                "ssl_prefer_server_ciphers",
                $contexts,
                FLAG,
                |r, s| flag(&mut r.ssl().prefer_server_ciphers, s),
                "Lets the server's order of ciphers decide.",
            ).default("off"),
            Row::new(
                "ssl_session_cache",
                $contexts,
                TAKE12,
                session_cache,
                "Keeps sessions so that clients can resume them.",
            ).takes("off | none; builtin[:<number>] [shared:<name>:<size>]; shared:<name>:<size>", "none").differs(&["session-zone"]),
            Row::new(
                "ssl_session_tickets",
                $contexts,
                FLAG,
                |r, s| flag(&mut r.ssl().session_tickets, s),
                "Lets clients keep sessions in tickets.",
            ).default("on").differs(&["tickets"]),
            Row::new(
                "ssl_session_ticket_key",
                $contexts,
                TAKE1,
                |r, s| files(r, s, |r| &mut r.ssl().session_ticket_keys),
                "Names the file with the key of tickets; the first encrypts, all decrypt.",
            ).takes("<file>", "").differs(&["tickets"]),
            Row::new(
                "ssl_session_timeout",
                $contexts,
                TAKE1,
                |r, s| sec(&mut r.ssl().session_timeout, s),
                "Sets how long sessions may be resumed.",
            ).takes("<time>", "5m"),
            Row::new(
                "ssl_crl",
                $contexts,
                TAKE1,
                |r, s| file(r, s, |r| &mut r.ssl().crl),
                "Names the file with revoked certificates.",
            ).takes("<file>", ""),
            Row::new(
                "ssl_ocsp",
                $contexts,
                TAKE1,
                |r, s| choice(&mut r.ssl().ocsp, s, &OCSP),
                "Asks whether clients' certificates are revoked.",
            ).takes("off | on | leaf", "off"),
            Row::new(
                "ssl_ocsp_cache",
                $contexts,
                TAKE1,
                ocsp_cache,
                "Keeps such answers.",
            ).takes("off | shared:<name>:<size>", "off"),
            Row::new(
                "ssl_ocsp_responder",
                $contexts,
                TAKE1,
                |r, s| optional(&mut r.ssl().ocsp_responder, s),
                "Sets whom to ask.",
            ).takes("<url>", ""),
            Row::new(
                "ssl_stapling",
                $contexts,
                FLAG,
                |r, s| flag(&mut r.ssl().stapling, s),
                "Sends with the certificate that it is not revoked.",
            ).default("off").differs(&["stapling-wanted"]),
            Row::new(
                "ssl_stapling_file",
                $contexts,
                TAKE1,
                |r, s| file(r, s, |r| &mut r.ssl().stapling_file),
                "Names the file with that statement.",
            ).takes("<file>", ""),
            Row::new(
                "ssl_stapling_responder",
                $contexts,
                TAKE1,
                |r, s| optional(&mut r.ssl().stapling_responder, s),
                "Sets whom to ask for that statement.",
            ).takes("<url>", ""),
            Row::new(
                "ssl_stapling_verify",
                $contexts,
                FLAG,
                |r, s| flag(&mut r.ssl().stapling_verify, s),
                "Verifies that statement.",
            ).default("off"),
            Row::new(
                "ssl_conf_command",
                $contexts,
                TAKE2,
                |r, s| command(r, s, |r| &mut r.ssl().conf_commands),
                "Sets what OpenSSL's command of this name would set; a few are known.",
            ).takes("<name> <value>", "").differs(&["conf-command"]),
            Row::new(
                "ssl_reject_handshake",
                $contexts,
                FLAG,
                |r, s| flag(&mut r.ssl().reject_handshake, s),
                "Refuses connections for this server.",
            ).default("off"),
            $($own,)*
        ]
    };
}

pub(super) const ROWS: &[Row] = rows! { HS;
    Row::new(
        "ssl_buffer_size",
        HS,
        TAKE1,
        |r, s| bytes(&mut r.ssl().buffer_size, s),
        "Sets how much is encrypted at once.",
    ).takes("<size>", "16k"),
    Row::new(
        "ssl_early_data",
        HS,
        FLAG,
        |r, s| flag(&mut r.ssl().early_data, s),
        "Takes data before the handshake of TLS 1.3 ends.",
    ).default("off").differs(&["early-data"]),
};

pub(super) const STREAM_ROWS: &[Row] = rows! { BOTH;
    Row::new(
        "ssl_alpn",
        BOTH,
        ONE_MORE,
        alpn,
        "Sets the protocols of which a client may choose.",
    ).takes("<protocol> ...", ""),
    Row::new(
        "ssl_handshake_timeout",
        BOTH,
        TAKE1,
        |r, s| msec(&mut r.ssl().handshake_timeout, s),
        "Bounds a handshake.",
    ).takes("<time>", "60s"),
};

const HS: u32 = HTTP | SERVER;
const BOTH: u32 = STREAM | STREAM_SERVER;

const VERIFY: [(&str, VerifyClient); 4] = [
    ("off", VerifyClient::Off),
    ("on", VerifyClient::On),
    ("optional", VerifyClient::Optional),
    ("optional_no_ca", VerifyClient::OptionalNoCa),
];

const OCSP: [(&str, Ocsp); 3] = [("off", Ocsp::Off), ("on", Ocsp::On), ("leaf", Ocsp::Leaf)];
