//! Handlers that answer themselves: files, `return`, `empty_gif`, `stub_status`.

mod file;
mod index;
mod try_files;

use std::path::Path;

use super::{exchange::Exchange, h1::request_line::Method, output, phases::Next};
use crate::{conf::model::Level, vars::Template};

pub(super) use file::{file_name, root};
pub(super) use try_files::try_files;

/// The content phase of a location without a handler of its own: index, then files.
pub(super) async fn serve<'g>(x: &mut Exchange<'g>) -> Next<'g> {
    if x.request.uri.last() == Some(&b'/') {
        if let Some(next) = index::index(x) {
            return next;
        }
        if !matches!(x.request.method, Method::Get | Method::Head | Method::Post) {
            return Next::Status(405);
        }
        return match file_name(x) {
            Some(path) => {
                let path = String::from_utf8_lossy(&path).into_owned();
                x.log(
                    Level::Error,
                    format_args!("directory index of \"{path}\" is forbidden"),
                );
                Next::Status(403)
            }
            None => Next::Status(403),
        };
    }
    file::send(x).await
}

/// Answers with a status and a text, as `return` does (`ngx_http_send_response`).
pub(super) async fn send_response<'g>(
    x: &mut Exchange<'g>,
    status: u16,
    text: Option<&Template>,
) -> Next<'g> {
    if let Err(status) = super::body::discard(x).await {
        return Next::Status(status);
    }
    let body = text.map(|text| text.to_vec(x)).unwrap_or_default();
    x.response.status = status;
    if matches!(status, 301 | 302 | 303 | 307 | 308) {
        x.response.set_location(&body);
        return Next::Status(status);
    }
    if status == super::phases::CLOSE {
        return Next::Terminate(status);
    }
    x.response.content_length = Some(body.len() as u64);
    set_content_type(x);
    output::send_body(x, body).await
}

/// `empty_gif`
pub(super) async fn empty_gif<'g>(x: &mut Exchange<'g>) -> Next<'g> {
    if !matches!(x.request.method, Method::Get | Method::Head) {
        return Next::Status(405);
    }
    if let Err(status) = super::body::discard(x).await {
        return Next::Status(status);
    }
    x.response.status = 200;
    x.response.content_type = b"image/gif".to_vec();
    x.response.content_length = Some(EMPTY_GIF.len() as u64);
    // 28 September 1970, as nginx says of its picture.
    x.response.last_modified = Some(23_349_600);
    output::send_body(x, EMPTY_GIF.to_vec()).await
}

/// A transparent picture of one pixel.
const EMPTY_GIF: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\x01\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\x01\0,\0\0\0\0\x01\0\x01\0\0\x02\x02L\x01\0;";

/// `stub_status`
pub(super) async fn stub_status<'g>(x: &mut Exchange<'g>) -> Next<'g> {
    if !matches!(x.request.method, Method::Get | Method::Head) {
        return Next::Status(405);
    }
    if let Err(status) = super::body::discard(x).await {
        return Next::Status(status);
    }
    let counts = x.live.counts.read();
    let body = format!(
        "Active connections: {} \nserver accepts handled requests\n {} {} {} \nReading: {} Writing: {} Waiting: {} \n",
        counts.active,
        counts.accepted,
        counts.handled,
        counts.requests,
        counts.reading,
        counts.writing,
        counts.waiting()
    );
    x.response.status = 200;
    x.response.content_type = b"text/plain".to_vec();
    x.response.plain_type = true;
    x.response.content_length = Some(body.len() as u64);
    output::send_body(x, body.into_bytes()).await
}

/// `Content-Type` by the URI's extension, unless there is one already.
pub(super) fn set_content_type(x: &mut Exchange<'_>) {
    if !x.response.content_type.is_empty() {
        return;
    }
    let core = &x.location.core;
    let found = x
        .request
        .extension()
        .filter(|e| !e.is_empty())
        .and_then(|extension| {
            if extension.iter().any(u8::is_ascii_uppercase) {
                core.types.get(&*extension.to_ascii_lowercase())
            } else {
                core.types.get(extension)
            }
        });
    x.response
        .content_type
        .extend_from_slice(found.unwrap_or(&core.default_type));
    x.response.plain_type = true;
}

/// Bytes as a path.
pub(super) fn path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}
