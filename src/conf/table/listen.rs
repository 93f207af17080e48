//! `listen` and `server_name`.
//!
//! Mirrors `ngx_http_core_listen` and `ngx_http_core_server_name` (`http/ngx_http_core_module.c`) and their twins in
//! `stream/ngx_stream_core_module.c`.

use std::{net::Ipv4Addr, time::Duration};

use super::{ONE_MORE, Row, SERVER, unsupported};
use crate::{
    common::addr::Addr,
    conf::{
        address::UrlOptions,
        error::Problem,
        lexer::Word,
        model::{ListenOptions, ServerName, SoKeepalive},
        parser::Statement,
        read::{AddListen, Reader, first},
        value,
    },
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "listen",
        SERVER,
        ONE_MORE,
        listen,
        "Sets an address and port, or a Unix socket, where the server accepts.",
    )
    .takes(
        "<address>[:<port>] | <port> | unix:<path> [default_server] \
             [proxy_protocol] [reuseport] [backlog=<number>] [rcvbuf=<size>] \
             [sndbuf=<size>] [deferred] [bind] [ipv6only=on|off] [fastopen=<number>] \
             [multipath] [so_keepalive=on|off|<idle>:<interval>:<count>]",
        "*:80",
    )
    .differs(&["unsupported", "accept-filter"]),
    Row::new(
        "server_name",
        SERVER,
        ONE_MORE,
        server_name,
        "Sets the names of the server; `*.x`, `x.*` and `~pattern` match several.",
    )
    .takes("<name> ...", "\"\"")
    .differs(&["patterns"]),
];

/// The address of a server without `listen`.
pub(super) fn default(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let port = if nix::unistd::getuid().is_root() {
        80
    } else {
        8000
    };
    let addr = Addr::Inet((Ipv4Addr::UNSPECIFIED, port).into());
    reader.add_listen(new_listen(addr), statement)
}

fn new_listen(addr: Addr) -> AddListen {
    AddListen {
        options: ListenOptions {
            addr,
            backlog: 511,
            rcvbuf: None,
            sndbuf: None,
            ipv6only: true,
            reuseport: false,
            deferred: false,
            fastopen: None,
            bind: false,
            so_keepalive: None,
            multipath: false,
            udp: false,
        },
        set: false,
        default_server: false,
        proxy_protocol: false,
        ssl: false,
        http2: false,
    }
}

pub(super) fn listen(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.listens();
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    let options = UrlOptions {
        default_port: if reader.in_stream() { 0 } else { 80 },
        listen: true,
        ..UrlOptions::default()
    };
    let url = reader.url(&text, options).map_err(|error| {
        Problem::message(format!("{error} in \"{text}\" of the \"listen\" directive"))
    })?;
    let mut listen = new_listen(Addr::Inet((Ipv4Addr::UNSPECIFIED, 80).into()));
    for word in statement.args.iter().skip(1) {
        match word.bytes() {
            b"udp" if reader.in_stream() => listen.options.udp = true,
            b"ssl" => listen.ssl = true,
            _ => parameter(reader, statement, &mut listen, word)?,
        }
    }
    if listen.options.udp {
        check_udp(statement, &listen)?;
    }
    let mut done: Vec<&Addr> = Vec::new();
    for addr in &url.addrs {
        if done.contains(&addr) {
            continue;
        }
        done.push(addr);
        let mut listen = listen.clone();
        listen.options.addr = addr.clone();
        reader.add_listen(listen, statement)?;
    }
    Ok(())
}

fn parameter(
    reader: &mut Reader,
    statement: &Statement,
    listen: &mut AddListen,
    word: &Word,
) -> Result<(), Problem> {
    let in_stream = reader.in_stream();
    let options = &mut listen.options;
    match word.bytes() {
        b"default_server" => {
            listen.default_server = true;
            return Ok(());
        }
        b"default" if !in_stream => {
            listen.default_server = true;
            return Ok(());
        }
        b"proxy_protocol" => {
            listen.proxy_protocol = true;
            return Ok(());
        }
        b"http2" if !in_stream => {
            reader.warn(
                "the \"listen ... http2\" directive is deprecated, \
                 use the \"http2\" directive instead",
                statement,
            );
            listen.http2 = true;
            return Ok(());
        }
        b"quic" if !in_stream => return Err(unsupported("listen ... quic")),
        b"bind" => {}
        b"deferred" => options.deferred = true,
        b"reuseport" => options.reuseport = true,
        b"multipath" => options.multipath = true,
        text if text.starts_with(b"accept_filter=") => {
            // DIFFERS(accept-filter): nginx goes on too, but logs this at level emerg.
            let text =
                format!("accept filters \"{word}\" are not supported on this platform, ignored");
            reader.warn(text, statement);
            return Ok(());
        }
        _ => valued(options, word)?,
    }
    listen.options.bind = true;
    listen.set = true;
    Ok(())
}

/// What makes no sense for datagrams, in the order in which nginx looks for it.
fn check_udp(statement: &Statement, listen: &AddListen) -> Result<(), Problem> {
    let options = &listen.options;
    let backlog = |word: &Word| word.bytes().starts_with(b"backlog=");
    let wrong = [
        ("fastopen", options.fastopen.is_some()),
        ("backlog", statement.args.iter().skip(1).any(backlog)),
        ("deferred", options.deferred),
        ("multipath", options.multipath),
        ("ssl", listen.ssl),
        ("so_keepalive", options.so_keepalive.is_some()),
        ("proxy_protocol", listen.proxy_protocol),
    ];
    match wrong.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Problem::Directive(format!(
            "\"{name}\" parameter is incompatible with \"udp\""
        ))),
        None => Ok(()),
    }
}

/// Parameters with a value.
fn valued(options: &mut ListenOptions, word: &Word) -> Result<(), Problem> {
    let text = word.text();
    let (key, value) = text.split_once('=').unwrap_or((&text, ""));
    let bytes = value.as_bytes();
    let invalid = || Problem::message(format!("invalid {key} \"{word}\""));
    let number = || value::number(bytes).and_then(|n| i32::try_from(n).ok());
    let size = || value::size(bytes).and_then(|n| usize::try_from(n).ok());
    match key {
        _ if !text.contains('=') => return Err(Problem::parameter(word)),
        "backlog" => options.backlog = number().filter(|n| *n != 0).ok_or_else(invalid)?,
        "fastopen" => options.fastopen = Some(number().ok_or_else(invalid)?),
        "rcvbuf" => options.rcvbuf = Some(size().ok_or_else(invalid)?),
        "sndbuf" => options.sndbuf = Some(size().ok_or_else(invalid)?),
        "ipv6only" if value.starts_with('o') => {
            options.ipv6only = match value {
                "on" => true,
                "off" => false,
                _ => {
                    return Err(Problem::message(format!(
                        "invalid ipv6only flags \"{value}\""
                    )));
                }
            }
        }
        "so_keepalive" => {
            options.so_keepalive = Some(so_keepalive(value).ok_or_else(|| {
                Problem::message(format!("invalid so_keepalive value: \"{value}\""))
            })?);
        }
        _ => return Err(Problem::parameter(word)),
    }
    Ok(())
}

/// `on`, `off` or `[keepidle]:[keepintvl]:[keepcnt]`
fn so_keepalive(text: &str) -> Option<SoKeepalive> {
    let mut keepalive = SoKeepalive {
        on: text != "off",
        idle: None,
        interval: None,
        count: None,
    };
    if matches!(text, "on" | "off") {
        return Some(keepalive);
    }
    let mut parts = text.splitn(3, ':');
    let mut seconds = || match parts.next() {
        None | Some("") => Some(0),
        Some(text) => value::seconds(text.as_bytes()),
    };
    let (idle, interval) = (seconds()?, seconds()?);
    let count = match parts.next() {
        None | Some("") => 0,
        Some(text) => value::number(text.as_bytes())?,
    };
    if idle == 0 && interval == 0 && count == 0 {
        return None;
    }
    let some = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
    keepalive.idle = some(idle);
    keepalive.interval = some(interval);
    keepalive.count = u32::try_from(count).ok().filter(|n| *n > 0);
    Some(keepalive)
}

pub(super) fn server_name(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    for word in &statement.args {
        let text = word.text();
        let star = text.starts_with('*') && (text.len() < 3 || !text.starts_with("*."));
        if star || text == "." {
            return Err(Problem::message(format!(
                "server name \"{word}\" is invalid"
            )));
        }
        if text.contains('/') {
            let text = format!("server name \"{word}\" has suspicious symbols");
            reader.warn(text, statement);
        }
        let name = match text.strip_prefix('~') {
            Some("") => {
                return Err(Problem::message(format!(
                    "empty regex in server name \"{word}\""
                )));
            }
            Some(pattern) => {
                let caseless = pattern.bytes().any(|c| c.is_ascii_uppercase());
                let pattern = reader.pattern(pattern.as_bytes(), caseless)?;
                ServerName::Regex(Box::new(pattern))
            }
            None if text.eq_ignore_ascii_case("$hostname") => {
                let host = nix::unistd::gethostname().unwrap_or_default();
                ServerName::Name(host.to_string_lossy().to_ascii_lowercase().into())
            }
            None => ServerName::Name(text.to_ascii_lowercase().into()),
        };
        reader.server_names().push(name);
    }
    Ok(())
}
