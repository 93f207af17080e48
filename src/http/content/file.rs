//! Files below `root` and `alias`. Mirrors `ngx_http_static_module.c` and `ngx_http_map_uri_to_path`.

use std::{fs::File, io, os::unix::fs::MetadataExt, rc::Rc};

use super::{path, set_content_type};
use crate::{
    common::errno::Errno,
    conf::model::Level,
    http::{
        exchange::{EscapeLog, Exchange},
        h1::{known::Known, request_line::Method, uri},
        out::Piece,
        output,
        phases::Next,
    },
};

/// `root` or `alias`, absolute.
pub(crate) fn root(x: &mut Exchange<'_>) -> Vec<u8> {
    let root = &x.location.core.root;
    let text = root.path.to_vec(x);
    if text.starts_with(b"/") {
        return text;
    }
    let mut absolute = x.live.prefix().as_os_str().as_encoded_bytes().to_vec();
    if !absolute.ends_with(b"/") {
        absolute.push(b'/');
    }
    absolute.extend_from_slice(&text);
    absolute
}

/// How many bytes of the URI an `alias` replaces; None: all of them (a pattern location).
pub(super) fn aliased(x: &Exchange<'_>) -> Option<usize> {
    x.location.core.root.alias_len
}

/// The file that the URI stands for (`$request_filename`); None where `alias` cannot be applied.
pub(crate) fn file_name(x: &mut Exchange<'_>) -> Option<Vec<u8>> {
    let mut name = base(x)?;
    match aliased(x) {
        Some(skip) => name.extend_from_slice(x.request.uri.get(skip..).unwrap_or_default()),
        None if x.add_uri_to_alias => name.extend_from_slice(&x.request.uri),
        None => {}
    }
    Some(name)
}

/// `root` or `alias`, where it can be applied.
pub(super) fn base(x: &mut Exchange<'_>) -> Option<Vec<u8>> {
    if x.location.core.root.alias && !x.request.valid_location {
        let name = x.location.name.escape_log();
        x.log(
            Level::Alert,
            format_args!("\"alias\" cannot be used in location \"{name}\" where URI was rewritten"),
        );
        return None;
    }
    Some(root(x))
}

/// Sends the file.
pub(super) async fn send<'g>(x: &mut Exchange<'g>) -> Next<'g> {
    if !matches!(x.request.method, Method::Get | Method::Head | Method::Post) {
        return Next::Status(405);
    }
    let Some(name) = file_name(x) else {
        return Next::Status(500);
    };
    let (file, meta) = match open(&name) {
        Ok(opened) => opened,
        Err(error) => return missing(x, &name, &error),
    };
    if meta.is_dir() {
        return add_slash(x);
    }
    if !meta.is_file() {
        x.log(
            Level::Crit,
            format_args!("\"{}\" is not a regular file", name.escape_log()),
        );
        return Next::Status(404);
    }
    if x.request.method == Method::Post {
        return Next::Status(405);
    }
    if let Err(status) = crate::http::body::discard(x).await {
        return Next::Status(status);
    }
    let response = &mut x.response;
    response.status = 200;
    response.content_length = Some(meta.len());
    response.last_modified = Some(meta.mtime());
    response.allow_ranges = true;
    if x.location.core.etag {
        let etag = format!("\"{:x}-{:x}\"", meta.mtime(), meta.len());
        x.response
            .headers
            .push(Known::ETag, b"ETag", etag.as_bytes());
    }
    set_content_type(x);
    output::send_piece(
        x,
        Piece::File {
            file: Rc::new(file),
            offset: 0,
            len: meta.len(),
        },
    )
    .await
}

fn open(name: &[u8]) -> io::Result<(File, std::fs::Metadata)> {
    use std::os::unix::fs::OpenOptionsExt;
    // Not blocking: a FIFO must not hold the thread.
    const O_NONBLOCK: i32 = 0o4000;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path(name))?;
    let meta = file.metadata()?;
    Ok((file, meta))
}

/// The status for a file that cannot be opened, and its log line.
fn missing<'g>(x: &Exchange<'g>, name: &[u8], error: &io::Error) -> Next<'g> {
    const ENOENT: i32 = 2;
    const EACCES: i32 = 13;
    const ENOTDIR: i32 = 20;
    const ENAMETOOLONG: i32 = 36;
    let (level, status) = match error.raw_os_error() {
        Some(ENOENT | ENOTDIR | ENAMETOOLONG) => (Level::Error, 404),
        Some(EACCES) => (Level::Error, 403),
        // A NUL byte cannot come here; what else the system refuses is our problem.
        _ => (Level::Crit, 500),
    };
    if status != 404 || x.location.core.log_not_found {
        x.log(
            level,
            format_args!("open() \"{}\" failed ({})", name.escape_log(), Errno(error)),
        );
    }
    Next::Status(status)
}

/// A directory without its final slash is redirected.
fn add_slash<'g>(x: &mut Exchange<'g>) -> Next<'g> {
    let mut address = Vec::new();
    uri::escape(&x.request.uri, uri::Escape::Uri, &mut address);
    address.push(b'/');
    if !x.request.args.is_empty() {
        address.push(b'?');
        address.extend_from_slice(&x.request.args);
    }
    x.response.set_location(&address);
    Next::Status(301)
}
