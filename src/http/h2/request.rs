//! A request's head on a stream: pseudo-headers, fields, and what can be wrong with them.
//!
//! Mirrors `ngx_http_v2_validate_header`, `ngx_http_v2_pseudo_header` and `ngx_http_v2_run_request`
//! (`http/v2/ngx_http_v2.c`).

use super::scanner::Head;
use crate::{
    common::{
        bytes::{byte_table, line_end},
        decimal,
    },
    conf::model::Level,
    http::{
        exchange::{Action, EscapeLog, Exchange},
        h1::{
            known::Known,
            request_line::{self, Method},
        },
        head,
    },
};

/// Takes a head over. Err is the status that refuses it; what is wrong was logged.
pub(super) fn read(x: &mut Exchange<'_>, head: &Head) -> Result<(), u16> {
    x.action = Action::ReadingHeaders;
    x.request.version = 2000;
    x.request.length = head.length as u64;
    let mut pseudo = Pseudo::default();
    let mut cookie = None;
    let mut count = 0;
    for (name, value) in head.fields.iter() {
        if let Some(part) = name.strip_prefix(b":") {
            let kind = Kind::of(part);
            if kind.is_none() {
                validate_name(x, name, part)?;
            }
            validate_value(x, name, value)?;
            pseudo.take(x, (kind, part), value)?;
            continue;
        }
        let is_valid = validate_name(x, name, name)?;
        validate_value(x, name, value)?;
        pseudo.finish(x)?;
        let core = &x.server.core;
        if !is_valid && core.ignore_invalid_headers {
            let name = name.escape_log();
            x.log(
                Level::Info,
                format_args!("client sent invalid header: \"{name}\""),
            );
        } else if name == b"cookie" {
            join(&mut cookie, value);
        } else if count >= core.max_headers {
            return Err(refuse(x, 494, "client sent too many header lines"));
        } else if name == b"proxy-connection" {
            return Err(refuse(x, 400, "client sent \"Proxy-Connection\" header"));
        } else {
            count += 1;
            head::field(x, name, Known::of(name), (name, value))?;
        }
    }
    if !(x.server.http2.enabled || x.listen.http2) {
        let text = "client attempted to request the server name \
                    for which the negotiated protocol is disabled";
        return Err(refuse(x, 421, text));
    }
    pseudo.finish(x)?;
    if let Some(cookie) = cookie {
        x.request.headers.push(Known::Cookie, b"cookie", &cookie);
    }
    check(x, pseudo.authority)?;
    length(x, head.is_all)?;
    x.action = Action::None;
    Ok(())
}

fn refuse(x: &Exchange<'_>, status: u16, text: &str) -> u16 {
    x.log(Level::Info, format_args!("{text}"));
    status
}

/// Crumbs of a cookie become one again.
fn join(cookie: &mut Option<Vec<u8>>, value: &[u8]) {
    match cookie {
        None => *cookie = Some(value.to_vec()),
        Some(cookie) => {
            cookie.extend_from_slice(b"; ");
            cookie.extend_from_slice(value);
        }
    }
}

/// Lower-case letters, digits and `-` are 1, `_` is 2, what may not stand in a name is 3, the rest (invalid, ignored) is 0.
const NAME: [u8; 256] = byte_table!(|byte| match byte {
    b'a'..=b'z' | b'-' | b'0'..=b'9' => 1,
    b'_' => 2,
    0..=0x20 | 0x7f | b':' | b'A'..=b'Z' => 3,
    _ => 0,
});

/// Whether the name, or what of it follows a colon, is made of what names are made of; an error if the field must not be
/// there at all.
fn validate_name(x: &Exchange<'_>, name: &[u8], part: &[u8]) -> Result<bool, u16> {
    let underscores = x.server.core.underscores_in_headers;
    let mut is_valid = true;
    for c in part {
        match NAME[usize::from(*c)] {
            1 => {}
            2 => is_valid &= underscores,
            3 => {
                let name = name.escape_log();
                let text = format!("client sent invalid header name: \"{name}\"");
                return Err(refuse(x, 400, &text));
            }
            _ => is_valid = false,
        }
    }
    Ok(is_valid)
}

fn validate_value(x: &Exchange<'_>, name: &[u8], value: &[u8]) -> Result<(), u16> {
    if line_end(value).is_some() {
        let (name, value) = (name.escape_log(), value.escape_log());
        let text = format!("client sent header \"{name}\" with invalid value: \"{value}\"");
        return Err(refuse(x, 400, &text));
    }
    Ok(())
}

/// The pseudo-headers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Method,
    Scheme,
    Path,
    Authority,
}

impl Kind {
    /// The one of this name, which stands without its colon.
    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"method" => Self::Method,
            b"scheme" => Self::Scheme,
            b"path" => Self::Path,
            b"authority" => Self::Authority,
            _ => return None,
        })
    }
}

/// What pseudo-headers have said.
#[derive(Debug, Default)]
struct Pseudo<'h> {
    method: &'h [u8],
    has_scheme: bool,
    path: &'h [u8],
    /// Where the arguments begin in the path.
    args: Option<usize>,
    authority: Option<&'h [u8]>,
    is_finished: bool,
}

impl<'h> Pseudo<'h> {
    fn take(
        &mut self,
        x: &mut Exchange<'_>,
        (kind, name): (Option<Kind>, &[u8]),
        value: &'h [u8],
    ) -> Result<(), u16> {
        if self.is_finished {
            return Err(refuse(x, 400, "client sent out of order pseudo-headers"));
        }
        let Some(kind) = kind else {
            let name = name.escape_log();
            let text = format!("client sent unknown pseudo-header \":{name}\"");
            return Err(refuse(x, 400, &text));
        };
        match kind {
            Kind::Authority => self.authority(x, value),
            Kind::Method => {
                first(x, name, value, self.method.is_empty())?;
                self.method(x, value)
            }
            Kind::Scheme => {
                first(x, name, value, !self.has_scheme)?;
                self.scheme(x, value)
            }
            Kind::Path => {
                first(x, name, value, self.path.is_empty())?;
                self.path(x, value)
            }
        }
    }

    fn method(&mut self, x: &Exchange<'_>, value: &'h [u8]) -> Result<(), u16> {
        if !value.iter().all(|c| request_line::is_method(*c)) {
            let value = value.escape_log();
            let text = format!("client sent invalid method: \"{value}\"");
            return Err(refuse(x, 400, &text));
        }
        self.method = value;
        Ok(())
    }

    fn scheme(&mut self, x: &Exchange<'_>, value: &[u8]) -> Result<(), u16> {
        let is_fine = value.iter().enumerate().all(|(i, c)| {
            c.is_ascii_alphabetic() || i > 0 && (c.is_ascii_digit() || b"+-.".contains(c))
        });
        if !is_fine {
            let value = value.escape_log();
            let text = format!("client sent invalid :scheme header: \"{value}\"");
            return Err(refuse(x, 400, &text));
        }
        self.has_scheme = true;
        Ok(())
    }

    fn path(&mut self, x: &mut Exchange<'_>, value: &'h [u8]) -> Result<(), u16> {
        let Some((args, complex)) = request_line::target(value) else {
            let value = value.escape_log();
            let text = format!("client sent invalid :path header: \"{value}\"");
            return Err(refuse(x, 400, &text));
        };
        self.path = value;
        self.args = args;
        head::set_uri(x, (args, complex), value)
    }

    fn authority(&mut self, x: &mut Exchange<'_>, value: &'h [u8]) -> Result<(), u16> {
        if self.authority.is_some() {
            return Err(refuse(
                x,
                400,
                "client sent duplicate \":authority\" header",
            ));
        }
        self.authority = Some(value);
        head::set_host(x, value, "client sent invalid \":authority\" header")
    }

    /// All of them have come: the request line is what it would be in HTTP/1.
    fn finish(&mut self, x: &mut Exchange<'_>) -> Result<(), u16> {
        if std::mem::replace(&mut self.is_finished, true) {
            return Ok(());
        }
        let missing = if self.method.is_empty() {
            "method"
        } else if !self.has_scheme {
            "scheme"
        } else if self.path.is_empty() {
            "path"
        } else {
            x.request.set_stream_line(self.method, self.path);
            return Ok(());
        };
        self.is_finished = false;
        let text = format!("client sent no :{missing} header");
        Err(refuse(x, 400, &text))
    }
}

/// What must hold for each of them but `:authority`.
fn first(x: &Exchange<'_>, name: &[u8], value: &[u8], is_first: bool) -> Result<(), u16> {
    let problem = match value {
        _ if !is_first => "duplicate",
        [] => "empty",
        _ => return Ok(()),
    };
    let name = name.escape_log();
    let text = format!("client sent {problem} :{name} header");
    Err(refuse(x, 400, &text))
}

/// What must hold for the head as a whole.
fn check(x: &mut Exchange<'_>, authority: Option<&[u8]>) -> Result<(), u16> {
    let headers = &x.request.headers;
    for (known, name) in [
        (Known::Connection, "Connection"),
        (Known::KeepAlive, "Keep-Alive"),
        (Known::TransferEncoding, "Transfer-Encoding"),
        (Known::Upgrade, "Upgrade"),
    ] {
        if headers.has(known) {
            return Err(refuse(x, 400, &format!("client sent \"{name}\" header")));
        }
    }
    let mut te = headers.all(Known::Te);
    if te
        .next()
        .is_some_and(|te| !te.eq_ignore_ascii_case(b"trailers"))
        || te.next().is_some()
    {
        return Err(refuse(x, 400, "client sent invalid \"TE\" header"));
    }
    drop(te);
    if x.request.host.is_empty() {
        let text = "client sent neither \":authority\" nor \"Host\" header";
        return Err(refuse(x, 400, text));
    }
    let Some(authority) = authority else {
        return Ok(());
    };
    match headers.get(Known::Host) {
        // For `$http_host`.
        None => x.request.headers.push(Known::Host, b"host", authority),
        Some(host) if host == authority => {}
        Some(_) => {
            let text = "client sent \":authority\" and \"Host\" headers with different values";
            return Err(refuse(x, 400, text));
        }
    }
    Ok(())
}

/// What is to be known of the body, and of methods that are not for us.
fn length(x: &mut Exchange<'_>, is_all: bool) -> Result<(), u16> {
    if let Some(value) = x.request.headers.get(Known::ContentLength) {
        let Some(length) = decimal::parse(value) else {
            return Err(refuse(
                x,
                400,
                "client sent invalid \"Content-Length\" header",
            ));
        };
        if length > 0 && is_all {
            return Err(refuse(x, 400, "client prematurely closed stream"));
        }
        x.request.content_length = Some(length);
    } else {
        x.request.chunked = !is_all;
    }
    let length = x.request.content_length;
    x.request.body.expect_stream(length, is_all);
    match x.request.method {
        Method::Connect => Err(refuse(x, 405, "client sent CONNECT method")),
        Method::Trace => Err(refuse(x, 405, "client sent TRACE method")),
        _ => Ok(()),
    }
}
