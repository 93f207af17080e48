//! The proxy module.
//!
//! Mirrors `ngx_http_proxy_module.c`. What concerns TLS to upstreams is in [`super::proxy_ssl`].

use super::{
    FLAG, HSL, LIMIT_EXCEPT, LOCATION, LOCATION_IF, ONE_MORE, Row, TAKE1, TAKE2, TAKE12, TAKE1234,
    http_paths::temp_path, proxy_pass, proxy_rewrite as rewrite, proxy_values as values,
    proxy_values::option_bytes,
};
use crate::conf::{
    model::ProxyVersion,
    read::{bufs, bytes, choice, flag, msec, num, text_size},
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "proxy_pass",
        LOCATION | LOCATION_IF | LIMIT_EXCEPT,
        TAKE1,
        proxy_pass::proxy_pass,
        "Proxies requests to this address or group.",
    )
    .takes(
        "http://<address>[<uri>] | https://<address>[<uri>]; http://unix:<path>[:<uri>] | https://unix:<path>[:<uri>]",
        "",
    )
    .differs(&["unsupported"]),
    Row::new(
        "proxy_redirect",
        HSL,
        TAKE12,
        rewrite::redirect,
        "Changes Location and Refresh of responses.",
    )
    .takes("default | off; <from> <to>", "default"),
    Row::new(
        "proxy_cookie_domain",
        HSL,
        TAKE12,
        rewrite::cookie_domain,
        "Changes the domain of cookies.",
    )
    .takes("off; <from> <to>", "off"),
    Row::new(
        "proxy_cookie_path",
        HSL,
        TAKE12,
        rewrite::cookie_path,
        "Changes the path of cookies.",
    )
    .takes("off; <from> <to>", "off"),
    Row::new(
        "proxy_cookie_flags",
        HSL,
        TAKE1234,
        rewrite::cookie_flags,
        "Sets flags of cookies.",
    )
    .takes("off; <cookie> <flag> [<flag> [<flag>]]", "off"),
    Row::new(
        "proxy_set_header",
        HSL,
        TAKE2,
        |r, s| values::set_header(r, s, |r| &mut r.loc.proxy.set_header),
        "Sets a header field of proxied requests; empty leaves it out.",
    )
    .takes("<field> <value>", "Host $proxy_host"),
    Row::new(
        "proxy_pass_header",
        HSL,
        TAKE1,
        |r, s| values::field(r, s, |r| &mut r.loc.proxy.pass_header),
        "Passes a header field that is hidden otherwise.",
    )
    .takes("<field>", ""),
    Row::new(
        "proxy_hide_header",
        HSL,
        TAKE1,
        |r, s| values::field(r, s, |r| &mut r.loc.proxy.hide_header),
        "Hides a header field of responses.",
    )
    .takes("<field>", ""),
    Row::new(
        "proxy_ignore_headers",
        HSL,
        ONE_MORE,
        |r, s| values::ignore_headers(r, s, |r| &mut r.loc.proxy.ignore_headers),
        "Ignores what these header fields of responses ask for.",
    )
    .takes("<field> ...", ""),
    Row::new(
        "proxy_next_upstream",
        HSL,
        ONE_MORE,
        |r, s| values::next_upstream(r, s, |r| &mut r.loc.proxy.next_upstream, &values::CASES),
        "Says in which cases a request is tried on the next server.",
    )
    .takes(
        "error | timeout | invalid_header | http_500 | http_502 | http_503 | \
             http_504 | http_403 | http_404 | http_429 | non_idempotent | off ...",
        "error timeout",
    )
    .differs(&["giveback"]),
    Row::new(
        "proxy_next_upstream_tries",
        HSL,
        TAKE1,
        |r, s| num(&mut r.loc.proxy.next_upstream_tries, s),
        "Limits the tries of a request; 0 is no limit.",
    )
    .takes("<number>", "0"),
    Row::new(
        "proxy_next_upstream_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.proxy.next_upstream_timeout, s),
        "Bounds the time in which tries begin.",
    )
    .takes("<time>", "0"),
    Row::new(
        "proxy_bind",
        HSL,
        TAKE12,
        |r, s| values::bind(r, s, |r| &mut r.loc.proxy.bind),
        "Sets the local address of connections to servers.",
    )
    .takes("<address> [transparent]; off", "")
    .differs(&["pool-key"]),
    Row::new(
        "proxy_http_version",
        HSL,
        TAKE1,
        |r, s| choice(&mut r.loc.proxy.http_version, s, &VERSIONS),
        "Sets the version of HTTP that servers are spoken to in.",
    )
    .takes("1.0 | 1.1 | 2", "1.1")
    .differs(&["unsupported"]),
    Row::new(
        "proxy_method",
        HSL,
        TAKE1,
        |r, s| values::option_text(r, s, |r| &mut r.loc.proxy.method),
        "Replaces the method of proxied requests.",
    )
    .takes("<method>", ""),
    Row::new(
        "proxy_set_body",
        HSL,
        TAKE1,
        |r, s| values::option_text(r, s, |r| &mut r.loc.proxy.set_body),
        "Replaces the body of proxied requests.",
    )
    .takes("<text>", ""),
    Row::new(
        "proxy_pass_request_headers",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.pass_request_headers, s),
        "Passes the client's header fields.",
    )
    .default("on"),
    Row::new(
        "proxy_pass_request_body",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.pass_request_body, s),
        "Passes the client's body.",
    )
    .default("on"),
    Row::new(
        "proxy_pass_trailers",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.pass_trailers, s),
        "Passes trailers of responses.",
    )
    .default("off"),
    Row::new(
        "proxy_buffering",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.buffering, s),
        "Takes responses as fast as servers send them.",
    )
    .default("on")
    .differs(&["body-at-once"]),
    Row::new(
        "proxy_request_buffering",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.request_buffering, s),
        "Reads a request's body before a server is asked.",
    )
    .default("on"),
    Row::new(
        "proxy_buffer_size",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.proxy.buffer_size, s),
        "Sets the buffer for a response's header.",
    )
    .takes("<size>", "4k"),
    Row::new(
        "proxy_buffers",
        HSL,
        TAKE2,
        |r, s| bufs(&mut r.loc.proxy.buffers, s),
        "Sets the buffers of a response.",
    )
    .takes("<number> <size>", "8 4k"),
    Row::accepted(
        "proxy_busy_buffers_size",
        HSL,
        TAKE1,
        |r, s| option_bytes(&mut r.loc.proxy.busy_buffers_size, s),
        "Limits how much of a response is on its way to the client.",
    ),
    Row::new(
        "proxy_max_temp_file_size",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.proxy.max_temp_file_size, s),
        "Limits what of a response waits in a file; 0 turns files off.",
    )
    .takes("<size>", "1024m"),
    Row::accepted(
        "proxy_temp_file_write_size",
        HSL,
        TAKE1,
        |r, s| option_bytes(&mut r.loc.proxy.temp_file_write_size, s),
        "Sets how much is written to such a file at once.",
    ),
    Row::new(
        "proxy_temp_path",
        HSL,
        TAKE1234,
        |r, s| temp_path(r, s, |r| &mut r.loc.proxy.temp_path),
        "Sets the directory of these files.",
    )
    .takes("<path> [<level1> [<level2> [<level3>]]]", "proxy_temp"),
    Row::new(
        "proxy_limit_rate",
        HSL,
        TAKE1,
        |r, s| text_size(r, s, |r| &mut r.loc.proxy.limit_rate),
        "Limits the bytes a second that are read from a server.",
    )
    .takes("<rate>", "0"),
    Row::new(
        "proxy_connect_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.proxy.connect_timeout, s),
        "Bounds the time to connect to a server.",
    )
    .takes("<time>", "60s"),
    Row::new(
        "proxy_send_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.proxy.send_timeout, s),
        "Bounds the time between two writes to a server.",
    )
    .takes("<time>", "60s"),
    Row::new(
        "proxy_read_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.proxy.read_timeout, s),
        "Bounds the time between two reads from a server.",
    )
    .takes("<time>", "60s"),
    Row::accepted(
        "proxy_send_lowat",
        HSL,
        TAKE1,
        values::proxy_send_lowat,
        "Sets the smallest write to a server where the system can.",
    ),
    Row::new(
        "proxy_socket_keepalive",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.socket_keepalive, s),
        "Lets the system probe idle connections to servers.",
    )
    .default("off"),
    Row::new(
        "proxy_socket_sndbuf",
        HSL,
        TAKE1,
        |r, s| option_bytes(&mut r.loc.proxy.socket_sndbuf, s),
        "Sets the system's send buffer of connections to servers.",
    )
    .takes("<size>", ""),
    Row::new(
        "proxy_socket_rcvbuf",
        HSL,
        TAKE1,
        |r, s| option_bytes(&mut r.loc.proxy.socket_rcvbuf, s),
        "Sets the system's receive buffer of connections to servers.",
    )
    .takes("<size>", ""),
    Row::new(
        "proxy_ignore_client_abort",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.ignore_client_abort, s),
        "Finishes requests of clients that have gone.",
    )
    .default("off"),
    Row::new(
        "proxy_intercept_errors",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.intercept_errors, s),
        "Lets error_page answer instead of responses of 300 and more.",
    )
    .default("off"),
    Row::new(
        "proxy_force_ranges",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.proxy.force_ranges, s),
        "Serves ranges of responses that do not say they have any.",
    )
    .default("off"),
];

const VERSIONS: [(&str, ProxyVersion); 3] = [
    ("1.0", ProxyVersion::Http10),
    ("1.1", ProxyVersion::Http11),
    ("2", ProxyVersion::Http2),
];
