//! `add_header`, `add_trailer`, `expires`. Mirrors `ngx_http_headers_filter_module.c`.

use crate::{
    common::{clock, date},
    conf::model::{AddHeader, Expires},
    http::{exchange::Exchange, h1::known::Known},
};

/// Adds the fields of the configuration.
pub(crate) fn header(x: &mut Exchange<'_>) {
    let conf = &x.location.headers;
    let safe = is_safe(x.response.status);
    if safe {
        expires(x, &conf.expires);
    }
    for add in conf.add.iter().filter(|add| safe || add.always) {
        let value = add.value.to_vec(x);
        push(x, add, &value);
    }
    x.response.expect_trailers |= conf.trailers.iter().any(|add| safe || add.always);
}

/// Adds the trailers of the configuration, when the body is complete.
pub(crate) fn trailers(x: &mut Exchange<'_>) {
    if !x.response.expect_trailers || !(x.response.chunked || x.conn.io.is_stream()) {
        return;
    }
    let safe = is_safe(x.response.status);
    for add in x
        .location
        .headers
        .trailers
        .iter()
        .filter(|add| safe || add.always)
    {
        let value = add.value.to_vec(x);
        if !value.is_empty() {
            x.response.trailers.push_named(&add.name, &value);
        }
    }
}

fn is_safe(status: u16) -> bool {
    matches!(
        status,
        200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308
    )
}

fn push(x: &mut Exchange<'_>, add: &AddHeader, value: &[u8]) {
    let known = Known::of(&add.name);
    let response = &mut x.response;
    match known {
        // These replace what a handler said.
        Known::LastModified => {
            response.headers.remove(Known::LastModified);
            response.last_modified = None;
            if !value.is_empty() {
                response.headers.push(known, &add.name, value);
                response.last_modified = date::parse_http(value);
            }
        }
        Known::ETag => {
            response.headers.remove(Known::ETag);
            if !value.is_empty() {
                response.headers.push(known, &add.name, value);
            }
        }
        _ if value.is_empty() => {}
        _ => response.headers.push(known, &add.name, value),
    }
}

fn expires(x: &mut Exchange<'_>, conf: &Expires) {
    let rendered;
    let conf = match conf {
        Expires::Template(template, modified) => {
            let text = template.to_vec(x);
            rendered = parse(&text, *modified);
            &rendered
        }
        conf => conf,
    };
    let now = clock::wall().secs;
    let (expires, control) = match *conf {
        Expires::Off | Expires::Template(..) => return,
        Expires::Epoch => (1, "no-cache".to_owned()),
        Expires::Max => (2_145_916_555, "max-age=315360000".to_owned()),
        Expires::Access(0) | Expires::Modified(0) => (now, "max-age=0".to_owned()),
        Expires::Daily(secs) => {
            let at = clock::next_daily(secs);
            (at, max_age(at - now, secs))
        }
        Expires::Access(secs) => (now + secs, max_age(secs, secs)),
        Expires::Modified(secs) => match x.response.last_modified {
            Some(modified) => (modified + secs, max_age(modified + secs - now, secs)),
            None => (now + secs, max_age(secs, secs)),
        },
    };
    let headers = &mut x.response.headers;
    headers.set(Known::Expires, b"Expires", &date::http(expires));
    let first = headers.get(Known::CacheControl).is_some();
    if first {
        headers.keep_first(Known::CacheControl);
    }
    headers.set(Known::CacheControl, b"Cache-Control", control.as_bytes());
}

fn max_age(age: i64, configured: i64) -> String {
    if configured < 0 || age < 0 {
        "no-cache".to_owned()
    } else {
        format!("max-age={age}")
    }
}

/// `expires` with variables, as rendered; what is no valid value turns it off.
fn parse(text: &[u8], modified: bool) -> Expires {
    match text {
        b"epoch" if !modified => Expires::Epoch,
        b"max" if !modified => Expires::Max,
        b"" | b"off" => Expires::Off,
        [b'@', time @ ..] => match seconds(time) {
            Some(secs) if !modified && secs <= 86400 => Expires::Daily(secs),
            _ => Expires::Off,
        },
        _ => {
            let (sign, time) = match text {
                [b'-', rest @ ..] => (-1, rest),
                [b'+', rest @ ..] => (1, rest),
                _ => (1, text),
            };
            match seconds(time) {
                Some(secs) if modified => Expires::Modified(sign * secs),
                Some(secs) => Expires::Access(sign * secs),
                None => Expires::Off,
            }
        }
    }
}

fn seconds(text: &[u8]) -> Option<i64> {
    i64::try_from(crate::conf::seconds(text)?).ok()
}
