//! Settings of `stream` and `server`: reading beforehand, TLS names, access, real addresses, hash tables.
//!
//! Mirrors `stream/ngx_stream_core_module.c` and the modules `ssl_preread`, `access` and `realip` beside it.

use super::{
    super::{FLAG, ONE_MORE, Row, STREAM, TAKE1, accepted::number_once, http_small, log, resolver},
    BOTH,
};
use crate::conf::read::{bytes, flag, msec};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::new(
        "tcp_nodelay",
        BOTH,
        FLAG,
        |r, s| flag(&mut r.session.core.tcp_nodelay, s),
        "Sends small packets at once, to clients and to servers.",
    )
    .default("on"),
    Row::new(
        "preread_buffer_size",
        BOTH,
        TAKE1,
        |r, s| bytes(&mut r.session.core.preread_buffer_size, s),
        "Sets the buffer for what is read before a session is dealt with.",
    )
    .takes("<size>", "16k"),
    Row::new(
        "preread_timeout",
        BOTH,
        TAKE1,
        |r, s| msec(&mut r.session.core.preread_timeout, s),
        "Bounds how long that takes.",
    )
    .takes("<time>", "30s"),
    Row::new(
        "proxy_protocol_timeout",
        BOTH,
        TAKE1,
        |r, s| msec(&mut r.session.core.proxy_protocol_timeout, s),
        "Bounds reading a client's PROXY line.",
    )
    .takes("<time>", "30s"),
    Row::new(
        "ssl_preread",
        BOTH,
        FLAG,
        |r, s| flag(&mut r.session.core.ssl_preread, s),
        "Finds out which name and protocol a client asks for in TLS, without ending its TLS.",
    )
    .default("off"),
    Row::new(
        "resolver",
        BOTH,
        ONE_MORE,
        resolver::resolver,
        "Names the servers that resolve names while running.",
    )
    .takes(
        "<address> ... [valid=<time>] [ipv4=on|off] [ipv6=on|off]",
        "",
    )
    .differs(&["resolver-ports"]),
    Row::new(
        "resolver_timeout",
        BOTH,
        TAKE1,
        |r, s| msec(&mut r.session.core.resolver_timeout, s),
        "Bounds a look-up of a name.",
    )
    .takes("<time>", "30s"),
    Row::new(
        "error_log",
        BOTH,
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
        "allow",
        BOTH,
        TAKE1,
        http_small::access,
        "Lets these addresses in.",
    )
    .takes("<address> | <network> | unix: | all", ""),
    Row::new(
        "deny",
        BOTH,
        TAKE1,
        http_small::access,
        "Keeps these addresses out.",
    )
    .takes("<address> | <network> | unix: | all", ""),
    Row::new(
        "set_real_ip_from",
        BOTH,
        TAKE1,
        http_small::set_real_ip_from,
        "Trusts these addresses to say in the PROXY line who the client is.",
    )
    .takes("<address> | <network> | <host> | unix:", ""),
    Row::accepted(
        "server_names_hash_bucket_size",
        STREAM,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash tables of server names.",
    ),
    Row::accepted(
        "server_names_hash_max_size",
        STREAM,
        TAKE1,
        number_once,
        "Limits the size of the hash tables of server names.",
    ),
    Row::accepted(
        "variables_hash_bucket_size",
        STREAM,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash table of variables.",
    ),
    Row::accepted(
        "variables_hash_max_size",
        STREAM,
        TAKE1,
        number_once,
        "Limits the size of the hash table of variables.",
    ),
];
