//! `index`. Mirrors `ngx_http_index_module.c`.

use std::io::ErrorKind;

use super::{file, path};
use crate::{
    common::errno::Errno,
    conf::model::Level,
    http::{
        exchange::{EscapeLog, Exchange},
        h1::request_line::Method,
        phases::{self, Next},
    },
};

/// Looks for an index file of the directory that the URI names; None when there is none.
pub(super) fn index<'g>(x: &mut Exchange<'g>) -> Option<Next<'g>> {
    if !matches!(x.request.method, Method::Get | Method::Head | Method::Post) {
        return None;
    }
    let location = x.location;
    let mut directory_tested = false;
    for template in location.index.iter() {
        let name = template.to_vec(x);
        if name.starts_with(b"/") {
            let args = x.request.args.clone();
            return Some(phases::internal_redirect(x, name, args));
        }
        let Some(directory) = file::file_name(x) else {
            return Some(Next::Status(500));
        };
        let full = [&directory[..], &name].concat();
        match std::fs::metadata(path(&full)) {
            Ok(_) => {
                let uri = [&x.request.uri[..], &name].concat();
                let args = x.request.args.clone();
                return Some(phases::internal_redirect(x, uri, args));
            }
            Err(error) => {
                let first = !std::mem::replace(&mut directory_tested, true);
                if let Some(status) = failed(x, &full, &directory, &error, first) {
                    return Some(Next::Status(status));
                }
            }
        }
    }
    None
}

/// The status for an index file that cannot be looked at; None: the next one is tried.
fn failed(
    x: &Exchange<'_>,
    full: &[u8],
    directory: &[u8],
    error: &std::io::Error,
    first: bool,
) -> Option<u16> {
    const ENOTDIR: i32 = 20;
    const ENAMETOOLONG: i32 = 36;
    if error.kind() == ErrorKind::PermissionDenied {
        x.log(
            Level::Error,
            format_args!("\"{}\" is forbidden ({})", full.escape_log(), Errno(error)),
        );
        return Some(403);
    }
    let missing = matches!(error.raw_os_error(), Some(ENOTDIR | ENAMETOOLONG))
        || (first
            && error.kind() == ErrorKind::NotFound
            && std::fs::metadata(path(directory)).is_err());
    if missing {
        if x.location.core.log_not_found {
            x.log(
                Level::Error,
                format_args!("\"{}\" is not found ({})", full.escape_log(), Errno(error)),
            );
        }
        return Some(404);
    }
    if error.kind() == ErrorKind::NotFound {
        return None;
    }
    x.log(
        Level::Crit,
        format_args!("stat() \"{}\" failed ({})", full.escape_log(), Errno(error)),
    );
    Some(500)
}
