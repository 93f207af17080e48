//! Who says whether a certificate is revoked: the URL of an OCSP responder, taken apart.
//!
//! Mirrors what `ngx_ssl_stapling_responder`, `ngx_ssl_ocsp` and `ngx_ssl_ocsp_responder` do with one
//! (`event/ngx_event_openssl_stapling.c`). Only `http:` is known, as in nginx: what a responder says is signed.

use std::fmt;

use crate::{
    common::addr::Addr,
    conf::address::{UrlOptions, parse_url},
};

/// A responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Responder {
    /// Its host as written; in brackets for IPv6.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Where it answers, beginning with a slash.
    pub uri: String,
    /// Its addresses as far as they are known without a resolver.
    pub addrs: Vec<Addr>,
}

/// A URL that no responder can have. The display is the middle of nginx's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadResponder {
    why: &'static str,
    url: String,
}

impl fmt::Display for BadResponder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in OCSP responder \"{}\"", self.why, self.url)
    }
}

impl Responder {
    /// Takes a URL apart; with `resolve` a name is looked up with the system's resolver now.
    pub fn parse(url: &str, resolve: bool) -> Result<Self, BadResponder> {
        let bad = |why, url: &str| BadResponder {
            why,
            url: url.to_owned(),
        };
        let address = match url.split_at_checked("http://".len()) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http://") && !rest.is_empty() => {
                rest
            }
            _ => return Err(bad("invalid URL prefix", url)),
        };
        let options = UrlOptions {
            default_port: 80,
            uri_part: true,
            no_resolve: !resolve,
            ..UrlOptions::default()
        };
        let url = parse_url(address, options).map_err(|why| bad(why, address))?;
        Ok(Self {
            host: url.host,
            port: url.port,
            uri: match url.uri {
                uri if uri.is_empty() => "/".to_owned(),
                uri => uri,
            },
            addrs: url.addrs,
        })
    }
}

/// Ends messages about what a responder was asked (`ngx_ssl_ocsp_log_error`).
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The responder's host.
    pub responder: &'a str,
    /// Which of its addresses, once that is known.
    pub peer: Option<&'a Addr>,
    /// The file of the certificate that it is asked about; None when a client has shown it.
    pub certificate: Option<&'a str>,
}

impl fmt::Display for Asking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let responder = self.responder;
        write!(
            f,
            " while requesting certificate status, responder: {responder}"
        )?;
        if let Some(peer) = self.peer {
            write!(f, ", peer: {peer}")?;
        }
        match self.certificate {
            Some(name) => write!(f, ", certificate: \"{name}\""),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_responders() {
        let parse = |url: &str| Responder::parse(url, false).map_err(|bad| bad.to_string());
        let plain = parse("HTTP://127.0.0.1").unwrap();
        assert_eq!(
            (&*plain.host, plain.port, &*plain.uri),
            ("127.0.0.1", 80, "/")
        );
        assert_eq!(plain.addrs.len(), 1);
        let named = parse("http://ocsp.example.com:81/a?b").unwrap();
        assert_eq!(
            (&*named.host, named.port, &*named.uri),
            ("ocsp.example.com", 81, "/a?b")
        );
        assert!(named.addrs.is_empty());
        for (url, message) in [
            (
                "https://x/",
                "invalid URL prefix in OCSP responder \"https://x/\"",
            ),
            (
                "http://",
                "invalid URL prefix in OCSP responder \"http://\"",
            ),
            ("http:///x", "no host in OCSP responder \"/x\""),
            ("http://x:0/", "invalid port in OCSP responder \"x:0/\""),
        ] {
            assert_eq!(parse(url).unwrap_err(), message);
        }
    }
}
