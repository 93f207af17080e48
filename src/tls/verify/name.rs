//! Whether a certificate is for a host (`X509_check_host`).

use x509_parser::{certificate::X509Certificate, extensions::GeneralName};

/// Whether `cert` names the host `name`: one of its alternative names does, or, when none of these is a host's, its common
/// name. Addresses among the alternative names do not count, as in nginx.
pub(super) fn is_for(cert: &X509Certificate<'_>, name: &[u8]) -> bool {
    if name.is_empty() {
        return false;
    }
    let alternatives = cert.subject_alternative_name().ok().flatten();
    let alternatives = alternatives
        .iter()
        .flat_map(|names| &names.value.general_names);
    let mut hosts = alternatives
        .filter_map(|name| match name {
            GeneralName::DNSName(host) => Some(*host),
            _ => None,
        })
        .peekable();
    if hosts.peek().is_some() {
        return hosts.any(|host| matches(host.as_bytes(), name));
    }
    let mut commons = cert.subject().iter_common_name();
    commons.any(|common| matches(common.as_slice(), name))
}

/// Whether a name of a certificate, perhaps with a wildcard, means the host `name`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.len() > 1 && name.starts_with(b".") {
        let start = pattern.len().checked_sub(name.len());
        return start.is_some_and(|start| pattern[start..].eq_ignore_ascii_case(name));
    }
    match star(pattern) {
        None => pattern.eq_ignore_ascii_case(name),
        Some(at) => fits(&pattern[..at], &pattern[at + 1..], name),
    }
}

/// Where the wildcard is, if the pattern has one that may count (`valid_star`).
fn star(pattern: &[u8]) -> Option<usize> {
    let labels: Vec<&[u8]> = pattern.split(|c| *c == b'.').collect();
    let first = labels.first()?;
    let at = first.iter().position(|c| *c == b'*')?;
    let is_edge = at == 0 || at + 1 == first.len();
    let is_label = |label: &[u8]| {
        !label.is_empty()
            && !label.starts_with(b"-")
            && !label.ends_with(b"-")
            && label
                .iter()
                .all(|c| c.is_ascii_alphanumeric() || *c == b'-')
    };
    let without: Vec<u8> = [&first[..at], &first[at + 1..]].concat();
    let good = is_edge
        && labels.len() > 2
        && (without.is_empty() || is_label(&without))
        && !is_international(first)
        && labels[1..].iter().all(|label| is_label(label));
    good.then_some(at)
}

/// Whether the host is `before`, something within one label, and `after`.
fn fits(before: &[u8], after: &[u8], name: &[u8]) -> bool {
    let Some(end) = name.len().checked_sub(after.len()) else {
        return false;
    };
    if before.len() > end
        || !name[..before.len()].eq_ignore_ascii_case(before)
        || !name[end..].eq_ignore_ascii_case(after)
    {
        return false;
    }
    let middle = &name[before.len()..end];
    let is_whole = before.is_empty() && after.starts_with(b".");
    if (is_whole && middle.is_empty()) || (!is_whole && is_international(&name[before.len()..])) {
        return false;
    }
    middle == b"*"
        || middle
            .iter()
            .all(|c| c.is_ascii_alphanumeric() || *c == b'-')
}

fn is_international(label: &[u8]) -> bool {
    label
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"xn--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("example.com", "EXAMPLE.com", true),
            ("example.com", "example.org", false),
            ("*.example.com", "www.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", true),
            ("*.example.com", "a.b.example.com", false),
            ("*.com", "example.com", false),
            ("w*.example.com", "www.example.com", true),
            ("w*.example.com", "xn--w.example.com", false),
            ("*w.example.com", "www.example.com", true),
            ("w*w.example.com", "www.example.com", false),
            ("www.*.com", "www.example.com", false),
            ("*.*.com", "www.example.com", false),
            ("xn--*.example.com", "xn--a.example.com", false),
            ("*.example.com", "xn--a.example.com", true),
            ("*.-x.com", "a.-x.com", false),
            ("www.example.com", ".example.com", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }
}
