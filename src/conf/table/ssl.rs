//! TLS directives. There is no TLS yet: what asks for it (`listen ... ssl`, `proxy_pass https://`) is refused, so these
//! have no effect; their values are checked.
//!
//! Mirrors `ngx_http_ssl_module.c` and the TLS part of `ngx_http_proxy_module.c`.

use super::{
    FLAG, HSL, HTTP, ONE_MORE, Row, SERVER, TAKE1, TAKE2, TAKE12, TAKE123,
    accepted::{
        ANYTHING, flag_once, number_once, once, seconds_once, size_once, text_once, word_once,
    },
};
use crate::conf::{error::Problem, parser::Statement, read::Reader, value};

pub(super) const ROWS: &[Row] = &[
    Row::accepted(
        "ssl_certificate",
        HS,
        TAKE1,
        ANYTHING,
        "Names the file with a server's certificate.",
    ),
    Row::accepted(
        "ssl_certificate_key",
        HS,
        TAKE1,
        ANYTHING,
        "Names the file with the key of the certificate.",
    ),
    Row::accepted(
        "ssl_certificate_cache",
        HS,
        TAKE123,
        certificate_cache,
        "Keeps certificates whose path has variables.",
    ),
    Row::accepted(
        "ssl_certificate_compression",
        HS,
        FLAG,
        flag_once,
        "Compresses certificates.",
    ),
    Row::accepted(
        "ssl_ech_file",
        HS,
        TAKE1,
        ANYTHING,
        "Names the file with keys for Encrypted Client Hello.",
    ),
    Row::accepted(
        "ssl_password_file",
        HS,
        TAKE1,
        once,
        "Names the file with passwords of keys.",
    ),
    Row::accepted(
        "ssl_dhparam",
        HS,
        TAKE1,
        once,
        "Names the file with DH parameters.",
    ),
    Row::accepted(
        "ssl_ecdh_curve",
        HS,
        TAKE1,
        once,
        "Sets the curves for ECDHE.",
    ),
    Row::accepted(
        "ssl_protocols",
        HS,
        ONE_MORE,
        protocols,
        "Sets the versions of TLS that servers speak.",
    ),
    Row::accepted(
        "ssl_ciphers",
        HS,
        TAKE1,
        once,
        "Sets the ciphers that servers take.",
    ),
    Row::accepted(
        "ssl_buffer_size",
        HS,
        TAKE1,
        size_once,
        "Sets how much is encrypted at once.",
    ),
    Row::accepted(
        "ssl_verify_client",
        HS,
        TAKE1,
        |r, s| word_once(r, s, &["off", "on", "optional", "optional_no_ca"]),
        "Asks clients for a certificate.",
    ),
    Row::accepted(
        "ssl_verify_depth",
        HS,
        TAKE1,
        number_once,
        "Bounds the chain of a client's certificate.",
    ),
    Row::accepted(
        "ssl_client_certificate",
        HS,
        TAKE1,
        once,
        "Names the file with the authorities of clients' certificates.",
    ),
    Row::accepted(
        "ssl_trusted_certificate",
        HS,
        TAKE1,
        once,
        "Names the file with authorities that clients are not told of.",
    ),
    Row::accepted(
        "ssl_prefer_server_ciphers",
        HS,
        FLAG,
        flag_once,
        "Lets the server's order of ciphers decide.",
    ),
    Row::accepted(
        "ssl_session_cache",
        HS,
        TAKE12,
        session_cache,
        "Keeps sessions so that clients can resume them.",
    ),
    Row::accepted(
        "ssl_session_tickets",
        HS,
        FLAG,
        flag_once,
        "Lets clients keep sessions in tickets.",
    ),
    Row::accepted(
        "ssl_session_ticket_key",
        HS,
        TAKE1,
        ANYTHING,
        "Names the file with the key of tickets.",
    ),
    Row::accepted(
        "ssl_session_timeout",
        HS,
        TAKE1,
        seconds_once,
        "Sets how long sessions may be resumed.",
    ),
    Row::accepted(
        "ssl_crl",
        HS,
        TAKE1,
        once,
        "Names the file with revoked certificates.",
    ),
    Row::accepted(
        "ssl_ocsp",
        HS,
        TAKE1,
        |r, s| word_once(r, s, &["off", "on", "leaf"]),
        "Asks whether clients' certificates are revoked.",
    ),
    Row::accepted("ssl_ocsp_cache", HS, TAKE1, once, "Keeps such answers."),
    Row::accepted("ssl_ocsp_responder", HS, TAKE1, once, "Sets whom to ask."),
    Row::accepted(
        "ssl_stapling",
        HS,
        FLAG,
        flag_once,
        "Sends with the certificate that it is not revoked.",
    ),
    Row::accepted(
        "ssl_stapling_file",
        HS,
        TAKE1,
        once,
        "Names the file with that statement.",
    ),
    Row::accepted(
        "ssl_stapling_responder",
        HS,
        TAKE1,
        once,
        "Sets whom to ask for that statement.",
    ),
    Row::accepted(
        "ssl_stapling_verify",
        HS,
        FLAG,
        flag_once,
        "Verifies that statement.",
    ),
    Row::accepted(
        "ssl_early_data",
        HS,
        FLAG,
        flag_once,
        "Takes data before the handshake of TLS 1.3 ends.",
    ),
    Row::accepted(
        "ssl_conf_command",
        HS,
        TAKE2,
        ANYTHING,
        "Passes a setting to OpenSSL.",
    ),
    Row::accepted(
        "ssl_reject_handshake",
        HS,
        FLAG,
        flag_once,
        "Refuses connections for this server.",
    ),
    Row::accepted(
        "proxy_ssl_certificate",
        HSL,
        TAKE1,
        text_once,
        "Names the file with the certificate for servers.",
    ),
    Row::accepted(
        "proxy_ssl_certificate_key",
        HSL,
        TAKE1,
        text_once,
        "Names the file with the key of that certificate.",
    ),
    Row::accepted(
        "proxy_ssl_certificate_cache",
        HSL,
        TAKE123,
        certificate_cache,
        "Keeps certificates whose path has variables.",
    ),
    Row::accepted(
        "proxy_ssl_password_file",
        HSL,
        TAKE1,
        once,
        "Names the file with passwords of keys.",
    ),
    Row::accepted(
        "proxy_ssl_ciphers",
        HSL,
        TAKE1,
        once,
        "Sets the ciphers for connections to servers.",
    ),
    Row::accepted(
        "proxy_ssl_conf_command",
        HSL,
        TAKE2,
        ANYTHING,
        "Passes a setting to OpenSSL.",
    ),
    Row::accepted(
        "proxy_ssl_crl",
        HSL,
        TAKE1,
        once,
        "Names the file with revoked certificates of servers.",
    ),
    Row::accepted(
        "proxy_ssl_name",
        HSL,
        TAKE1,
        text_once,
        "Sets the name that servers must have.",
    ),
    Row::accepted(
        "proxy_ssl_protocols",
        HSL,
        ONE_MORE,
        protocols,
        "Sets the versions of TLS for connections to servers.",
    ),
    Row::accepted(
        "proxy_ssl_server_name",
        HSL,
        FLAG,
        flag_once,
        "Tells servers which name is meant.",
    ),
    Row::accepted(
        "proxy_ssl_session_reuse",
        HSL,
        FLAG,
        flag_once,
        "Resumes sessions with servers.",
    ),
    Row::accepted(
        "proxy_ssl_trusted_certificate",
        HSL,
        TAKE1,
        once,
        "Names the file with the authorities of servers' certificates.",
    ),
    Row::accepted(
        "proxy_ssl_verify",
        HSL,
        FLAG,
        flag_once,
        "Verifies servers' certificates.",
    ),
    Row::accepted(
        "proxy_ssl_verify_depth",
        HSL,
        TAKE1,
        number_once,
        "Bounds the chain of a server's certificate.",
    ),
];

const HS: u32 = HTTP | SERVER;

/// Words of a set whose meaning is not needed.
fn protocols(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let mut seen: Vec<&str> = Vec::new();
    for word in &statement.args {
        let text = word.text();
        let known = PROTOCOLS
            .iter()
            .find(|known| known.eq_ignore_ascii_case(&text))
            .ok_or_else(|| Problem::value(word))?;
        if seen.contains(known) {
            reader.warn(format!("duplicate value \"{word}\""), statement);
        }
        seen.push(known);
    }
    Ok(())
}

const PROTOCOLS: [&str; 6] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

fn certificate_cache(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    let mut max = false;
    for word in &statement.args {
        let text = word.text();
        if text == "off" {
            return Ok(());
        }
        let (key, value) = text.split_once('=').unwrap_or((&text, ""));
        let fine = match key {
            "max" => {
                max = value::number(value.as_bytes()).is_some_and(|n| n > 0);
                max
            }
            "inactive" | "valid" => value::seconds(value.as_bytes()).is_some(),
            _ => false,
        };
        if !fine {
            return Err(Problem::parameter(word));
        }
    }
    if max {
        return Ok(());
    }
    Err(Problem::message(format!(
        "\"{}\" must have the \"max\" parameter",
        statement.name
    )))
}

fn session_cache(_reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    for word in &statement.args {
        let text = word.text();
        let fine = match text.split_once(':') {
            None => matches!(&*text, "off" | "none" | "builtin"),
            Some(("builtin", count)) => value::number(count.as_bytes()).is_some(),
            Some(("shared", rest)) => {
                let size = rest
                    .split_once(':')
                    .filter(|(name, _)| !name.is_empty())
                    .and_then(|(_, size)| value::size(size.as_bytes()));
                if size.is_some_and(|size| size < 8 * 4096) {
                    return Err(Problem::message(format!(
                        "session cache \"{word}\" is too small"
                    )));
                }
                size.is_some()
            }
            Some(_) => false,
        };
        if !fine {
            return Err(Problem::message(format!(
                "invalid session cache \"{word}\""
            )));
        }
    }
    Ok(())
}
