//! Lists of revoked certificates. Mirrors `check_revocation` of OpenSSL with every certificate of the chain checked.

use x509_parser::{
    extensions::{IssuingDistributionPoint, ParsedExtension},
    parse_x509_crl,
    revocation_list::CertificateRevocationList,
    x509::ReasonCode,
};

use super::{
    Check,
    cert::{self, Cert},
};

/// The list is not of the kind that says something of this certificate.
const DIFFERENT_SCOPE: u16 = 44;
const NO_LIST: u16 = 3;
const SIGNATURE: u16 = 8;
const NOT_YET_VALID: u16 = 11;
const EXPIRED: u16 = 12;
const REVOKED: u16 = 23;
const NO_ISSUER: u16 = 33;
const MAY_NOT_SIGN: u16 = 35;
const UNKNOWN_CRITICAL: u16 = 36;

/// The issuer of a list in canonical form; None when it is no list.
pub(super) fn issuer(der: &[u8]) -> Option<Vec<u8>> {
    let (_, list) = parse_x509_crl(der).ok()?;
    Some(cert::canonical(list.issuer()))
}

/// Looks each certificate of the chain up in its issuer's list.
pub(super) fn check(check: &mut Check<'_>, lists: &[(Vec<u8>, Vec<u8>)]) {
    for index in 0..check.chain.len() {
        if let Some(code) = status(check, index, lists) {
            check.fail(code);
        }
    }
}

/// What is wrong with a certificate of the chain, or with the list that tells of it; the last thing, as for nginx.
fn status(check: &Check<'_>, index: usize, lists: &[(Vec<u8>, Vec<u8>)]) -> Option<u16> {
    let subject = &check.chain[index];
    let ders = lists.iter().filter(|(issuer, _)| *issuer == subject.issuer);
    let parsed = ders.filter_map(|(_, der)| Some((&**der, parse_x509_crl(der).ok()?.1)));
    // One that is in force is better than the others, the latest best.
    let best = parsed.max_by_key(|(_, list)| {
        (
            has_scope(list, subject, index > 0),
            time_error(list, check.now).is_none(),
            list.last_update().timestamp(),
        )
    });
    let Some((der, list)) = best else {
        return Some(NO_LIST);
    };
    let mut error = None;
    let issuer = match check.chain.get(index + 1) {
        Some(issuer) => Some(issuer),
        None => Some(subject).filter(|subject| subject.is_self_signed()),
    };
    match issuer {
        None => error = Some(NO_ISSUER),
        Some(issuer) => {
            if issuer.key_usage().is_some_and(|usage| !usage.crl_sign()) {
                error = Some(MAY_NOT_SIGN);
            }
            if !has_scope(&list, subject, index > 0) {
                error = Some(DIFFERENT_SCOPE);
            }
            error = time_error(&list, check.now).or(error);
            let content = list.tbs_cert_list.as_ref();
            if !cert::is_signed(der, content, issuer.x509.public_key(), check.known) {
                error = Some(SIGNATURE);
            }
        }
    }
    if has_unknown_critical(&list) {
        error = Some(UNKNOWN_CRITICAL);
    }
    is_revoked(&list, subject).then_some(REVOKED).or(error)
}

fn is_revoked(list: &CertificateRevocationList<'_>, subject: &Cert<'_>) -> bool {
    let serial = &subject.x509.tbs_certificate.serial;
    let mut revoked = list.iter_revoked_certificates();
    revoked.any(|entry| {
        entry.serial() == serial
            && entry
                .reason_code()
                .is_none_or(|(_, reason)| reason != ReasonCode::RemoveFromCRL)
    })
}

fn time_error(list: &CertificateRevocationList<'_>, now: i64) -> Option<u16> {
    if list.last_update().timestamp() > now {
        return Some(NOT_YET_VALID);
    }
    let next = list.next_update()?;
    (next.timestamp() <= now).then_some(EXPIRED)
}

fn point<'l>(list: &'l CertificateRevocationList<'_>) -> Option<&'l IssuingDistributionPoint<'l>> {
    let mut extensions = list.tbs_cert_list.iter_extensions();
    extensions.find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::IssuingDistributionPoint(point) => Some(point),
        _ => None,
    })
}

/// Whether the list is about certificates of this kind.
fn has_scope(list: &CertificateRevocationList<'_>, subject: &Cert<'_>, is_authority: bool) -> bool {
    let is_authority = is_authority || subject.authority() == cert::Authority::Yes;
    point(list).is_none_or(|point| {
        !(point.only_contains_attribute_certs
            || point.indirect_crl
            || point.only_some_reasons.is_some()
            || (point.only_contains_user_certs && is_authority)
            || (point.only_contains_ca_certs && !is_authority))
    })
}

/// The issuing distribution point is the one that may be critical.
fn has_unknown_critical(list: &CertificateRevocationList<'_>) -> bool {
    let mut extensions = list.tbs_cert_list.iter_extensions();
    extensions.any(|extension| extension.critical && extension.oid.to_id_string() != "2.5.29.28")
}
