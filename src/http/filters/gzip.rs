//! `gzip`. Mirrors `ngx_http_gzip_filter_module.c` and `ngx_http_gzip_ok` (`ngx_http_core_module.c`).

use std::io::Write;

use flate2::{Compression, GzBuilder, write::GzEncoder};

use crate::{
    common::{clock, date},
    conf::model::{GzipProxied, TypeSet},
    http::{exchange::Exchange, h1::known::Known, out::Piece},
};

/// A compressor and what went through it. DIFFERS(gzip): zlib-rs does it, so the bytes are not those of zlib.
#[derive(Debug)]
pub(crate) struct Encoder {
    gzip: GzEncoder<Vec<u8>>,
    read: u64,
    written: u64,
}

/// Decides whether the body is compressed, and says so in the header.
pub(crate) fn header(x: &mut Exchange<'_>) {
    let conf = &x.location.gzip;
    let response = &x.response;
    if !conf.on
        || !matches!(response.status, 200 | 403 | 404)
        || response
            .headers
            .get(Known::ContentEncoding)
            .is_some_and(|v| !v.is_empty())
        || response.content_length.is_some_and(|n| n < conf.min_length)
        || !is_listed(&conf.types, response.media_type())
        || response.header_only
    {
        return;
    }
    x.response.gzip_vary = true;
    if !accepts(x) {
        return;
    }
    let level = Compression::new(conf.level);
    let response = &mut x.response;
    // 3 is Unix, as zlib writes it.
    let gzip = GzBuilder::new()
        .operating_system(3)
        .write(Vec::new(), level);
    response.filters.gzip = Some(Box::new(Encoder {
        gzip,
        read: 0,
        written: 0,
    }));
    response
        .headers
        .push(Known::ContentEncoding, b"Content-Encoding", b"gzip");
    response.clear_content_length();
    response.clear_accept_ranges();
    response.weaken_etag();
}

fn is_listed(types: &TypeSet, media_type: &[u8]) -> bool {
    match types {
        TypeSet::All => true,
        TypeSet::Some(types) => types.iter().any(|t| t.eq_ignore_ascii_case(media_type)),
    }
}

/// Whether this client gets compressed responses.
fn accepts(x: &Exchange<'_>) -> bool {
    let headers = &x.request.headers;
    let conf = &x.location.gzip;
    headers.get(Known::AcceptEncoding).is_some_and(accepts_gzip)
        && x.request.version >= if conf.http_version_10 { 1000 } else { 1001 }
        && (!headers.has(Known::Via) || proxied(x, conf.proxied))
        && !headers
            .get(Known::UserAgent)
            .is_some_and(|agent| conf.disable.iter().any(|p| p.is_match(agent)))
}

/// Whether a request that came through a proxy (`Via`) gets a compressed response.
fn proxied(x: &Exchange<'_>, conf: GzipProxied) -> bool {
    let response = &x.response;
    if conf.any || (conf.auth && x.request.headers.has(Known::Authorization)) {
        return true;
    }
    if let Some(expires) = response.headers.get(Known::Expires) {
        let date = match response.headers.get(Known::Date) {
            Some(date) => date::parse_http(date),
            None => Some(clock::wall().secs),
        };
        return conf.expired
            && matches!((date::parse_http(expires), date), (Some(e), Some(d)) if e < d);
    }
    if response.headers.has(Known::CacheControl) {
        let says = |word: &[u8]| {
            response.headers.all(Known::CacheControl).any(|v| {
                v.split(|c| *c == b',')
                    .any(|p| p.trim_ascii().eq_ignore_ascii_case(word))
            })
        };
        return conf.no_cache && says(b"no-cache")
            || conf.no_store && says(b"no-store")
            || conf.private && says(b"private");
    }
    let has_modified =
        response.headers.has(Known::LastModified) || response.last_modified.is_some();
    // Nothing speaks against it; what is asked for must be missing.
    let lacks_modified = conf.no_last_modified && !has_modified;
    let lacks_etag = conf.no_etag && !response.headers.has(Known::ETag);
    (lacks_modified || lacks_etag)
        && !(conf.no_last_modified && has_modified)
        && (!conf.no_etag || lacks_etag)
}

/// `ngx_http_gzip_accept_encoding`
fn accepts_gzip(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let Some(at) = memchr::memmem::find_iter(&lower, b"gzip")
        .find(|at| *at == 0 || matches!(lower[at - 1], b',' | b' '))
    else {
        return false;
    };
    match lower[at + 4..].trim_ascii_start() {
        [] | [b',', ..] => true,
        [b';', rest @ ..] => {
            let quality = rest.trim_ascii_start();
            let Some(quality) = quality.strip_prefix(b"q") else {
                return quality.is_empty();
            };
            quality.strip_prefix(b"=").is_some_and(is_positive)
        }
        _ => false,
    }
}

/// Whether a quality value is above 0 and well formed.
fn is_positive(text: &[u8]) -> bool {
    let end = text
        .iter()
        .position(|c| matches!(c, b',' | b' '))
        .unwrap_or(text.len());
    let (whole, rest) = match &text[..end] {
        [whole @ (b'0' | b'1'), rest @ ..] => (*whole, rest),
        _ => return false,
    };
    let digits = match rest {
        [] => return whole == b'1',
        [b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return false,
    };
    let any = digits.iter().any(|d| *d != b'0');
    if whole == b'1' { !any } else { any }
}

impl Encoder {
    /// Compresses a piece; what comes out of it so far.
    pub(crate) fn push(&mut self, mut piece: Piece) -> Vec<u8> {
        if let Piece::File { file, offset, len } = &piece {
            use std::os::unix::fs::FileExt;
            let mut bytes = vec![0; usize::try_from(*len).unwrap_or(0)];
            // A file that shrank gives a shorter body, as a read error does.
            if file.read_exact_at(&mut bytes, *offset).is_err() {
                bytes.clear();
            }
            piece = Piece::Vec(bytes, 0);
        }
        let bytes = piece.memory().unwrap_or_default();
        self.read += bytes.len() as u64;
        self.gzip
            .write_all(bytes)
            .expect("a vector takes everything");
        self.taken()
    }

    /// Lets out everything that came in so far.
    pub(crate) fn sync(&mut self) -> Vec<u8> {
        self.gzip.flush().expect("a vector takes everything");
        self.taken()
    }

    fn taken(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(self.gzip.get_mut());
        self.written += bytes.len() as u64;
        bytes
    }

    /// The rest, and how many bytes went in and out in all.
    pub(crate) fn finish(mut self: Box<Self>) -> (Vec<u8>, (u64, u64)) {
        self.gzip.try_finish().expect("a vector takes everything");
        let bytes = self.taken();
        (bytes, (self.read, self.written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_accepts_gzip() {
        for (value, accepted) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("gzip; q=1.0, br", true),
            ("gzip;q=1.001", false),
            ("xgzip", false),
            ("br", false),
        ] {
            assert_eq!(accepts_gzip(value.as_bytes()), accepted, "{value}");
        }
    }
}
