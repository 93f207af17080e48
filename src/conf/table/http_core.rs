//! The core module's settings.
//!
//! Mirrors `http/ngx_http_core_module.c`.

use super::{
    FLAG, HSL, HSLI, HTTP, LOCATION, NONE, ONE_MORE, Row, SERVER, TAKE1, TAKE2, TAKE12, log,
};
use crate::conf::{
    error::Problem,
    model::{self, BodyInFile, IfModifiedSince, LingeringClose, ServerTokens},
    parser::Statement,
    read::{self, Reader, bufs, bytes, bytes_or_giga, choice, first, flag, msec, num, unset},
    value,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "default_type",
        HSL,
        TAKE1,
        |r, s| once(&mut r.loc.core.default_type, s, |s| first(s).into()),
        "Sets the content type of files with an unknown extension.",
    ),
    Row::new(
        "internal",
        LOCATION,
        NONE,
        |r, s| once(&mut r.loc.internal, s, |_| true),
        "Makes a location reachable for internal redirects only.",
    ),
    Row::new(
        "error_log",
        HSL,
        ONE_MORE,
        log::location_error_log,
        "Sets where errors are logged, and from which severity on.",
    ),
    Row::new(
        "client_max_body_size",
        HSL,
        TAKE1,
        |r, s| bytes_or_giga(&mut r.loc.core.client_max_body_size, s),
        "Limits the size of a request's body; 0 is no limit.",
    ),
    Row::new(
        "client_body_buffer_size",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.core.client_body_buffer_size, s),
        "Sets how much of a request's body stays in memory.",
    ),
    Row::new(
        "client_body_in_file_only",
        HSL,
        TAKE1,
        |r, s| {
            choice(
                &mut r.loc.core.client_body_in_file_only,
                s,
                &[
                    ("off", BodyInFile::Off),
                    ("on", BodyInFile::On),
                    ("clean", BodyInFile::Clean),
                ],
            )
        },
        "Writes every request's body to a file.",
    ),
    Row::new(
        "client_body_in_single_buffer",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.client_body_in_single_buffer, s),
        "Keeps a request's body in one piece.",
    ),
    Row::new(
        "client_body_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.client_body_timeout, s),
        "Bounds the time between two reads of a request's body.",
    ),
    Row::new(
        "client_header_buffer_size",
        HTTP | SERVER,
        TAKE1,
        |r, s| bytes(&mut r.srv.core.client_header_buffer_size, s),
        "Sets the size of the first buffer for a request's header.",
    ),
    Row::new(
        "client_header_timeout",
        HTTP | SERVER,
        TAKE1,
        |r, s| msec(&mut r.srv.core.client_header_timeout, s),
        "Bounds the time that a request's header takes.",
    ),
    Row::new(
        "large_client_header_buffers",
        HTTP | SERVER,
        TAKE2,
        |r, s| bufs(&mut r.srv.core.large_client_header_buffers, s),
        "Sets the buffers for long request lines and header fields.",
    ),
    Row::new(
        "max_headers",
        HTTP | SERVER,
        TAKE1,
        |r, s| num(&mut r.srv.core.max_headers, s),
        "Limits the number of a request's header fields.",
    ),
    Row::new(
        "connection_pool_size",
        HTTP | SERVER,
        TAKE1,
        |r, s| pool_size(&mut r.srv.core.connection_pool_size, s),
        "Sets how much memory nginx allocates for a connection at first.",
    ),
    Row::new(
        "request_pool_size",
        HTTP | SERVER,
        TAKE1,
        |r, s| pool_size(&mut r.srv.core.request_pool_size, s),
        "Sets how much memory nginx allocates for a request at first.",
    ),
    Row::new(
        "ignore_invalid_headers",
        HTTP | SERVER,
        FLAG,
        |r, s| flag(&mut r.srv.core.ignore_invalid_headers, s),
        "Drops header fields with invalid names instead of refusing the request.",
    ),
    Row::new(
        "merge_slashes",
        HTTP | SERVER,
        FLAG,
        |r, s| flag(&mut r.srv.core.merge_slashes, s),
        "Takes several slashes in a URI as one.",
    ),
    Row::new(
        "underscores_in_headers",
        HTTP | SERVER,
        FLAG,
        |r, s| flag(&mut r.srv.core.underscores_in_headers, s),
        "Allows underscores in the names of header fields.",
    ),
    Row::new(
        "satisfy",
        HSL,
        TAKE1,
        |r, s| {
            choice(
                &mut r.loc.core.satisfy_any,
                s,
                &[("all", false), ("any", true)],
            )
        },
        "Says whether all kinds of access control must agree or any.",
    ),
    Row::new(
        "auth_delay",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.auth_delay, s),
        "Delays the answer to an unauthorized request.",
    ),
    Row::new(
        "send_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.send_timeout, s),
        "Bounds the time between two writes to a client.",
    ),
    Row::new(
        "send_lowat",
        HSL,
        TAKE1,
        send_lowat,
        "Sets the smallest write to a client where the system can.",
    ),
    Row::new(
        "sendfile",
        HSLI,
        FLAG,
        |r, s| flag(&mut r.loc.core.sendfile, s),
        "Sends files without copying them through the process.",
    ),
    Row::new(
        "tcp_nodelay",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.tcp_nodelay, s),
        "Sends small packets at once.",
    ),
    Row::new(
        "tcp_nopush",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.tcp_nopush, s),
        "Sends full packets only while there is more.",
    ),
    Row::new(
        "postpone_output",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.core.postpone_output, s),
        "Sets how much output is gathered before it is sent.",
    ),
    Row::new(
        "limit_rate",
        HSLI,
        TAKE1,
        |r, s| read::text_size(r, s, |r| &mut r.loc.core.limit_rate),
        "Limits the bytes a second of a response.",
    ),
    Row::new(
        "limit_rate_after",
        HSLI,
        TAKE1,
        |r, s| read::text_size(r, s, |r| &mut r.loc.core.limit_rate_after),
        "Sets how much of a response is sent before the rate is limited.",
    ),
    Row::new(
        "keepalive_requests",
        HSL,
        TAKE1,
        |r, s| num(&mut r.loc.core.keepalive_requests, s),
        "Limits the requests of a client connection.",
    ),
    Row::new(
        "keepalive_time",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.keepalive_time, s),
        "Limits how long a client connection takes requests.",
    ),
    Row::new(
        "keepalive_timeout",
        HSL,
        TAKE12,
        keepalive_timeout,
        "Bounds how long a client connection is idle; 0 turns keep-alive off.",
    ),
    Row::new(
        "keepalive_min_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.keepalive_min_timeout, s),
        "Keeps an idle client connection at least this long when the worker stops.",
    ),
    Row::new(
        "keepalive_disable",
        HSL,
        TAKE12,
        keepalive_disable,
        "Turns keep-alive off for some browsers.",
    ),
    Row::new(
        "lingering_close",
        HSL,
        TAKE1,
        |r, s| {
            choice(
                &mut r.loc.core.lingering_close,
                s,
                &[
                    ("off", LingeringClose::Off),
                    ("on", LingeringClose::On),
                    ("always", LingeringClose::Always),
                ],
            )
        },
        "Reads what a client still sends before its connection is closed.",
    ),
    Row::new(
        "lingering_time",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.lingering_time, s),
        "Bounds how long that goes on.",
    ),
    Row::new(
        "lingering_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.lingering_timeout, s),
        "Bounds how long it waits for more.",
    ),
    Row::new(
        "reset_timedout_connection",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.reset_timedout_connection, s),
        "Resets connections that timed out.",
    ),
    Row::new(
        "absolute_redirect",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.absolute_redirect, s),
        "Puts scheme and host into redirects.",
    ),
    Row::new(
        "server_name_in_redirect",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.server_name_in_redirect, s),
        "Puts the first server name into redirects instead of the client's host.",
    ),
    Row::new(
        "port_in_redirect",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.port_in_redirect, s),
        "Puts the port into redirects.",
    ),
    Row::new(
        "msie_padding",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.msie_padding, s),
        "Pads error pages for old browsers.",
    ),
    Row::new(
        "msie_refresh",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.msie_refresh, s),
        "Answers old browsers with refreshes instead of redirects.",
    ),
    Row::new(
        "log_not_found",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.log_not_found, s),
        "Logs files that are not there.",
    ),
    Row::new(
        "log_subrequest",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.log_subrequest, s),
        "Logs subrequests in the access log.",
    ),
    Row::new(
        "recursive_error_pages",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.recursive_error_pages, s),
        "Lets error pages have error pages.",
    ),
    Row::new(
        "chunked_transfer_encoding",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.chunked_transfer_encoding, s),
        "Sends responses of unknown length in chunks.",
    ),
    Row::new(
        "etag",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.etag, s),
        "Sends ETag with files.",
    ),
    Row::new(
        "server_tokens",
        HSL,
        TAKE1,
        server_tokens,
        "Sets the Server header: `on`, `off`, `build` or a text.",
    ),
    Row::new(
        "if_modified_since",
        HSL,
        TAKE1,
        |r, s| {
            choice(
                &mut r.loc.core.if_modified_since,
                s,
                &[
                    ("off", IfModifiedSince::Off),
                    ("exact", IfModifiedSince::Exact),
                    ("before", IfModifiedSince::Before),
                ],
            )
        },
        "Says how If-Modified-Since is compared.",
    ),
    Row::new(
        "max_ranges",
        HSL,
        TAKE1,
        max_ranges,
        "Limits the number of ranges in a request.",
    ),
    Row::new(
        "disable_symlinks",
        HSL,
        TAKE12,
        disable_symlinks,
        "Refuses files behind symbolic links.",
    ),
    Row::new(
        "subrequest_output_buffer_size",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.core.subrequest_output_buffer_size, s),
        "Sets the buffer for the response of a subrequest.",
    ),
    Row::new(
        "directio",
        HSL,
        TAKE1,
        directio,
        "Reads large files around the system's cache.",
    ),
    Row::new(
        "output_buffers",
        HSL,
        TAKE2,
        |r, s| bufs(&mut r.loc.core.output_buffers, s),
        "Sets the buffers for reading files.",
    ),
    Row::new(
        "read_ahead",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.core.read_ahead, s),
        "Sets how much of a file the system reads ahead.",
    ),
];

/// A value that is set once.
fn once<T>(
    slot: &mut Option<T>,
    statement: &Statement,
    make: impl Fn(&Statement) -> T,
) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    *slot = Some(make(statement));
    Ok(())
}

/// `ngx_http_core_pool_size`
fn pool_size(slot: &mut Option<usize>, statement: &Statement) -> Result<(), Problem> {
    bytes(slot, statement)?;
    match *slot {
        Some(size) if size < MIN_POOL_SIZE => Err(Problem::message(format!(
            "the pool size must be no less than {MIN_POOL_SIZE}"
        ))),
        Some(size) if size % POOL_ALIGNMENT != 0 => Err(Problem::message(format!(
            "the pool size must be a multiple of {POOL_ALIGNMENT}"
        ))),
        _ => Ok(()),
    }
}

fn send_lowat(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    bytes(&mut reader.loc.core.send_lowat, statement)?;
    reader.warn("\"send_lowat\" is not supported, ignored", statement);
    Ok(())
}

fn keepalive_timeout(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    msec(&mut reader.loc.core.keepalive_timeout, statement)?;
    if let Some(word) = statement.args.get(1) {
        let seconds = value::seconds(word.bytes()).ok_or_else(Problem::invalid_value)?;
        reader.loc.core.keepalive_header = Some(Some(std::time::Duration::from_secs(seconds)));
    }
    Ok(())
}

fn keepalive_disable(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    read::bits(
        reader,
        statement,
        |r| &mut r.loc.core.keepalive_disable,
        &[
            ("none", |set: &mut model::KeepaliveDisable| &mut set.none),
            ("msie6", |set| &mut set.msie6),
            ("safari", |set| &mut set.safari),
        ],
    )
}

fn server_tokens(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.core.server_tokens.as_ref())?;
    let text = first(statement);
    reader.loc.core.server_tokens = Some(match text {
        b"on" => ServerTokens::On,
        b"off" => ServerTokens::Off,
        b"build" => ServerTokens::Build,
        // DIFFERS(server-tokens): nginx takes a text in its commercial edition only.
        text => ServerTokens::Text(reader.template(text)?),
    });
    Ok(())
}

fn max_ranges(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let mut number = None;
    if reader.loc.core.max_ranges.is_some() {
        return Err(Problem::duplicate());
    }
    num::<u64>(&mut number, statement)?;
    reader.loc.core.max_ranges = Some(number);
    Ok(())
}

fn disable_symlinks(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.core.disable_symlinks.as_ref())?;
    let mut mode = None;
    let mut from = false;
    for word in &statement.args {
        match word.bytes() {
            b"off" => mode = Some(false),
            b"on" | b"if_not_owner" => mode = Some(true),
            text => match text.strip_prefix(b"from=") {
                Some(path) => {
                    reader.template(path)?;
                    from = true;
                }
                None => return Err(Problem::parameter(word)),
            },
        }
    }
    let mode = mode.ok_or_else(|| {
        Problem::message(
            "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter",
        )
    })?;
    if let ([a, b], false) = (statement.args.as_slice(), from) {
        return Err(Problem::message(format!(
            "duplicate parameters \"{a} {b}\""
        )));
    }
    if from && !mode {
        return Err(Problem::message(
            "\"from=\" cannot be used with \"off\" parameter",
        ));
    }
    if mode {
        return Err(super::unsupported("disable_symlinks on"));
    }
    reader.loc.core.disable_symlinks = Some(mode);
    Ok(())
}

fn directio(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if reader.loc.core.directio.is_some() {
        return Err(Problem::duplicate());
    }
    reader.loc.core.directio = Some(match first(statement) {
        b"off" => None,
        text => Some(value::offset(text).ok_or_else(Problem::invalid_value)?),
    });
    Ok(())
}

/// `NGX_MIN_POOL_SIZE`
const MIN_POOL_SIZE: usize = 112;
/// `NGX_POOL_ALIGNMENT`
const POOL_ALIGNMENT: usize = 16;
