//! What a certificate says, in OpenSSL's forms.
//!
//! Mirrors `ngx_ssl_get_certificate` and its kin (`event/ngx_event_openssl.c`), and of OpenSSL `X509_NAME_print_ex` with
//! `XN_FLAG_RFC2253` and `X509_NAME_oneline`.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use data_encoding::{BASE64, HEXLOWER, HEXUPPER};
use x509_parser::{
    certificate::X509Certificate,
    parse_x509_certificate,
    time::ASN1Time,
    x509::{AttributeTypeAndValue, X509Name},
};

use crate::vars::VarId;

/// Appends the value of a variable that is about the certificate `der`; false when it is about something else.
pub(super) fn variable(der: &[u8], id: &VarId, now: i64, out: &mut Vec<u8>) -> bool {
    match id {
        VarId::SslClientRawCert => out.extend_from_slice(pem(der).as_bytes()),
        VarId::SslClientCert => {
            let pem = pem(der);
            out.extend_from_slice(pem.trim_end().replace('\n', "\n\t").as_bytes());
        }
        VarId::SslClientEscapedCert => escape(pem(der).as_bytes(), out),
        VarId::SslClientFingerprint => {
            let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, der);
            out.extend_from_slice(HEXLOWER.encode(hash.as_ref()).as_bytes());
        }
        _ => {
            let Ok((_, x509)) = parse_x509_certificate(der) else {
                return false;
            };
            let Some(text) = field(&x509, id, now) else {
                return false;
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
    true
}

fn field(x509: &X509Certificate<'_>, id: &VarId, now: i64) -> Option<String> {
    let validity = x509.validity();
    Some(match id {
        VarId::SslClientSubjectDn => rfc2253(x509.subject()),
        VarId::SslClientIssuerDn => rfc2253(x509.issuer()),
        VarId::SslClientSubjectDnLegacy => oneline(x509.subject()),
        VarId::SslClientIssuerDnLegacy => oneline(x509.issuer()),
        VarId::SslClientSerial => {
            let serial = x509.raw_serial();
            HEXUPPER.encode(
                serial
                    .strip_prefix(&[0])
                    .filter(|rest| !rest.is_empty())
                    .unwrap_or(serial),
            )
        }
        VarId::SslClientVStart => time(&validity.not_before),
        VarId::SslClientVEnd => time(&validity.not_after),
        VarId::SslClientVRemain => {
            let left = validity.not_after.timestamp().saturating_sub(now);
            (left / 86400).max(0).to_string()
        }
        _ => return None,
    })
}

fn pem(der: &[u8]) -> String {
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in BASE64.encode(der).as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

/// As `ngx_escape_uri` does for components of a URI.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

/// `Nov 30 12:00:00 2026 GMT`
fn time(time: &ASN1Time) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let at = time.to_datetime();
    let month = MONTHS[usize::from(u8::from(at.month()) - 1)];
    let (hour, minute, second) = at.to_hms();
    format!(
        "{month} {:2} {hour:02}:{minute:02}:{second:02} {} GMT",
        at.day(),
        at.year()
    )
}

/// `CN=name,O=organization`: the last part first.
fn rfc2253(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for part in name.iter_rdn() {
        let mut own = String::new();
        for attribute in part.iter() {
            let pair = format!("{}={}", key(attribute), quoted(attribute.attr_value().data));
            own = if own.is_empty() {
                pair
            } else {
                pair + "+" + &own
            };
        }
        text = if text.is_empty() {
            own
        } else {
            own + "," + &text
        };
    }
    text
}

/// `/O=organization/CN=name`
fn oneline(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for attribute in name.iter_attributes() {
        // A string takes any text.
        write!(text, "/{}=", key(attribute)).ok();
        for byte in attribute.attr_value().data {
            match byte {
                b' '..=b'~' => text.push(char::from(*byte)),
                _ => drop(write!(text, "\\x{byte:02X}")),
            }
        }
    }
    text
}

/// OpenSSL's short name of an attribute, or its number.
fn key(attribute: &AttributeTypeAndValue<'_>) -> String {
    let number = attribute.attr_type().to_id_string();
    match &*number {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.17" => "postalCode",
        "2.5.4.41" => "name",
        "2.5.4.42" => "GN",
        "2.5.4.43" => "initials",
        "2.5.4.46" => "dnQualifier",
        "2.5.4.97" => "organizationIdentifier",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => return number,
    }
    .to_owned()
}

/// RFC 2253, section 2.4, with OpenSSL's flags: what is no printable ASCII in hexadecimal.
fn quoted(value: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in value.iter().enumerate() {
        let is_edge = at == 0 || at + 1 == value.len();
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b'#' if at == 0 => text.push_str("\\#"),
            b' ' if is_edge => text.push_str("\\ "),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => drop(write!(text, "\\{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};

    use super::*;

    #[test]
    fn fields_of_a_certificate() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let der = CertificateDer::from_pem_file(root.join("testdata/tls/client.crt")).unwrap();
        let text = |id: VarId| {
            let mut out = Vec::new();
            assert!(variable(&der, &id, 1_790_000_000, &mut out));
            String::from_utf8(out).unwrap()
        };
        let raw = text(VarId::SslClientRawCert);
        assert_eq!(raw.lines().next(), Some("-----BEGIN CERTIFICATE-----"));
        assert!(text(VarId::SslClientCert).contains("\n\t-----END"));
        assert!(text(VarId::SslClientEscapedCert).starts_with("-----BEGIN%20CERTIFICATE"));
        assert!(text(VarId::SslClientSubjectDn).contains("CN="));
        assert!(text(VarId::SslClientIssuerDnLegacy).starts_with('/'));
        assert_eq!(text(VarId::SslClientFingerprint).len(), 40);
        assert!(text(VarId::SslClientVEnd).ends_with(" 2045 GMT"));
        let days: i64 = text(VarId::SslClientVRemain).parse().unwrap();
        assert!(days > 6000);
    }

    #[test]
    fn values_are_quoted() {
        assert_eq!(quoted(b" a,b+c#\\ "), "\\ a\\,b\\+c#\\\\\\ ");
        assert_eq!(quoted(b"#\xc3\xa4"), "\\#\\C3\\A4");
    }
}
