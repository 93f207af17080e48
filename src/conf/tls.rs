//! What a configuration asks of TLS which is read and checked but not spoken yet.

use super::model::{Config, Http, Ocsp, Ssl, Stream};

/// The first thing that needs them.
pub(super) fn wanted(config: &Config) -> Option<&'static str> {
    let http = config.http.as_ref().and_then(in_http);
    http.or_else(|| config.stream.as_ref().and_then(in_stream))
}

/// What servers of `listen ... ssl` ask for and do not get yet.
fn missing(ssl: &Ssl) -> Option<&'static str> {
    let wanted = [
        (ssl.ocsp != Ocsp::Off, "ssl_ocsp"),
        (ssl.stapling, "ssl_stapling"),
    ];
    let mut wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
    wanted.next().map(|(_, name)| name)
}

fn in_http(http: &Http) -> Option<&'static str> {
    if http.listens.iter().any(|listen| listen.ssl)
        && let Some(name) = http.servers.iter().find_map(|server| missing(&server.ssl))
    {
        return Some(name);
    }
    None
}

fn in_stream(stream: &Stream) -> Option<&'static str> {
    if !stream.listens.iter().any(|listen| listen.ssl) {
        return None;
    }
    let mut servers = stream.servers.iter();
    servers.find_map(|server| missing(&server.ssl))
}
