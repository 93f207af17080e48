//! `proxy_redirect` and `proxy_cookie_*`: what of a response is changed.
//!
//! Mirrors `ngx_http_proxy_redirect` and `ngx_http_proxy_cookie_*` (`ngx_http_proxy_module.c`).

use crate::{
    conf::{
        error::Problem,
        lexer::Word,
        model::{
            CookieFlags, CookieMatch, PassTarget, Redirects, Rewriting, RewritingFrom, SameSite,
        },
        parser::Statement,
        read::{Reader, default_redirect},
    },
    vars::Template,
};

pub(super) fn redirect(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let known = reader.loc.proxy.redirect.take();
    if matches!(known, Some(Redirects::Off)) {
        return Err(Problem::duplicate());
    }
    let mut list = match &known {
        Some(Redirects::List(list)) => list.to_vec(),
        _ => Vec::new(),
    };
    match statement.args.as_slice() {
        [word] if *word == "off" => {
            if known.is_some() {
                return Err(Problem::duplicate());
            }
            reader.loc.proxy.redirect = Some(Redirects::Off);
            return Ok(());
        }
        [word] if *word == "default" => list.push(redirect_default(reader)?),
        [from, to] => {
            let from = match from.bytes() {
                [b'~', b'*', pattern @ ..] => regex(reader, pattern, true)?,
                [b'~', pattern @ ..] => regex(reader, pattern, false)?,
                text => RewritingFrom::Text(reader.template(text)?),
            };
            let to = reader.template(to.bytes())?;
            list.push(Rewriting { from, to });
        }
        [word, ..] => return Err(Problem::parameter(word)),
        [] => {}
    }
    reader.loc.proxy.redirect = Some(Redirects::List(list.into()));
    Ok(())
}

fn redirect_default(reader: &mut Reader) -> Result<Rewriting, Problem> {
    let pass = reader.loc.proxy.pass.clone().flatten().ok_or_else(|| {
        Problem::message(
            "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive",
        )
    })?;
    let variables = || {
        Problem::message(
            "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables",
        )
    };
    if matches!(pass.target, PassTarget::Variable) {
        return Err(variables());
    }
    match default_redirect(&pass, &reader.loc.name) {
        Some(Redirects::List(list)) => list.first().cloned().ok_or_else(variables),
        _ => Err(variables()),
    }
}

fn regex(reader: &mut Reader, pattern: &[u8], caseless: bool) -> Result<RewritingFrom, Problem> {
    Ok(RewritingFrom::Regex(reader.pattern(pattern, caseless)?))
}

pub(super) fn cookie_domain(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    rewriting(reader, statement, |r| &mut r.loc.proxy.cookie_domain, true)
}

pub(super) fn cookie_path(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    rewriting(reader, statement, |r| &mut r.loc.proxy.cookie_path, false)
}

/// `off`, or what is replaced by what; a domain's leading dot does not count, and its patterns are caseless.
fn rewriting(
    reader: &mut Reader,
    statement: &Statement,
    slot: fn(&mut Reader) -> &mut Option<Vec<Rewriting>>,
    domain: bool,
) -> Result<(), Problem> {
    if slot(reader).as_ref().is_some_and(Vec::is_empty) {
        return Err(Problem::duplicate());
    }
    let [from, to] = statement.args.as_slice() else {
        return off(slot(reader), statement);
    };
    let dotless = |text| domain_text(text, domain);
    let rewriting = match from.bytes() {
        [b'~', b'*', pattern @ ..] if !domain => Rewriting {
            from: regex(reader, pattern, true)?,
            to: reader.template(to.bytes())?,
        },
        [b'~', pattern @ ..] => Rewriting {
            from: regex(reader, pattern, domain)?,
            to: reader.template(to.bytes())?,
        },
        text => Rewriting {
            from: RewritingFrom::Text(reader.template(dotless(text))?),
            to: reader.template(dotless(to.bytes()))?,
        },
    };
    slot(reader).get_or_insert_default().push(rewriting);
    Ok(())
}

fn domain_text(text: &[u8], domain: bool) -> &[u8] {
    match text {
        [b'.', rest @ ..] if domain => rest,
        text => text,
    }
}

/// One word: `off`, and nothing before or after it; an empty list stands for it.
fn off<T>(slot: &mut Option<Vec<T>>, statement: &Statement) -> Result<(), Problem> {
    match statement.args.first() {
        Some(word) if *word == "off" => {
            if slot.is_some() {
                return Err(Problem::duplicate());
            }
            *slot = Some(Vec::new());
            Ok(())
        }
        Some(word) => Err(Problem::parameter(word)),
        None => Ok(()),
    }
}

pub(super) fn cookie_flags(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let slot = &mut reader.loc.proxy.cookie_flags;
    if slot.as_ref().is_some_and(Vec::is_empty) {
        return Err(Problem::duplicate());
    }
    let [cookie, words @ ..] = statement.args.as_slice() else {
        return Ok(());
    };
    if words.is_empty() {
        return off(slot, statement);
    }
    let cookie = match cookie.bytes() {
        [b'~', pattern @ ..] => CookieMatch::Regex(reader.pattern(pattern, true)?),
        text => CookieMatch::Name(reader.template(text)?),
    };
    let mut flags = CookieFlags {
        cookie,
        secure: None,
        httponly: None,
        samesite: None,
        dynamic: Vec::new(),
    };
    for word in words {
        let template = reader.template(word.bytes())?;
        add_flag(&mut flags, word, template);
    }
    reader
        .loc
        .proxy
        .cookie_flags
        .get_or_insert_default()
        .push(flags);
    Ok(())
}

/// nginx looks at the words when a response comes; one that it does not know is only logged then.
fn add_flag(flags: &mut CookieFlags, word: &Word, template: Template) {
    let text = word.text().to_ascii_lowercase();
    match text.as_str() {
        "secure" => flags.secure = Some(true),
        "nosecure" => flags.secure = Some(false),
        "httponly" => flags.httponly = Some(true),
        "nohttponly" => flags.httponly = Some(false),
        "samesite=strict" => flags.samesite = Some(SameSite::Strict),
        "samesite=lax" => flags.samesite = Some(SameSite::Lax),
        "samesite=none" => flags.samesite = Some(SameSite::None),
        "nosamesite" => flags.samesite = Some(SameSite::Remove),
        _ => flags.dynamic.push(template),
    }
}
