//! The static table of HPACK (RFC 7541, appendix A).
#![warn(clippy::indexing_slicing)]

/// How many fields there are.
pub(super) const COUNT: usize = 61;

/// Name and value of each.
#[rustfmt::skip]
const FIELDS: [(&str, &str); COUNT] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// A field by its place, from 0, name and value in one, and how long its name is.
pub(super) fn field(place: usize) -> Option<(&'static [u8], usize)> {
    let (start, name, end) = *PLACES.get(place)?;
    let field = BYTES.get(usize::from(start)..usize::from(end))?;
    Some((field, usize::from(name)))
}

/// The name of a field by its number, from 1; empty where there is none.
pub(super) fn name(number: usize) -> &'static str {
    let place = number.checked_sub(1);
    let field = place.and_then(|place| FIELDS.get(place));
    field.map_or("", |(name, _)| name)
}

/// All of them, one behind the other: a field is copied in one go.
static BYTES: [u8; length()] = bytes();

/// Where each begins, how long its name is, and where it ends.
static PLACES: [(u16, u16, u16); COUNT] = places();

#[expect(clippy::indexing_slicing, reason = "made at compile time")]
const fn length() -> usize {
    let (mut length, mut place) = (0, 0);
    while place < COUNT {
        length += FIELDS[place].0.len() + FIELDS[place].1.len();
        place += 1;
    }
    length
}

#[expect(clippy::indexing_slicing, reason = "made at compile time")]
const fn bytes() -> [u8; length()] {
    let mut bytes = [0; length()];
    let (mut at, mut place) = (0, 0);
    while place < COUNT {
        let (name, value) = FIELDS[place];
        let (_, rest) = bytes.split_at_mut(at);
        let (field, _) = rest.split_at_mut(name.len() + value.len());
        let (left, right) = field.split_at_mut(name.len());
        left.copy_from_slice(name.as_bytes());
        right.copy_from_slice(value.as_bytes());
        at += name.len() + value.len();
        place += 1;
    }
    bytes
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "made at compile time, of less than a thousand bytes"
)]
const fn places() -> [(u16, u16, u16); COUNT] {
    let mut places = [(0, 0, 0); COUNT];
    let (mut at, mut place) = (0, 0);
    while place < COUNT {
        let (name, value) = FIELDS[place];
        let end = at + name.len() + value.len();
        places[place] = (at as u16, name.len() as u16, end as u16);
        at = end;
        place += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_place() {
        for (place, (name, value)) in FIELDS.iter().enumerate() {
            let (field, len) = field(place).unwrap();
            assert_eq!(field.split_at(len), (name.as_bytes(), value.as_bytes()));
            assert_eq!(super::name(place + 1), *name);
        }
        assert_eq!(field(COUNT), None);
        assert_eq!((name(0), name(COUNT + 1)), ("", ""));
    }
}
