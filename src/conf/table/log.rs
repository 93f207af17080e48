//! `error_log`, `access_log`, `log_format`.
//!
//! Mirrors `core/ngx_log.c`, `core/ngx_syslog.c`, `ngx_http_log_module.c` and `ngx_stream_log_module.c`.

use std::{sync::Arc, time::Duration};

use super::{
    HSL, HSLI, HTTP, LIMIT_EXCEPT, ONE_MORE, Row, TAKE1234, TWO_MORE, accepted::cache_parameters,
};
use crate::{
    conf::{
        address::UrlOptions,
        error::Problem,
        lexer::Word,
        model::{AccessLog, ErrorLog, Escape, Level, LogFormat, LogTarget, Syslog},
        parser::Statement,
        read::{FormatDraft, Reader, first, unset},
        value,
    },
    vars::{Template, VarId, template::TemplateError},
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "access_log",
        HSLI | LIMIT_EXCEPT,
        ONE_MORE,
        access_log,
        "Logs requests to a file, a path with variables or syslog; `off` logs none.",
    )
    .takes(
        "<path> [<format>] [buffer=<size>] [gzip[=<level>]] [flush=<time>] \
             [if=<condition>]; syslog:server=<address>[,<parameter>=<value>] \
             [<format> [if=<condition>]]; off",
        "logs/access.log combined",
    )
    .differs(&["log-writes"]),
    Row::new(
        "log_format",
        HTTP,
        TWO_MORE,
        log_format,
        "Names a format for access logs.",
    )
    .takes(
        "<name> [escape=default|json|none] <text> ...",
        "combined '$remote_addr - $remote_user [$time_local] \"$request\" \
             $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"'",
    )
    .differs(&["json-log"]),
    Row::new(
        "open_log_file_cache",
        HSL,
        TAKE1234,
        open_log_file_cache,
        "Keeps logs with variables in their path open.",
    )
    .takes(
        "max=<number> [inactive=<time>] [min_uses=<number>] [valid=<time>]; off",
        "off",
    )
    .differs(&["log-files"]),
];

pub(super) fn main_error_log(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let log = error_log(reader, statement)?;
    reader.main.error_log.push(log);
    Ok(())
}

pub(super) fn location_error_log(
    reader: &mut Reader,
    statement: &Statement,
) -> Result<(), Problem> {
    let log = error_log(reader, statement)?;
    let slot = reader.error_logs();
    let logs = slot.take().flatten();
    let mut logs = logs.map_or_else(Vec::new, |logs| logs.to_vec());
    logs.push(log);
    *slot = Some(Some(logs.into()));
    Ok(())
}

fn error_log(reader: &mut Reader, statement: &Statement) -> Result<ErrorLog, Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    let target = if text == "stderr" {
        LogTarget::Stderr
    } else if let Some(size) = text.strip_prefix("memory:") {
        let size = value::size(size.as_bytes())
            .ok_or_else(|| Problem::message(format!("invalid buffer size \"{size}\"")))?;
        LogTarget::Memory(size)
    } else if let Some(parameters) = text.strip_prefix("syslog:") {
        LogTarget::Syslog(Arc::new(syslog(reader, parameters)?))
    } else {
        LogTarget::File(reader.full_path(&text).into())
    };
    let level = level(statement.args.get(1..).unwrap_or_default())?;
    Ok(ErrorLog { target, level })
}

/// `ngx_log_set_levels`; a `debug_*` word means `debug`.
fn level(words: &[Word]) -> Result<Level, Problem> {
    let mut level: Option<Level> = None;
    for word in words {
        let found = LEVELS.iter().find(|(name, _)| word == name);
        if let Some((_, found)) = found {
            if level.is_some() {
                return Err(Problem::message(format!("duplicate log level \"{word}\"")));
            }
            level = Some(*found);
        } else if DEBUG_LEVELS.iter().any(|name| word == name) {
            if level.is_some_and(|level| level != Level::Debug) {
                return Err(Problem::message(format!("invalid log level \"{word}\"")));
            }
            level = Some(Level::Debug);
        } else {
            return Err(Problem::message(format!("invalid log level \"{word}\"")));
        }
    }
    Ok(level.unwrap_or(Level::Error))
}

const LEVELS: [(&str, Level); 8] = [
    ("emerg", Level::Emerg),
    ("alert", Level::Alert),
    ("crit", Level::Crit),
    ("error", Level::Error),
    ("warn", Level::Warn),
    ("notice", Level::Notice),
    ("info", Level::Info),
    ("debug", Level::Debug),
];

const DEBUG_LEVELS: [&str; 7] = [
    "debug_core",
    "debug_alloc",
    "debug_mutex",
    "debug_event",
    "debug_http",
    "debug_mail",
    "debug_stream",
];

/// The parameters after `syslog:` (`ngx_syslog_parse_args`).
fn syslog(reader: &Reader, parameters: &str) -> Result<Syslog, Problem> {
    let mut server = None;
    let mut facility = None;
    let mut severity = None;
    let mut tag = None;
    let mut nohostname = false;
    for parameter in parameters.split(',') {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let duplicate = || Problem::message(format!("duplicate syslog \"{key}\""));
        match key {
            "nohostname" if parameter == key => nohostname = true,
            _ if parameter == key => return Err(unknown_syslog(parameter)),
            "server" if server.is_some() => return Err(duplicate()),
            "facility" if facility.is_some() => return Err(duplicate()),
            "severity" if severity.is_some() => return Err(duplicate()),
            "tag" if tag.is_some() => return Err(duplicate()),
            "server" => {
                let options = UrlOptions {
                    default_port: 514,
                    ..UrlOptions::default()
                };
                let url = reader.url(value, options).map_err(|error| {
                    Problem::message(format!("{error} in syslog server \"{value}\""))
                })?;
                server = url.addrs.into_iter().next();
            }
            "facility" => facility = Some(named(&FACILITIES, value, key)?),
            "severity" => severity = Some(named(&SEVERITIES, value, key)?),
            "tag" => tag = Some(syslog_tag(value)?),
            _ => return Err(unknown_syslog(parameter)),
        }
    }
    Ok(Syslog {
        server: server.ok_or_else(|| Problem::message("no syslog server specified"))?,
        facility: facility.unwrap_or(23),
        severity: severity.unwrap_or(6),
        tag: tag.unwrap_or("nginx").into(),
        nohostname,
    })
}

fn unknown_syslog(parameter: &str) -> Problem {
    Problem::message(format!("unknown syslog parameter \"{parameter}\""))
}

fn named(names: &[&str], value: &str, key: &str) -> Result<u8, Problem> {
    names
        .iter()
        .position(|name| *name == value)
        .and_then(|index| u8::try_from(index).ok())
        .ok_or_else(|| Problem::message(format!("unknown syslog {key} \"{value}\"")))
}

fn syslog_tag(tag: &str) -> Result<&str, Problem> {
    if tag.len() > 32 {
        return Err(Problem::message("syslog tag length exceeds 32"));
    }
    if !tag.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') {
        return Err(Problem::message(
            "syslog \"tag\" only allows alphanumeric characters and underscore",
        ));
    }
    Ok(tag)
}

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv",
    "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

const SEVERITIES: [&str; 8] = [
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
];

/// The format that is always there.
pub(super) fn combined(reader: &mut Reader) -> FormatDraft {
    let template = reader.template(COMBINED.as_bytes()).unwrap_or_default();
    FormatDraft {
        format: Arc::new(LogFormat {
            name: "combined".into(),
            escape: Escape::Default,
            template,
        }),
    }
}

const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                        $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

impl Reader {
    /// What is logged where there is no `access_log`.
    pub(in crate::conf) fn default_log(&self) -> Arc<[AccessLog]> {
        let logs: Vec<AccessLog> = self
            .realm
            .formats
            .first()
            .map(|combined| AccessLog {
                target: LogTarget::File(self.full_path("logs/access.log").into()),
                format: combined.format.clone(),
                condition: None,
                buffer: None,
                flush: None,
                gzip: None,
            })
            .into_iter()
            .collect();
        logs.into()
    }
}

pub(super) fn log_format(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let [name, words @ ..] = statement.args.as_slice() else {
        return Ok(());
    };
    let known = &reader.realm.formats;
    if known.iter().any(|draft| name == &*draft.format.name) {
        return Err(Problem::message(format!(
            "duplicate \"log_format\" name \"{name}\""
        )));
    }
    let (escape, words) = match words {
        [word, rest @ ..] => match word.text().strip_prefix("escape=") {
            Some("default") => (Escape::Default, rest),
            Some("json") => (Escape::Json, rest),
            Some("none") => (Escape::None, rest),
            Some(other) => {
                return Err(Problem::message(format!(
                    "unknown log format escaping \"{other}\""
                )));
            }
            None => (Escape::Default, words),
        },
        [] => (Escape::Default, words),
    };
    for word in words {
        check_format(word.bytes())?;
        digits(reader, word.bytes());
    }
    let text: Vec<u8> = words.iter().flat_map(Word::bytes).copied().collect();
    let template = reader.template(&text)?;
    reader.realm.formats.push(FormatDraft {
        format: Arc::new(LogFormat {
            name: name.text().into(),
            escape,
            template,
        }),
    });
    Ok(())
}

/// Each argument must be a text of its own; nginx says where a name is missing.
fn check_format(text: &[u8]) -> Result<(), Problem> {
    let Err(error) = Template::compile(text, &mut |_| VarId::Uri) else {
        return Ok(());
    };
    if error != TemplateError::InvalidName {
        return Err(error.into());
    }
    let at = (0..text.len()).find(|at| {
        text.get(*at) == Some(&b'$')
            && Template::compile(&text[..=*at], &mut |_| VarId::Uri).is_err()
            && !matches!(text.get(at + 1), Some(c) if c.is_ascii_alphanumeric() || matches!(c, b'_' | b'{'))
    });
    let rest = text.get(at.unwrap_or(0)..).unwrap_or_default();
    Err(Problem::parameter(String::from_utf8_lossy(rest)))
}

/// `$1` is no capture in a log: it is a name that nobody has defined.
fn digits(reader: &mut Reader, text: &[u8]) {
    for part in text.split(|c| *c == b'$').skip(1) {
        if matches!(part.first(), Some(b'1'..=b'9')) {
            let end = part
                .iter()
                .position(|c| !c.is_ascii_alphanumeric() && *c != b'_');
            let name = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
            reader.vars.resolve_name(&String::from_utf8_lossy(name));
        }
    }
}

pub(super) fn access_log(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let [path, rest @ ..] = statement.args.as_slice() else {
        return Ok(());
    };
    if *path == "off" {
        if let Some(word) = rest.first() {
            return Err(Problem::parameter(word));
        }
        let (logs, off) = reader.access_logs();
        *off = true;
        logs.get_or_insert_default();
        return Ok(());
    }
    let text = path.text();
    let target = if let Some(parameters) = text.strip_prefix("syslog:") {
        LogTarget::Syslog(Arc::new(syslog(reader, parameters)?))
    } else {
        let full = reader.full_path(&text);
        if text.contains('$') {
            LogTarget::Template(reader.template(full.as_os_str().as_encoded_bytes())?)
        } else {
            LogTarget::File(full.into())
        }
    };
    let name = match rest.first() {
        Some(word) => word.text(),
        None if reader.in_stream() => {
            return Err(Problem::message("log format is not specified"));
        }
        None => "combined".into(),
    };
    let format = reader
        .realm
        .formats
        .iter()
        .find(|draft| draft.format.name.eq_ignore_ascii_case(&name))
        .map(|draft| draft.format.clone())
        .ok_or_else(|| Problem::message(format!("unknown log format \"{name}\"")))?;
    let mut log = AccessLog {
        target,
        format,
        condition: None,
        buffer: None,
        flush: None,
        gzip: None,
    };
    for word in rest.iter().skip(1) {
        access_log_parameter(reader, &mut log, word)?;
    }
    check_buffer(reader, &log, path)?;
    reader.access_logs().0.get_or_insert_default().push(log);
    Ok(())
}

fn access_log_parameter(
    reader: &mut Reader,
    log: &mut AccessLog,
    word: &Word,
) -> Result<(), Problem> {
    let text = word.text();
    if text == "gzip" {
        log.gzip = Some(1);
        log.buffer.get_or_insert(DEFAULT_GZIP_BUFFER);
        return Ok(());
    }
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| Problem::parameter(word))?;
    let invalid = |what: &str| Problem::message(format!("invalid {what} \"{value}\""));
    let bytes = value.as_bytes();
    match key {
        "buffer" => {
            let size = value::size(bytes).filter(|n| *n > 0);
            let size = size.and_then(|n| usize::try_from(n).ok());
            log.buffer = Some(size.ok_or_else(|| invalid("buffer size"))?);
        }
        "flush" => {
            let time = value::milliseconds(bytes).filter(|n| *n > 0);
            let time = time.ok_or_else(|| invalid("flush time"))?;
            log.flush = Some(Duration::from_millis(time));
        }
        "gzip" => {
            log.buffer.get_or_insert(DEFAULT_GZIP_BUFFER);
            let level = value::number(bytes).and_then(|n| u32::try_from(n).ok());
            let level = level.filter(|n| (1..=9).contains(n));
            log.gzip = Some(level.ok_or_else(|| invalid("compression level"))?);
        }
        "if" => log.condition = Some(reader.template(bytes)?),
        _ => return Err(Problem::parameter(word)),
    }
    Ok(())
}

fn check_buffer(reader: &mut Reader, log: &AccessLog, path: &Word) -> Result<(), Problem> {
    let Some(size) = log.buffer else {
        return match log.flush {
            Some(_) => Err(Problem::message(format!(
                "no buffer is defined for access_log \"{path}\""
            ))),
            None => Ok(()),
        };
    };
    match &log.target {
        LogTarget::Template(_) => Err(Problem::message(
            "buffered logs cannot have variables in name",
        )),
        LogTarget::Syslog(_) => Err(Problem::message("logs to syslog cannot be buffered")),
        LogTarget::File(file) => {
            let parameters = (size, log.flush, log.gzip);
            let known = reader.log_buffers.entry(file.clone()).or_insert(parameters);
            if *known == parameters {
                return Ok(());
            }
            Err(Problem::message(format!(
                "access_log \"{path}\" already defined with conflicting parameters"
            )))
        }
        _ => Ok(()),
    }
}

const DEFAULT_GZIP_BUFFER: usize = 64 << 10;

pub(super) fn open_log_file_cache(
    reader: &mut Reader,
    statement: &Statement,
) -> Result<(), Problem> {
    let known = ["max", "inactive", "min_uses", "valid"];
    let slot = reader.log_cache();
    unset(slot.as_ref())?;
    *slot = Some(cache_parameters(statement, &known)?);
    Ok(())
}
