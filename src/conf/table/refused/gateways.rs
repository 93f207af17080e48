//! `FastCGI`, uwsgi, SCGI, memcached and tunnels: not there yet.
//!
//! nginx has the same directives for each of them, under its prefix. Each group of such directives is a macro here, which
//! yields the rows for a prefix and the name of what is spoken to.

use super::super::{
    FLAG, HSL, HTTP, LOCATION, LOCATION_IF, NONE, ONE_MORE, Row, SERVER, TAKE1, TAKE2, TAKE12,
    TAKE23, TAKE123, TAKE1234, TWO_MORE,
};

/// What all of them have.
macro_rules! every {
    ($prefix:literal, $server:literal) => {
        refused! { $prefix;
            "bind": HSL, TAKE12, "Sets the local address of " $server " connections.";
            "buffer_size": HSL, TAKE1, "Sets the buffer for a " $server " response's header.";
            "connect_timeout": HSL, TAKE1, "Bounds the time to connect to a " $server " server.";
            "next_upstream": HSL, ONE_MORE, "Says in which cases a " $server " request is tried on the next server.";
            "next_upstream_timeout": HSL, TAKE1, "Bounds the time in which " $server " tries begin.";
            "next_upstream_tries": HSL, TAKE1, "Limits the " $server " tries of a request.";
            "read_timeout": HSL, TAKE1, "Bounds the time between two reads from a " $server " server.";
            "send_timeout": HSL, TAKE1, "Bounds the time between two writes to a " $server " server.";
            "socket_keepalive": HSL, FLAG, "Lets the system probe idle " $server " connections.";
        }
    };
}

/// The buffers of the system: all but memcached.
macro_rules! system_buffers {
    ($prefix:literal, $server:literal) => {
        refused! { $prefix;
            "socket_rcvbuf": HSL, TAKE1, "Sets the system's receive buffer of " $server " connections.";
            "socket_sndbuf": HSL, TAKE1, "Sets the system's send buffer of " $server " connections.";
        }
    };
}

/// The low-water mark of the system.
macro_rules! send_lowat {
    ($prefix:literal, $server:literal) => {
        refused! { $prefix;
            "send_lowat": HSL, TAKE1, "Sets the smallest write to a " $server " server where the system can.";
        }
    };
}

/// Header fields of responses: where responses have such.
macro_rules! headers {
    ($prefix:literal, $server:literal) => {
        refused! { $prefix;
            "hide_header": HSL, TAKE1, "Hides a header field of " $server " responses.";
            "ignore_headers": HSL, ONE_MORE, "Ignores what these header fields of " $server " responses ask for.";
            "intercept_errors": HSL, FLAG, "Lets error_page answer instead of " $server " responses of 300 and more.";
            "pass_header": HSL, TAKE1, "Passes a header field of " $server " responses that is hidden otherwise.";
        }
    };
}

/// Bodies both ways, caching and saving, as `proxy_*` has them.
macro_rules! responses {
    ($prefix:literal, $server:literal) => {
        refused! { $prefix;
            "buffering": HSL, FLAG, "Takes " $server " responses as fast as they come.";
            "buffers": HSL, TAKE2, "Sets the buffers of a " $server " response.";
            "busy_buffers_size": HSL, TAKE1, "Limits how much of a " $server " response is on its way to the client.";
            "cache": HSL, TAKE1, "Caches " $server " responses in this zone.";
            "cache_bypass": HSL, ONE_MORE, "Says when a " $server " response is not taken from the cache.";
            "cache_key": HSL, TAKE1, "Sets the key of cached " $server " responses.";
            "cache_lock": HSL, FLAG, "Lets one request at a time fill a place of the cache.";
            "cache_lock_age": HSL, TAKE1, "Bounds how long others wait before they ask too.";
            "cache_lock_timeout": HSL, TAKE1, "Bounds how long others wait for the cache.";
            "cache_max_range_offset": HSL, TAKE1, "Asks the server for ranges beyond this offset.";
            "cache_methods": HSL, ONE_MORE, "Sets which methods are cached.";
            "cache_min_uses": HSL, TAKE1, "Sets how often a response is asked for before it is cached.";
            "cache_path": HTTP, TWO_MORE, "Defines a cache: its directory, levels and zone.";
            "cache_revalidate": HSL, FLAG, "Asks whether stale responses have changed.";
            "cache_use_stale": HSL, ONE_MORE, "Says when stale " $server " responses are served.";
            "cache_valid": HSL, ONE_MORE, "Sets how long " $server " responses are fresh.";
            "force_ranges": HSL, FLAG, "Serves ranges of " $server " responses that do not say they have any.";
            "ignore_client_abort": HSL, FLAG, "Finishes " $server " requests of clients that have gone.";
            "limit_rate": HSL, TAKE1, "Limits the bytes a second that are read from a " $server " server.";
            "max_temp_file_size": HSL, TAKE1, "Limits what of a " $server " response waits in a file.";
            "no_cache": HSL, ONE_MORE, "Says when a " $server " response is not put into the cache.";
            "param": HSL, TAKE23, "Passes a parameter to the " $server " server.";
            "pass_request_body": HSL, FLAG, "Passes the client's body to the " $server " server.";
            "pass_request_headers": HSL, FLAG, "Passes the client's header fields to the " $server " server.";
            "request_buffering": HSL, FLAG, "Reads a request's body before a " $server " server is asked.";
            "store": HSL, TAKE1, "Saves " $server " responses as files.";
            "store_access": HSL, TAKE123, "Sets the permissions of saved " $server " responses.";
            "temp_file_write_size": HSL, TAKE1, "Sets how much of a " $server " response is written to a file at once.";
            "temp_path": HSL, TAKE1234, "Sets the directory of " $server " responses that wait in files.";
        }
    };
}

/// TLS to servers.
macro_rules! tls {
    ($prefix:literal, $server:literal) => {
        refused! { $prefix;
            "ssl_certificate": HSL, TAKE1, "Names the file with the certificate for " $server " servers.";
            "ssl_certificate_cache": HSL, TAKE123, "Keeps certificates whose path has variables.";
            "ssl_certificate_key": HSL, TAKE1, "Names the file with the key of that certificate.";
            "ssl_ciphers": HSL, TAKE1, "Sets the ciphers for " $server " servers.";
            "ssl_conf_command": HSL, TAKE2, "Passes a setting to OpenSSL.";
            "ssl_crl": HSL, TAKE1, "Names the file with revoked certificates of " $server " servers.";
            "ssl_name": HSL, TAKE1, "Sets the name that " $server " servers must have.";
            "ssl_password_file": HSL, TAKE1, "Names the file with passwords of keys.";
            "ssl_protocols": HSL, ONE_MORE, "Sets the versions of TLS for " $server " servers.";
            "ssl_server_name": HSL, FLAG, "Tells " $server " servers which name is meant.";
            "ssl_session_reuse": HSL, FLAG, "Resumes sessions with " $server " servers.";
            "ssl_trusted_certificate": HSL, TAKE1, "Names the file with the authorities of " $server " servers' certificates.";
            "ssl_verify": HSL, FLAG, "Verifies certificates of " $server " servers.";
            "ssl_verify_depth": HSL, TAKE1, "Bounds the chain of a " $server " server's certificate.";
        }
    };
}

pub(in crate::conf::table) const ROWS: &[Row] = &join::<{ count(GROUPS) }>(GROUPS);

const GROUPS: &[&[Row]] = &[
    every!("fastcgi_", "FastCGI"),
    system_buffers!("fastcgi_", "FastCGI"),
    send_lowat!("fastcgi_", "FastCGI"),
    headers!("fastcgi_", "FastCGI"),
    responses!("fastcgi_", "FastCGI"),
    refused! { "fastcgi_";
        "cache_background_update": HSL, FLAG, "Renews stale FastCGI responses behind a client's back.";
        "catch_stderr": HSL, TAKE1, "Takes a response with this text in its errors as bad.";
        "index": HSL, TAKE1, "Names the file that a directory stands for.";
        "keep_conn": HSL, FLAG, "Keeps connections to FastCGI servers.";
        "pass": LOCATION | LOCATION_IF, TAKE1, "Passes requests to a FastCGI server.";
        "split_path_info": HSL, TAKE1, "Takes script and path apart by a pattern.";
    },
    every!("memcached_", "memcached"),
    refused! { "memcached_";
        "gzip_flag": HSL, TAKE1, "Names the flag of compressed values.";
        "pass": LOCATION | LOCATION_IF, TAKE1, "Passes requests to a memcached server.";
    },
    every!("scgi_", "SCGI"),
    system_buffers!("scgi_", "SCGI"),
    headers!("scgi_", "SCGI"),
    responses!("scgi_", "SCGI"),
    refused! { "scgi_";
        "cache_background_update": HSL, FLAG, "Renews stale SCGI responses behind a client's back.";
        "pass": LOCATION | LOCATION_IF, TAKE1, "Passes requests to a SCGI server.";
    },
    every!("tunnel_", "tunnel"),
    system_buffers!("tunnel_", "tunnel"),
    send_lowat!("tunnel_", "tunnel"),
    refused! { "tunnel_";
        "pass": SERVER | LOCATION | LOCATION_IF, NONE | TAKE1, "Passes requests to a tunnel server.";
    },
    every!("uwsgi_", "uwsgi"),
    system_buffers!("uwsgi_", "uwsgi"),
    headers!("uwsgi_", "uwsgi"),
    responses!("uwsgi_", "uwsgi"),
    tls!("uwsgi_", "uwsgi"),
    refused! { "uwsgi_";
        "cache_background_update": HSL, TAKE1, "Renews stale uwsgi responses behind a client's back.";
        "modifier1": HSL, TAKE1, "Sets the first modifier of a packet.";
        "modifier2": HSL, TAKE1, "Sets the second modifier of a packet.";
        "pass": LOCATION | LOCATION_IF, TAKE1, "Passes requests to a uwsgi server.";
        "string": HSL, TAKE1, "Passes a string to the uwsgi server.";
    },
];

/// How many rows these are.
const fn count(groups: &[&[Row]]) -> usize {
    let mut count = 0;
    let mut group = 0;
    while group < groups.len() {
        count += groups[group].len();
        group += 1;
    }
    count
}

/// The rows of all groups, `N` of them.
const fn join<const N: usize>(groups: &[&[Row]]) -> [Row; N] {
    let mut rows = [groups[0][0]; N];
    let mut to = 0;
    let mut group = 0;
    while group < groups.len() {
        let mut from = 0;
        while from < groups[group].len() {
            rows[to] = groups[group][from];
            to += 1;
            from += 1;
        }
        group += 1;
    }
    rows
}
