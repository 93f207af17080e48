//! Answers to a status: `error_page`, redirects, our own pages.
//!
//! Mirrors `http/ngx_http_special_response.c`.

use super::{
    exchange::Exchange,
    grpc,
    h1::{known::Known, uri},
    output,
    phases::{self, Next},
    status,
};
use crate::conf::model::{ErrorPage, ErrorPageStatus, ServerTokens};

/// Answers with `code`.
pub(super) async fn respond<'g>(x: &mut Exchange<'g>, code: u16) -> Next<'g> {
    x.response.error_status = code;
    if matches!(code, 400 | 413 | 414 | 495 | 496 | 497 | 500 | 501) {
        x.keepalive = false;
    }
    if matches!(code, 400 | 495 | 496 | 497) {
        x.lingering_close = false;
    }
    x.response.content_type.clear();
    let core = &x.location.core;
    if !x.error_page && !core.error_pages.is_empty() && x.uri_changes != 0 {
        x.error_page |= !core.recursive_error_pages;
        if let Some(page) = core.error_pages.iter().find(|page| page.status == code) {
            return configured(x, page).await;
        }
    }
    x.request.expect_tested = true;
    x.request.body.discarded = true;
    x.response.error_status = status::visible(code);
    send_page(x, code).await
}

/// A page that sends old MSIE elsewhere, instead of a redirect (`msie_refresh`).
fn refresh_page(x: &mut Exchange<'_>) -> Vec<u8> {
    let address = x.response.headers.get(Known::Location).unwrap_or_default();
    let mut page = b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=".to_vec();
    uri::escape(address, uri::Escape::Refresh, &mut page);
    page.extend_from_slice(b"\"></head><body></body></html>\r\n");
    x.response.headers.remove(Known::Location);
    x.response.error_status = 200;
    page
}

/// An `error_page` of the configuration.
async fn configured<'g>(x: &mut Exchange<'g>, page: &'g ErrorPage) -> Next<'g> {
    match page.overwrite {
        ErrorPageStatus::Keep => {}
        ErrorPageStatus::Response => x.response.error_status = 0,
        ErrorPageStatus::Code(code) => {
            x.request.expect_tested |= code != 200;
            x.response.error_status = code;
        }
    }
    let target = page.target.to_vec(x);
    match target.first() {
        Some(b'/') => {
            let (uri, args) = match (&page.args, page.target.as_literal()) {
                (Some(args), Some(_)) => (target, args.to_vec()),
                (None, Some(_)) => (target, Vec::new()),
                _ => phases::split_args(&target),
            };
            phases::become_get(&mut x.request);
            phases::internal_redirect(x, uri, args)
        }
        Some(b'@') => phases::named_location(x, &target),
        _ => {
            x.request.expect_tested = true;
            x.request.body.discarded = true;
            if !matches!(
                page.overwrite,
                ErrorPageStatus::Code(301 | 302 | 303 | 307 | 308)
            ) {
                x.response.error_status = 302;
            }
            x.response.set_location(&target);
            send_page(x, x.response.error_status).await
        }
    }
}

/// Sends nginx's page for `code`.
async fn send_page<'g>(x: &mut Exchange<'g>, code: u16) -> Next<'g> {
    let server = signature(x);
    let response = &mut x.response;
    response.status_line.clear();
    response.headers.remove(Known::ContentLength);
    response.clear_accept_ranges();
    response.last_modified = None;
    response.headers.remove(Known::LastModified);
    response.headers.remove(Known::ETag);
    if code >= 400 && grpc::is_call(x) {
        return grpc::refuse(x, code).await;
    }
    let page = status::page(code, &server);
    let mut body = Vec::new();
    let agent = x.request.agent();
    let core = &x.location.core;
    let refresh = core.msie_refresh
        && matches!(x.response.error_status, 301 | 302)
        && x.response.headers.has(Known::Location)
        && agent.msie;
    if refresh {
        body = refresh_page(x);
    } else if let Some(page) = page {
        body.extend_from_slice(page.as_bytes());
        let hides_short_pages = agent.msie || agent.chrome;
        if core.msie_padding && hides_short_pages && x.request.version >= 1000 && code >= 400 {
            body.extend_from_slice(status::MSIE_PADDING.as_bytes());
        }
    }
    if !body.is_empty() {
        x.response.content_type = b"text/html".to_vec();
        x.response.plain_type = true;
    }
    x.response.content_length = Some(body.len() as u64);
    output::send_body(x, body).await
}

/// What signs a page: the same as the `Server` header.
fn signature(x: &mut Exchange<'_>) -> String {
    match &x.location.core.server_tokens {
        ServerTokens::On | ServerTokens::Build => output::SERVER_FULL.to_owned(),
        ServerTokens::Off => output::SERVER.to_owned(),
        ServerTokens::Text(text) => {
            let text = text.clone();
            String::from_utf8_lossy(&text.to_vec(x)).into_owned()
        }
    }
}
