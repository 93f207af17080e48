//! Header names that the engine itself reads or writes, recognised once when a head is parsed.

macro_rules! known {
    ($($variant:ident $name:literal,)*) => {
        /// A header name, or [`Known::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Known {
            /// Any other name.
            Other,
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl Known {
            /// Recognises a name, whatever its case.
            pub fn of(name: &[u8]) -> Self {
                let mut lower = [0; LONGEST];
                let Some(lower) = lower.get_mut(..name.len()) else {
                    return Self::Other;
                };
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                match std::str::from_utf8(lower) {
                    $(Ok($name) => Self::$variant,)*
                    _ => Self::Other,
                }
            }

            /// The name in lower case; empty for [`Known::Other`].
            pub fn name(self) -> &'static str {
                match self {
                    Self::Other => "",
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

/// Length of the longest name below.
const LONGEST: usize = 20;

known! {
    AcceptEncoding "accept-encoding",
    AcceptRanges "accept-ranges",
    Authorization "authorization",
    CacheControl "cache-control",
    Connection "connection",
    ContentEncoding "content-encoding",
    ContentLength "content-length",
    ContentRange "content-range",
    ContentType "content-type",
    Cookie "cookie",
    Date "date",
    ETag "etag",
    Expect "expect",
    Expires "expires",
    Host "host",
    IfMatch "if-match",
    IfModifiedSince "if-modified-since",
    IfNoneMatch "if-none-match",
    IfRange "if-range",
    IfUnmodifiedSince "if-unmodified-since",
    KeepAlive "keep-alive",
    LastModified "last-modified",
    Link "link",
    Location "location",
    ProxyAuthenticate "proxy-authenticate",
    ProxyAuthorization "proxy-authorization",
    Range "range",
    Referer "referer",
    Refresh "refresh",
    Server "server",
    SetCookie "set-cookie",
    Status "status",
    Te "te",
    Trailer "trailer",
    TransferEncoding "transfer-encoding",
    Upgrade "upgrade",
    UserAgent "user-agent",
    Vary "vary",
    Via "via",
    WwwAuthenticate "www-authenticate",
    XAccelBuffering "x-accel-buffering",
    XAccelCharset "x-accel-charset",
    XAccelExpires "x-accel-expires",
    XAccelLimitRate "x-accel-limit-rate",
    XAccelRedirect "x-accel-redirect",
    XForwardedFor "x-forwarded-for",
    XPad "x-pad",
    XPoweredBy "x-powered-by",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_case_is_recognised() {
        assert_eq!(Known::of(b"HOST"), Known::Host);
        assert_eq!(Known::of(b"x-Accel-Redirect"), Known::XAccelRedirect);
        assert_eq!(Known::of(b"x-other"), Known::Other);
        assert_eq!(Known::of(&[b'a'; 100]), Known::Other);
        assert_eq!(Known::of(b""), Known::Other);
    }
}
