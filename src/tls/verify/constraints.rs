//! Names that an authority may give, and those that it may not. Mirrors `NAME_CONSTRAINTS_check` of OpenSSL.

use x509_parser::extensions::{GeneralName, GeneralSubtree, NameConstraints, ParsedExtension};

use super::{
    Check,
    cert::{self, Cert},
};

const NOT_PERMITTED: u16 = 47;
const EXCLUDED: u16 = 48;
const UNSUPPORTED: u16 = 51;

/// Holds the names of each certificate against the constraints of those above it.
pub(super) fn check(check: &mut Check<'_>) {
    for index in (0..check.chain.len()).rev() {
        let cert = &check.chain[index];
        if index > 0 && cert.is_self_issued() {
            continue;
        }
        let above = check.chain[index + 1..].iter();
        let error = above
            .rev()
            .find_map(|above| violation(above, cert, index == 0));
        if let Some(code) = error {
            check.fail(code);
        }
    }
}

fn constraints<'c, 'a>(cert: &'c Cert<'a>) -> Option<&'c NameConstraints<'a>> {
    let mut extensions = cert.x509.extensions().iter();
    extensions.find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::NameConstraints(constraints) => Some(constraints),
        _ => None,
    })
}

fn violation(above: &Cert<'_>, cert: &Cert<'_>, is_leaf: bool) -> Option<u16> {
    let constraints = constraints(above)?;
    let subject = cert.x509.subject();
    let mut names = Vec::new();
    if subject.iter().next().is_some() {
        names.push(GeneralName::DirectoryName(subject.clone()));
    }
    names.extend(
        subject
            .iter_email()
            .filter_map(|email| Some(GeneralName::RFC822Name(email.as_str().ok()?))),
    );
    let alternatives = cert.x509.subject_alternative_name().ok().flatten();
    let alternatives: Vec<_> = alternatives
        .iter()
        .flat_map(|names| names.value.general_names.clone())
        .collect();
    let has_host = alternatives
        .iter()
        .any(|name| matches!(name, GeneralName::DNSName(_)));
    names.extend(alternatives);
    if is_leaf && !has_host {
        let commons = subject
            .iter_common_name()
            .filter_map(|common| common.as_str().ok());
        names.extend(
            commons
                .filter(|common| is_host(common))
                .map(GeneralName::DNSName),
        );
    }
    names.iter().find_map(|name| judge(constraints, name))
}

/// Whether a common name looks like a host's.
fn is_host(name: &str) -> bool {
    name.contains('.')
        && name.split('.').all(|label| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
        })
}

fn judge(constraints: &NameConstraints<'_>, name: &GeneralName<'_>) -> Option<u16> {
    let check = || {
        let mut permitted = of_kind(constraints.permitted_subtrees.as_deref(), name).peekable();
        if permitted.peek().is_some() {
            let mut is_permitted = false;
            for base in permitted {
                is_permitted |= is_within(name, base)?;
            }
            if !is_permitted {
                return Err(NOT_PERMITTED);
            }
        }
        for base in of_kind(constraints.excluded_subtrees.as_deref(), name) {
            if is_within(name, base)? {
                return Err(EXCLUDED);
            }
        }
        Ok(())
    };
    check().err()
}

/// The constraints that are about names of this kind.
fn of_kind<'c, 'a>(
    subtrees: Option<&'c [GeneralSubtree<'a>]>,
    name: &GeneralName<'_>,
) -> impl Iterator<Item = &'c GeneralName<'a>> {
    let kind = kind(name);
    let bases = subtrees
        .unwrap_or_default()
        .iter()
        .map(|subtree| &subtree.base);
    bases.filter(move |base| self::kind(base) == kind)
}

/// The tag of a kind of name.
fn kind(name: &GeneralName<'_>) -> u32 {
    match name {
        GeneralName::OtherName(..) => 0,
        GeneralName::RFC822Name(_) => 1,
        GeneralName::DNSName(_) => 2,
        GeneralName::X400Address(_) => 3,
        GeneralName::DirectoryName(_) => 4,
        GeneralName::EDIPartyName(_) => 5,
        GeneralName::URI(_) => 6,
        GeneralName::IPAddress(_) => 7,
        GeneralName::RegisteredID(_) => 8,
        GeneralName::Invalid(tag, _) => tag.0,
    }
}

/// Whether `name` is one of those that `base` means. The error is the code of what cannot be said.
fn is_within(name: &GeneralName<'_>, base: &GeneralName<'_>) -> Result<bool, u16> {
    match (name, base) {
        (GeneralName::DNSName(name), GeneralName::DNSName(base)) => Ok(is_below(name, base)),
        (GeneralName::RFC822Name(name), GeneralName::RFC822Name(base)) => Ok(is_mail(name, base)),
        (GeneralName::DirectoryName(name), GeneralName::DirectoryName(base)) => {
            Ok(cert::canonical(name).starts_with(&cert::canonical(base)))
        }
        (GeneralName::IPAddress(addr), GeneralName::IPAddress(base)) => {
            let (net, mask) = base.split_at(base.len() / 2);
            let same = |((a, b), mask): ((&u8, &u8), &u8)| a & mask == b & mask;
            Ok(addr.len() == net.len() && addr.iter().zip(net).zip(mask).all(same))
        }
        _ => Err(UNSUPPORTED),
    }
}

/// Whether a host is `base` or below it.
fn is_below(name: &str, base: &str) -> bool {
    let (name, base) = (name.as_bytes(), base.as_bytes());
    let Some(start) = name.len().checked_sub(base.len()) else {
        return false;
    };
    let is_label = start == 0 || base.is_empty() || base[0] == b'.' || name[start - 1] == b'.';
    is_label && name[start..].eq_ignore_ascii_case(base)
}

/// Whether a mail address is `base`, or at that host, or, after a dot, below it.
fn is_mail(name: &str, base: &str) -> bool {
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    match base.rsplit_once('@') {
        Some((local, base)) if !local.is_empty() => {
            let own = name.rsplit_once('@').map_or("", |(local, _)| local);
            own == local && host.eq_ignore_ascii_case(base)
        }
        Some((_, base)) => host.eq_ignore_ascii_case(base),
        None if base.starts_with('.') => is_below(host, base),
        None => host.eq_ignore_ascii_case(base),
    }
}
