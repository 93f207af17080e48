//! Small modules: access, realip, index, `try_files`, `empty_gif`, `stub_status`.
//!
//! Mirrors `ngx_http_access_module.c`, `ngx_http_realip_module.c`, `ngx_http_index_module.c`, `ngx_http_try_files_module.c`.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{FLAG, HSL, LIMIT_EXCEPT, LOCATION, NONE, ONE_MORE, Row, SERVER, TAKE1, TWO_MORE};
use crate::common::addr::Addr;
use crate::conf::{
    address::UrlOptions,
    error::Problem,
    model::{AccessRule, AccessSubject, Handler, RealipHeader, TryFallback, TryFiles},
    parser::Statement,
    read::{Reader, first, flag, unset},
    value,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "allow",
        HSL | LIMIT_EXCEPT,
        TAKE1,
        access,
        "Lets these addresses in.",
    )
    .takes("<address> | <network> | unix: | all", ""),
    Row::new(
        "deny",
        HSL | LIMIT_EXCEPT,
        TAKE1,
        access,
        "Keeps these addresses out.",
    )
    .takes("<address> | <network> | unix: | all", ""),
    Row::new(
        "set_real_ip_from",
        HSL,
        TAKE1,
        set_real_ip_from,
        "Trusts these addresses to say who the client is.",
    )
    .takes("<address> | <network> | <host> | unix:", ""),
    Row::new(
        "real_ip_header",
        HSL,
        TAKE1,
        real_ip_header,
        "Names the header field that says who the client is.",
    )
    .takes(
        "X-Real-IP | X-Forwarded-For | proxy_protocol | <field>",
        "X-Real-IP",
    ),
    Row::new(
        "real_ip_recursive",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.realip.recursive, s),
        "Skips all trusted addresses of that field from the right.",
    )
    .default("off"),
    Row::new(
        "index",
        HSL,
        ONE_MORE,
        index,
        "Names the files that are looked for in a directory.",
    )
    .takes("<file> ...", "index.html"),
    Row::new(
        "try_files",
        SERVER | LOCATION,
        TWO_MORE,
        try_files,
        "Serves the first of these files that is there, or the last argument.",
    )
    .takes("<file> ... <uri>; <file> ... =<code>", ""),
    Row::new(
        "empty_gif",
        LOCATION,
        NONE,
        |r, _| {
            r.loc.handler = Some(Handler::EmptyGif);
            Ok(())
        },
        "Answers with a transparent image of one pixel.",
    ),
    Row::new(
        "stub_status",
        SERVER | LOCATION,
        NONE | TAKE1,
        |r, _| {
            r.loc.handler = Some(Handler::StubStatus);
            Ok(())
        },
        "Answers with the number of connections and requests.",
    )
    .takes("[<word>]", "")
    .differs(&["counts"]),
];

/// A network and whether bits outside its mask were set (`ngx_ptocidr`).
pub(super) fn network(text: &str) -> Option<(IpNet, bool)> {
    let (addr, bits) = match text.split_once('/') {
        Some((addr, bits)) => (addr, Some(bits)),
        None => (text, None),
    };
    let addr: IpAddr = addr.parse().ok()?;
    let Some(bits) = bits else {
        return Some((addr.into(), false));
    };
    let bits = u8::try_from(value::number(bits.as_bytes())?).ok()?;
    let net = IpNet::new(addr, bits).ok()?;
    Some((net.trunc(), net.network() != addr))
}

/// As [`network`], with nginx's warning.
fn network_or_warn(reader: &mut Reader, text: &str, statement: &Statement) -> Option<IpNet> {
    let (net, odd) = network(text)?;
    if odd {
        reader.warn(
            format!("low address bits of {text} are meaningless"),
            statement,
        );
    }
    Some(net)
}

pub(super) fn access(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    let subject = match text.as_str() {
        "all" => AccessSubject::All,
        "unix:" => AccessSubject::Unix,
        _ => AccessSubject::Net(
            network_or_warn(reader, &text, statement).ok_or_else(|| Problem::parameter(&text))?,
        ),
    };
    reader.access().get_or_insert_default().push(AccessRule {
        allow: statement.name == "allow",
        subject,
    });
    Ok(())
}

pub(super) fn set_real_ip_from(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    // Both parts are one list in nginx: a block that has any of it inherits none.
    let realip = reader.realip();
    realip.from.get_or_insert_default();
    let unix = realip.from_unix.get_or_insert_default();
    if text == "unix:" {
        *unix = true;
        return Ok(());
    }
    let nets = match network_or_warn(reader, &text, statement) {
        Some(net) => vec![net],
        None => reader
            .url(&text, UrlOptions::default())
            .map_err(|error| Problem::message(format!("{error} in set_real_ip_from \"{text}\"")))?
            .addrs
            .iter()
            .filter_map(Addr::ip)
            .map(IpNet::from)
            .collect(),
    };
    reader.realip().from.get_or_insert_default().extend(nets);
    Ok(())
}

fn real_ip_header(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.realip.header.as_ref())?;
    reader.loc.realip.header = Some(match first(statement) {
        b"X-Real-IP" => RealipHeader::XRealIp,
        b"X-Forwarded-For" => RealipHeader::XForwardedFor,
        b"proxy_protocol" => RealipHeader::ProxyProtocol,
        name => RealipHeader::Name(String::from_utf8_lossy(name).to_ascii_lowercase().into()),
    });
    Ok(())
}

fn index(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let last = statement.args.len() - 1;
    for (i, word) in statement.args.iter().enumerate() {
        if word.bytes().starts_with(b"/") && i != last {
            reader.warn(
                "only the last index in \"index\" directive should be absolute",
                statement,
            );
        }
        if word.bytes().is_empty() {
            return Err(Problem::message(format!(
                "index \"{word}\" in \"index\" directive is invalid"
            )));
        }
        let template = reader.template(word.bytes())?;
        reader.loc.index.get_or_insert_default().push(template);
    }
    Ok(())
}

fn try_files(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.try_files.as_ref())?;
    let Some((last, candidates)) = statement.args.split_last() else {
        return Ok(());
    };
    let candidates = candidates
        .iter()
        .map(|word| {
            let path = word.bytes();
            let directory = path.strip_suffix(b"/");
            let template = reader.template(directory.unwrap_or(path))?;
            Ok((template, directory.is_some()))
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    let fallback = TryFallback::Uri(reader.template(last.bytes())?);
    let fallback = match last.bytes().strip_prefix(b"=") {
        Some(code) => TryFallback::Status(
            value::number(code)
                .and_then(|n| u16::try_from(n).ok())
                .filter(|n| *n <= 999)
                .ok_or_else(|| Problem::message(format!("invalid code \"{last}\"")))?,
        ),
        None => fallback,
    };
    reader.loc.try_files = Some(TryFiles {
        candidates,
        fallback,
    });
    Ok(())
}
