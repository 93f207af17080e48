//! Status codes: their lines and the bodies of nginx's own error pages.
//!
//! Mirrors `ngx_http_status_lines` (`ngx_http_header_filter_module.c`) and `ngx_http_special_response.c`.

/// `HTTP/1.1 ` is followed by this; None when there is no standard text, then only the number is sent.
pub(super) fn line(status: u16) -> Option<&'static str> {
    Some(match status {
        200 => "200 OK",
        201 => "201 Created",
        202 => "202 Accepted",
        204 => "204 No Content",
        206 => "206 Partial Content",
        301 => "301 Moved Permanently",
        302 => "302 Moved Temporarily",
        303 => "303 See Other",
        304 => "304 Not Modified",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Unauthorized",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        407 => "407 Proxy Authentication Required",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}

/// Codes of nginx's own that clients see as 400: how the page's heading and explanation read.
fn special_400(status: u16) -> Option<(&'static str, &'static str)> {
    Some(match status {
        494 => (
            "400 Request Header Or Cookie Too Large",
            "Request Header Or Cookie Too Large",
        ),
        495 => ("400 The SSL certificate error", "The SSL certificate error"),
        496 => (
            "400 No required SSL certificate was sent",
            "No required SSL certificate was sent",
        ),
        497 => (
            "400 The plain HTTP request was sent to HTTPS port",
            "The plain HTTP request was sent to HTTPS port",
        ),
        _ => return None,
    })
}

/// The status that a client sees for one of nginx's own codes.
pub(super) fn visible(status: u16) -> u16 {
    if special_400(status).is_some() {
        400
    } else {
        status
    }
}

/// Body of the error page for `status`, signed with `server`; None when nginx has no page for it.
pub(super) fn page(status: u16, server: &str) -> Option<String> {
    let (title, heading, explanation) = match special_400(status) {
        Some((title, text)) => (title, "400 Bad Request", Some(text)),
        None if (301..=308).contains(&status) || (400..600).contains(&status) => {
            (page_title(status)?, page_title(status)?, None)
        }
        None => return None,
    };
    let explanation = explanation
        .map(|text| format!("<center>{text}</center>\r\n"))
        .unwrap_or_default();
    let signature = if server.is_empty() {
        String::new()
    } else {
        format!("<center>{server}</center>")
    };
    Some(format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n{explanation}<hr>{signature}\r\n</body>\r\n</html>\r\n"
    ))
}

/// Pages exist for these; some read differently from the status line.
fn page_title(status: u16) -> Option<&'static str> {
    Some(match status {
        302 => "302 Found",
        304 => return None,
        401 => "401 Authorization Required",
        498 => "404 Not Found",
        _ => line(status)?,
    })
}

/// Appended to short pages for old MSIE, which hides them otherwise (`msie_padding`).
pub(super) const MSIE_PADDING: &str = concat!(
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let page_404 = page(404, "headwater").unwrap();
        assert!(page_404.starts_with("<html>\r\n<head><title>404 Not Found</title></head>"));
        assert!(page_404.ends_with("<hr><center>headwater</center>\r\n</body>\r\n</html>\r\n"));
        assert!(
            page(494, "x")
                .unwrap()
                .contains("<center>Request Header Or Cookie Too Large</center>")
        );
        assert_eq!((visible(494), visible(404)), (400, 404));
        assert!(page(200, "x").is_none());
        assert!(page(418, "x").is_none());
    }
}
