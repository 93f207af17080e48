//! `proxy_redirect`, `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`.
//!
//! Mirrors `ngx_http_proxy_rewrite_redirect` and `ngx_http_proxy_rewrite_cookie`.

use crate::{
    conf::model::{
        CookieFlags, CookieMatch, Proxy, ProxyPass, Redirects, Rewriting, RewritingFrom, SameSite,
    },
    http::exchange::Exchange,
};

/// The address in `value[prefix..]` as `proxy_redirect` changes it; None leaves it as it is.
pub(super) fn redirect(
    x: &mut Exchange<'_>,
    proxy: &Proxy,
    value: &[u8],
    prefix: usize,
) -> Option<Vec<u8>> {
    match &proxy.redirect {
        Redirects::Off => None,
        Redirects::Default => {
            let (from, to) = default_redirect(proxy.pass.as_deref()?)?;
            let rest = value[prefix..].strip_prefix(&from[..])?;
            Some([&value[..prefix], &to, rest].concat())
        }
        Redirects::List(list) => list
            .iter()
            .find_map(|rule| prefixed(x, rule, value, prefix)),
    }
}

/// What `proxy_redirect default` replaces by what.
fn default_redirect(pass: &ProxyPass) -> Option<(Vec<u8>, Vec<u8>)> {
    let url = pass.url.as_literal()?;
    if pass.uri.is_some() {
        return Some((url.to_vec(), pass.location.to_vec()));
    }
    Some(([url, b"/"].concat(), b"/".to_vec()))
}

/// A rule that replaces a prefix.
fn prefixed(
    x: &mut Exchange<'_>,
    rule: &Rewriting,
    value: &[u8],
    prefix: usize,
) -> Option<Vec<u8>> {
    let text = &value[prefix..];
    let replaced = match &rule.from {
        RewritingFrom::Off => return None,
        RewritingFrom::Text(from) => {
            let from = from.to_vec(x);
            text.starts_with(&from).then_some(from.len())?
        }
        RewritingFrom::Regex(pattern) => x.slots.matches(pattern, text).then_some(text.len())?,
    };
    let to = rule.to.to_vec(x);
    Some([&value[..prefix], &to, &text[replaced..]].concat())
}

/// A rule that replaces a whole domain, with or without a dot before it.
fn domain(x: &mut Exchange<'_>, rule: &Rewriting, value: &[u8]) -> Option<Vec<u8>> {
    match &rule.from {
        RewritingFrom::Off => None,
        RewritingFrom::Text(from) => {
            let from = from.to_vec(x);
            let dot = usize::from(value.first() == Some(&b'.'));
            from.eq_ignore_ascii_case(&value[dot..]).then_some(())?;
            let to = rule.to.to_vec(x);
            Some([&value[..dot], &to].concat())
        }
        RewritingFrom::Regex(_) => prefixed(x, rule, value, 0),
    }
}

/// A part of a cookie: its name and its value, if it has one.
type Attribute = (Vec<u8>, Option<Vec<u8>>);

/// The `Set-Cookie` as the configuration changes it; None leaves it as it is.
pub(super) fn cookie(x: &mut Exchange<'_>, proxy: &Proxy, value: &[u8]) -> Option<Vec<u8>> {
    if proxy.cookie_domain.is_empty()
        && proxy.cookie_path.is_empty()
        && proxy.cookie_flags.is_empty()
    {
        return None;
    }
    let mut attributes: Vec<Attribute> = value.split(|c| *c == b';').map(attribute).collect();
    attributes.first()?.1.as_ref()?;
    let mut changed = false;
    for (name, value) in attributes.iter_mut().skip(1) {
        let Some(old) = value else { continue };
        let new = if name.eq_ignore_ascii_case(b"domain") {
            proxy
                .cookie_domain
                .iter()
                .find_map(|rule| domain(x, rule, old))
        } else if name.eq_ignore_ascii_case(b"path") {
            proxy
                .cookie_path
                .iter()
                .find_map(|rule| prefixed(x, rule, old, 0))
        } else {
            None
        };
        if let Some(new) = new {
            *old = new;
            changed = true;
        }
    }
    changed |= flags(x, &proxy.cookie_flags, &mut attributes);
    changed.then(|| join(&attributes))
}

fn attribute(text: &[u8]) -> Attribute {
    match memchr::memchr(b'=', text) {
        Some(equals) => (
            spaces(&text[..equals]).to_vec(),
            Some(spaces(&text[equals + 1..]).to_vec()),
        ),
        None => (spaces(text).to_vec(), None),
    }
}

fn spaces(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

fn join(attributes: &[Attribute]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, (name, value)) in attributes.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(name);
        if let Some(value) = value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    out
}

/// What flags a cookie is to have.
#[derive(Clone, Copy, Default)]
struct Wanted {
    secure: Option<bool>,
    httponly: Option<bool>,
    samesite: Option<SameSite>,
}

fn flags(x: &mut Exchange<'_>, rules: &[CookieFlags], attributes: &mut Vec<Attribute>) -> bool {
    let name = attributes[0].0.clone();
    let Some(rule) = rules.iter().find(|rule| is_meant(x, &rule.cookie, &name)) else {
        return false;
    };
    let mut wanted = Wanted {
        secure: rule.secure,
        httponly: rule.httponly,
        samesite: rule.samesite,
    };
    for template in &rule.dynamic {
        let text = template.to_vec(x).to_ascii_lowercase();
        match &text[..] {
            b"secure" => wanted.secure = Some(true),
            b"nosecure" => wanted.secure = wanted.secure.or(Some(false)),
            b"httponly" => wanted.httponly = Some(true),
            b"nohttponly" => wanted.httponly = wanted.httponly.or(Some(false)),
            b"samesite=strict" => wanted.samesite = Some(SameSite::Strict),
            b"samesite=lax" => wanted.samesite = Some(SameSite::Lax),
            b"samesite=none" => wanted.samesite = Some(SameSite::None),
            b"nosamesite" => wanted.samesite = wanted.samesite.or(Some(SameSite::Remove)),
            _ => {}
        }
    }
    if wanted.secure.is_none() && wanted.httponly.is_none() && wanted.samesite.is_none() {
        return false;
    }
    flag(attributes, b"Secure", wanted.secure);
    flag(attributes, b"HttpOnly", wanted.httponly);
    samesite(attributes, wanted.samesite);
    true
}

fn is_meant(x: &mut Exchange<'_>, cookie: &CookieMatch, name: &[u8]) -> bool {
    match cookie {
        CookieMatch::Off => false,
        CookieMatch::Name(template) => template.to_vec(x).eq_ignore_ascii_case(name),
        CookieMatch::Regex(pattern) => x.slots.matches(pattern, name),
    }
}

fn flag(attributes: &mut Vec<Attribute>, name: &[u8], wanted: Option<bool>) {
    let is_it = |(own, _): &Attribute| own.eq_ignore_ascii_case(name);
    match wanted {
        Some(true) if !attributes[1..].iter().any(is_it) => attributes.push((name.to_vec(), None)),
        Some(false) => {
            let mut first = true;
            attributes.retain(|a| std::mem::take(&mut first) || !is_it(a));
        }
        _ => {}
    }
}

fn samesite(attributes: &mut Vec<Attribute>, wanted: Option<SameSite>) {
    let value: &[u8] = match wanted {
        None => return,
        Some(SameSite::Strict) => b"Strict",
        Some(SameSite::Lax) => b"Lax",
        Some(SameSite::None) => b"None",
        Some(SameSite::Remove) => return remove_samesite(attributes),
    };
    match attributes[1..]
        .iter_mut()
        .find(|(name, _)| name.eq_ignore_ascii_case(b"samesite"))
    {
        Some((_, Some(old))) if old.eq_ignore_ascii_case(value) => {}
        Some(attribute) => *attribute = (b"SameSite".to_vec(), Some(value.to_vec())),
        None => attributes.push((b"SameSite".to_vec(), Some(value.to_vec()))),
    }
}

fn remove_samesite(attributes: &mut Vec<Attribute>) {
    let mut first = true;
    attributes
        .retain(|(name, _)| std::mem::take(&mut first) || !name.eq_ignore_ascii_case(b"samesite"));
}
