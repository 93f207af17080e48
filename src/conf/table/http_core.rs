//! The core module's settings.
//!
//! Mirrors `http/ngx_http_core_module.c`.

use super::{
    FLAG, HSL, HSLI, HTTP, LOCATION, NONE, ONE_MORE, Row, SERVER, TAKE1, TAKE2, TAKE12,
    http_core_values as values, log,
};
use crate::conf::{
    model::IfModifiedSince,
    read::{self, bufs, bytes, choice, first, flag, msec},
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "default_type",
        HSL,
        TAKE1,
        |r, s| values::once(&mut r.loc.core.default_type, s, |s| first(s).into()),
        "Sets the content type of files with an unknown extension.",
    )
    .takes("<type>", "text/plain"),
    Row::new(
        "internal",
        LOCATION,
        NONE,
        |r, s| values::once(&mut r.loc.internal, s, |_| true),
        "Makes a location reachable for internal redirects only.",
    ),
    Row::new(
        "error_log",
        HSL,
        ONE_MORE,
        log::location_error_log,
        "Sets where errors are logged, and from which severity on.",
    )
    .takes(
        "<file> | stderr | syslog:server=<address>[,<parameter>=<value>] | \
             memory:<size> [<level>]",
        "logs/error.log error",
    ),
    Row::new(
        "merge_slashes",
        HTTP | SERVER,
        FLAG,
        |r, s| flag(&mut r.srv.core.merge_slashes, s),
        "Takes several slashes in a URI as one.",
    )
    .default("on"),
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
    )
    .takes("all | any", "all"),
    Row::accepted(
        "auth_delay",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.auth_delay, s),
        "Delays the answer to an unauthorized request.",
    ),
    Row::accepted(
        "sendfile",
        HSLI,
        FLAG,
        |r, s| flag(&mut r.loc.core.sendfile, s),
        "Sends files without copying them through the process.",
    ),
    Row::accepted(
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
    )
    .takes("<rate>", "0"),
    Row::new(
        "limit_rate_after",
        HSLI,
        TAKE1,
        |r, s| read::text_size(r, s, |r| &mut r.loc.core.limit_rate_after),
        "Sets how much of a response is sent before the rate is limited.",
    )
    .takes("<size>", "0"),
    Row::new(
        "absolute_redirect",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.absolute_redirect, s),
        "Puts scheme and host into redirects.",
    )
    .default("on"),
    Row::new(
        "server_name_in_redirect",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.server_name_in_redirect, s),
        "Puts the first server name into redirects instead of the client's host.",
    )
    .default("off"),
    Row::new(
        "port_in_redirect",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.port_in_redirect, s),
        "Puts the port into redirects.",
    )
    .default("on"),
    Row::new(
        "msie_padding",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.msie_padding, s),
        "Pads error pages for old browsers.",
    )
    .default("on"),
    Row::new(
        "msie_refresh",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.msie_refresh, s),
        "Answers old browsers with refreshes instead of redirects.",
    )
    .default("off"),
    Row::new(
        "log_not_found",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.log_not_found, s),
        "Logs files that are not there.",
    )
    .default("on"),
    Row::accepted(
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
    )
    .default("off"),
    Row::new(
        "chunked_transfer_encoding",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.chunked_transfer_encoding, s),
        "Sends responses of unknown length in chunks.",
    )
    .default("on"),
    Row::new(
        "etag",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.etag, s),
        "Sends ETag with files.",
    )
    .default("on"),
    Row::new(
        "early_hints",
        HSL,
        ONE_MORE,
        values::early_hints,
        "Passes 103 responses on where one of these is neither empty nor 0.",
    )
    .takes("<text> ...", ""),
    Row::new(
        "server_tokens",
        HSL,
        TAKE1,
        values::server_tokens,
        "Sets the Server header: `on`, `off`, `build` or a text.",
    )
    .takes("on | off | build | <text>", "on")
    .differs(&["product", "server-tokens"]),
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
    )
    .takes("off | exact | before", "exact"),
    Row::new(
        "max_ranges",
        HSL,
        TAKE1,
        values::max_ranges,
        "Limits the number of ranges in a request.",
    )
    .takes("<number>", ""),
    Row::new(
        "disable_symlinks",
        HSL,
        TAKE12,
        values::disable_symlinks,
        "Refuses files behind symbolic links.",
    )
    .takes("off; on | if_not_owner [from=<part>]", "off")
    .differs(&["unsupported"]),
    Row::accepted(
        "subrequest_output_buffer_size",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.core.subrequest_output_buffer_size, s),
        "Sets the buffer for the response of a subrequest.",
    ),
    Row::accepted(
        "directio",
        HSL,
        TAKE1,
        values::directio,
        "Reads large files around the system's cache.",
    ),
    Row::accepted(
        "output_buffers",
        HSL,
        TAKE2,
        |r, s| bufs(&mut r.loc.core.output_buffers, s),
        "Sets the buffers for reading files.",
    ),
    Row::accepted(
        "read_ahead",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.core.read_ahead, s),
        "Sets how much of a file the system reads ahead.",
    ),
];
