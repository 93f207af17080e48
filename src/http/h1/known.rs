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

            /// Recognises a name, whatever its case. What is recognised has nothing in it that may not stand in a name.
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

/// Whether a name is this one of ours, which is of lower-case letters and `-`. Names are looked up on the way of every request
/// and every response: most are compared in two steps.
fn same(own: &[u8], name: &[u8]) -> bool {
    /// The bits in which the names differ, but for the case of letters: those have the bit above that of the case, `-` has not.
    fn diff(own: u64, name: u64) -> u64 {
        (own ^ name) & !((own & 0x4040_4040_4040_4040) >> 1)
    }
    if own.len() != name.len() {
        return false;
    }
    if let (Some((own_start, own_end)), Some((start, end))) = (ends::<8>(own), ends::<8>(name))
        && own.len() <= 16
    {
        let start = diff(u64::from_le_bytes(*own_start), u64::from_le_bytes(*start));
        let end = diff(u64::from_le_bytes(*own_end), u64::from_le_bytes(*end));
        return start | end == 0;
    }
    if let (Some((own_start, own_end)), Some((start, end))) = (ends::<4>(own), ends::<4>(name))
        && own.len() <= 8
    {
        let both = |start: &[u8; 4], end: &[u8; 4]| {
            u64::from(u32::from_le_bytes(*start)) << 32 | u64::from(u32::from_le_bytes(*end))
        };
        return diff(both(own_start, own_end), both(start, end)) == 0;
    }
    let bytes = own.iter().zip(name);
    bytes.fold(0, |bits, (own, name)| {
        bits | diff(u64::from(*own), u64::from(*name))
    }) == 0
}

/// The first and the last `N` bytes.
fn ends<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    Some((bytes.first_chunk()?, bytes.last_chunk()?))
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

    /// Whatever else stands in place of one byte, it is another name.
    #[test]
    fn nothing_else_is_recognised() {
        for (known, name) in Known::ALL
            .iter()
            .filter(|(known, _)| *known != Known::Other)
        {
            for at in 0..name.len() {
                for byte in 0..=255 {
                    let mut other = name.as_bytes().to_vec();
                    other[at] = byte;
                    let is_same = other.eq_ignore_ascii_case(name.as_bytes());
                    assert_eq!(Known::of(&other) == *known, is_same, "{name} {at} {byte}");
                }
            }
        }
    }
}
