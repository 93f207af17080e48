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
            /// All kinds, by number; the name of each in lower case.
            const ALL: &'static [(Self, &'static str)] = &[(Self::Other, ""), $((Self::$variant, $name),)*];

            /// Recognises a name, whatever its case.
            pub fn of(name: &[u8]) -> Self {
                let (known, own) = Self::ALL[usize::from(SLOTS[slot(name)])];
                if same(own.as_bytes(), name) { known } else { Self::Other }
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

/// Where a name of this length and these letters stands in [`SLOTS`]; the factors were searched for so that no two of
/// the names below share a place.
const fn slot(name: &[u8]) -> usize {
    let n = name.len();
    if n == 0 {
        return 0;
    }
    (n * 156 + lower(name[0]) * 125 + lower(name[n - 1]) * 164 + lower(name[n / 2]) * 166) & 255
}

/// Whether a name is this one of ours, which is of lower-case letters and `-`: no other byte that a name may hold turns
/// into one of those by its case bit.
fn same(own: &[u8], name: &[u8]) -> bool {
    if own.len() != name.len() {
        return false;
    }
    let ((own, own_rest), (name, name_rest)) = (own.as_chunks::<8>(), name.as_chunks::<8>());
    // Eight at a time: names are looked up on the way of every request and every response.
    let parts = own.iter().zip(name).fold(0, |diff, (a, b)| {
        diff | u64::from_le_bytes(*a) ^ (u64::from_le_bytes(*b) | 0x2020_2020_2020_2020)
    });
    let rest = own_rest
        .iter()
        .zip(name_rest)
        .fold(0, |diff, (a, b)| diff | (a ^ (b | 0x20)));
    parts == 0 && rest == 0
}

const fn lower(letter: u8) -> usize {
    (letter | 0x20) as usize
}

/// Number of the only kind that can have a name with this [`slot`].
const SLOTS: [u8; 256] = {
    let mut slots = [0; 256];
    let mut i = 1;
    while i < Known::ALL.len() {
        let at = slot(Known::ALL[i].1.as_bytes());
        assert!(
            slots[at] == 0,
            "two names share a slot: search for other factors"
        );
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are fewer than 64 kinds"
        )]
        let number = i as u8;
        slots[at] = number;
        i += 1;
    }
    slots
};

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
        for (known, name) in Known::ALL {
            assert_eq!(Known::of(name.to_uppercase().as_bytes()), *known);
        }
    }
}
