//! Header fields: parsing lines by nginx's rules and storing them as offsets into one byte vector.
//!
//! Mirrors `ngx_http_parse_header_line`: lines may end in a bare LF; only spaces are trimmed; a name with characters
//! outside letters, digits and `-` is invalid but not an error; NUL, a bare CR and control characters in a name are.

use super::known::Known;
use crate::common::{
    bytes::{byte_table, line_end, near},
    recycle::Spares,
};

/// One field, as offsets into the bytes of [`Headers`].
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Which name it is.
    pub known: Known,
    /// False once the field is removed.
    pub live: bool,
    name: (u32, u32),
    value: (u32, u32),
}

/// Fields in order, with their bytes.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    /// One bit a kind that was ever added, so that asking for what is not there costs nothing.
    seen: u64,
}

/// Memory of more bytes is not kept.
const LONGEST: usize = 8192;
/// Room that most heads have enough of: bytes, and fields.
const USUAL_BYTES: usize = 512;
const USUAL_FIELDS: usize = 16;

thread_local! {
    /// Memory of fields that are gone: a response takes it when it comes, not while it is waited for.
    static SPARE: Spares<(Vec<u8>, Vec<Field>)> = const { Spares::new() };
}

impl Headers {
    /// Takes memory for the first field.
    #[inline]
    fn begin(&mut self) {
        if self.fields.capacity() == 0 {
            (self.bytes, self.fields) = SPARE.with(Spares::pop).unwrap_or_else(|| {
                let (bytes, fields) = (USUAL_BYTES, USUAL_FIELDS);
                (Vec::with_capacity(bytes), Vec::with_capacity(fields))
            });
        }
    }

    /// Forgets all fields, whose memory the next ones of the thread take.
    pub fn end(&mut self) {
        let Self {
            mut bytes,
            mut fields,
            ..
        } = std::mem::take(self);
        if (1..=LONGEST).contains(&bytes.capacity()) && fields.capacity() > 0 {
            bytes.clear();
            fields.clear();
            // There is none left to keep it where the thread ends.
            SPARE.try_with(|spare| spare.keep((bytes, fields))).ok();
        }
    }

    /// Forgets all fields but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.seen = 0;
    }

    /// Adds a field at the end.
    pub fn push(&mut self, known: Known, name: &[u8], value: &[u8]) {
        self.begin();
        // As a line has it, so that [`encode`](Self::encode) copies it at once.
        self.bytes.reserve(name.len() + 2 + value.len());
        let name = self.store(name);
        self.bytes.extend_from_slice(b": ");
        let value = self.store(value);
        self.seen |= bit(known);
        self.fields.push(Field {
            known,
            live: true,
            name,
            value,
        });
    }

    /// Adds the field of a line that [`line()`] took apart: one copy for name and value.
    pub fn push_line(&mut self, known: Known, text: &[u8], name: &[u8], value: &[u8]) {
        debug_assert!(text.starts_with(name));
        // The value lies within the line.
        let at = value.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
        let Some(end) = at.checked_add(value.len()).filter(|end| *end <= text.len()) else {
            return self.push(known, name, value);
        };
        self.begin();
        let (start, _) = self.store(&text[..end]);
        let offset = |n: usize| start.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
        self.seen |= bit(known);
        self.fields.push(Field {
            known,
            live: true,
            name: (start, offset(name.len())),
            value: (offset(at), offset(end)),
        });
    }

    /// Adds a field whose name is looked up.
    pub fn push_named(&mut self, name: &[u8], value: &[u8]) {
        self.push(Known::of(name), name, value);
    }

    /// Offsets fit `u32`: heads are bounded by the buffers that they were read into.
    fn store(&mut self, bytes: &[u8]) -> (u32, u32) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let offset = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        (offset(start), offset(self.bytes.len()))
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        self.bytes
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    /// Name, value and kind of each live field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Known, &[u8], &[u8])> {
        self.fields
            .iter()
            .filter(|f| f.live)
            .map(|f| (f.known, self.slice(f.name), self.slice(f.value)))
    }

    /// Appends all live fields as lines `name: value`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for field in self.fields.iter().filter(|f| f.live) {
            let Field { name, value, .. } = *field;
            if self.slice((name.1, value.0)) == b": " {
                out.extend_from_slice(self.slice((name.0, value.1)));
            } else {
                out.extend_from_slice(self.slice(name));
                out.extend_from_slice(b": ");
                out.extend_from_slice(self.slice(value));
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Value of the first live field of this kind.
    pub fn get(&self, known: Known) -> Option<&[u8]> {
        if self.seen & bit(known) == 0 {
            return None;
        }
        self.fields
            .iter()
            .find(|f| f.live && f.known == known)
            .map(|f| self.slice(f.value))
    }

    /// Values of all live fields of this kind.
    pub fn all(&self, known: Known) -> impl Iterator<Item = &[u8]> {
        self.fields
            .iter()
            .filter(move |f| f.live && f.known == known)
            .map(|f| self.slice(f.value))
    }

    /// Whether there is a field of this kind.
    pub fn has(&self, known: Known) -> bool {
        self.seen & bit(known) != 0 && self.fields.iter().any(|f| f.live && f.known == known)
    }

    /// Removes every field of this kind; says whether there was one.
    pub fn remove(&mut self, known: Known) -> bool {
        if self.seen & bit(known) == 0 {
            return false;
        }
        let mut found = false;
        for field in self
            .fields
            .iter_mut()
            .filter(|f| f.live && f.known == known)
        {
            field.live = false;
            found = true;
        }
        found
    }

    /// Gives the first live field of this kind another value; adds one when there is none.
    pub fn set(&mut self, known: Known, name: &[u8], value: &[u8]) {
        self.begin();
        let value_at = self.store(value);
        self.seen |= bit(known);
        if let Some(field) = self.fields.iter_mut().find(|f| f.live && f.known == known) {
            field.value = value_at;
        } else {
            let name = self.store(name);
            self.fields.push(Field {
                known,
                live: true,
                name,
                value: value_at,
            });
        }
    }

    /// Removes every field of this kind but the first.
    pub fn keep_first(&mut self, known: Known) {
        for field in self
            .fields
            .iter_mut()
            .filter(|f| f.live && f.known == known)
            .skip(1)
        {
            field.live = false;
        }
    }

    /// Removes every field with this name, whatever its case.
    pub fn remove_named(&mut self, name: &[u8]) {
        for i in 0..self.fields.len() {
            if self.slice(self.fields[i].name).eq_ignore_ascii_case(name) {
                self.fields[i].live = false;
            }
        }
    }

    /// Appends the values of all fields whose name is `variable` (lower case, `_` for `-`) to `out`, with `separator`
    /// between them, as `$http_NAME` shows them; says whether there was one.
    pub fn join_variable(&self, variable: &str, separator: &[u8], out: &mut Vec<u8>) -> bool {
        let mut found = false;
        for (_, name, value) in self
            .iter()
            .filter(|(_, name, _)| same_variable(name, variable.as_bytes()))
        {
            debug_assert_eq!(name.len(), variable.len());
            if found {
                out.extend_from_slice(separator);
            }
            out.extend_from_slice(value);
            found = true;
        }
        found
    }

    /// How many live fields there are.
    pub fn len(&self) -> usize {
        self.fields.iter().filter(|f| f.live).count()
    }

    /// Whether there is no live field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// There are fewer kinds than bits.
fn bit(known: Known) -> u64 {
    1 << (known as u8)
}

/// Whether a header's name is the one that a variable's name stands for.
fn same_variable(name: &[u8], variable: &[u8]) -> bool {
    name.len() == variable.len()
        && name.iter().zip(variable).all(|(n, v)| match n {
            b'-' => *v == b'_',
            _ => n.to_ascii_lowercase() == *v,
        })
}

/// Whether a value has `word` (lower case) in it, whatever its case.
pub fn contains(value: &[u8], word: &[u8]) -> bool {
    let first = word.first().copied().unwrap_or(0);
    value
        .windows(word.len())
        .any(|part| part[0].to_ascii_lowercase() == first && part.eq_ignore_ascii_case(word))
}

/// What stands at the start of some bytes of a head.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// No line end yet.
    Partial,
    /// The empty line that ends a head; how long it is.
    End(usize),
    /// A field.
    Field {
        /// Which name it is.
        known: Known,
        /// Its name, as sent.
        name: &'a [u8],
        /// Its value, without spaces around it.
        value: &'a [u8],
        /// Length of the line with its end.
        len: usize,
        /// Whether the name has only letters, digits, `-` (and `_` where allowed).
        valid: bool,
    },
    /// A line that is an error; how many bytes of it were good.
    Invalid(usize),
}

/// Letters, digits and `-` are 1, `_` is 2, what may not stand in a name is 3, the rest (invalid, ignored) is 0.
const NAME: [u8; 256] = byte_table!(|byte| match byte {
    b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' => 1,
    b'_' => 2,
    0..=0x20 | 0x7f => 3,
    _ => 0,
});

/// Reads one line of a head; `underscores` makes `_` a valid character of names.
#[inline]
pub fn line(bytes: &[u8], underscores: bool) -> Line<'_> {
    if bytes.starts_with(b"\r\n") {
        return Line::End(2);
    }
    match plain(bytes) {
        Some(field) => field,
        None => any_line(bytes, underscores),
    }
}

/// A line as nearly all are: letters, digits and `-`, a colon, a value without anything to complain of. None for every
/// other one, which [`any_line`] reads. Few looks at each byte: heads are parsed on the hot path.
#[inline]
fn plain(bytes: &[u8]) -> Option<Line<'_>> {
    /// Names are not longer.
    const USUAL: usize = 64;
    let colon = near(b':', &bytes[..bytes.len().min(USUAL)])?;
    let name = &bytes[..colon];
    let known = Known::of(name);
    let is_valid = || !name.is_empty() && name.iter().all(|c| NAME[usize::from(*c)] == 1);
    if known == Known::Other && !is_valid() {
        return None;
    }
    let value = &bytes[colon + 1..];
    let spaces = value.iter().position(|c| *c != b' ')?;
    let value = &value[spaces..];
    let end = line_end(value)?;
    let line_end = match value[end..] {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => return None,
    };
    let mut text = &value[..end];
    while let [rest @ .., b' '] = text {
        text = rest;
    }
    Some(Line::Field {
        known,
        name,
        value: text,
        len: colon + 1 + spaces + end + line_end,
        valid: true,
    })
}

/// [`line()`] for any line.
#[inline(never)]
fn any_line(bytes: &[u8], underscores: bool) -> Line<'_> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return Line::Partial;
    };
    let (text, len) = (&bytes[..end], end + 1);
    match text {
        [] | [b'\r'] => return Line::End(len),
        [b'\r' | b':', ..] => return Line::Invalid(usize::from(text[0] == b'\r')),
        _ => {}
    }
    let mut valid = true;
    let mut name_end = text.len();
    for (i, c) in text.iter().enumerate() {
        match NAME[usize::from(*c)] {
            1 => {}
            _ if *c == b':' => {
                name_end = i;
                break;
            }
            2 => valid &= underscores,
            3 if *c == b'\r' && i > 0 && text[i..].iter().all(|c| *c == b'\r') => {
                name_end = i;
                break;
            }
            3 => return Line::Invalid(i),
            _ => valid = false,
        }
    }
    let name = &text[..name_end];
    let rest = text.get(name_end + 1..).unwrap_or_default();
    match value(rest) {
        Ok(value) => Line::Field {
            known: Known::of(name),
            name,
            value,
            len,
            valid,
        },
        Err(at) => Line::Invalid(name_end + 1 + at),
    }
}

/// A field's value out of what follows the colon; the offset of a byte that may not be there otherwise.
fn value(mut text: &[u8]) -> Result<&[u8], usize> {
    while let [rest @ .., b'\r'] = text {
        text = rest;
    }
    if let Some(at) = memchr::memchr2(b'\r', 0, text) {
        return Err(at);
    }
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' '] = text {
        text = rest;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field<'a>(name: &'a [u8], value: &'a [u8], len: usize, valid: bool) -> Line<'a> {
        Line::Field {
            known: Known::of(name),
            name,
            value,
            len,
            valid,
        }
    }

    #[test]
    fn lines_as_nginx_reads_them() {
        assert_eq!(
            line(b"Host: a \r\nx", false),
            field(b"Host", b"a", 10, true)
        );
        assert_eq!(line(b"Host:a\n", false), field(b"Host", b"a", 7, true));
        assert_eq!(line(b"Empty:\r\n", false), field(b"Empty", b"", 8, true));
        assert_eq!(line(b"NoColon\r\n", false), field(b"NoColon", b"", 9, true));
        assert_eq!(line(b"A_b: 1\n", false), field(b"A_b", b"1", 7, false));
        assert_eq!(line(b"A_b: 1\n", true), field(b"A_b", b"1", 7, true));
        assert_eq!(line(b"A@b: 1\n", true), field(b"A@b", b"1", 7, false));
        assert_eq!(line(b"\r\n", false), Line::End(2));
        assert_eq!(line(b"\n", false), Line::End(1));
        assert_eq!(line(b"Host: a", false), Line::Partial);
        assert_eq!(line(b"Ho st: a\n", false), Line::Invalid(2));
        assert_eq!(line(b" folded\n", false), Line::Invalid(0));
        assert_eq!(line(b"A: b\rc\n", false), Line::Invalid(4));
        assert_eq!(line(b"A: b\0c\n", false), Line::Invalid(4));
        assert_eq!(line(b":x\n", false), Line::Invalid(0));
    }

    proptest! {
        /// The quick reader says what the slow one does, or nothing.
        #[test]
        fn readers_agree(parts in proptest::collection::vec(
            prop_oneof![
                Just("Host"), Just("content-length"), Just("ETag"), Just("X-Other"), Just(":"), Just(" "), Just("\r"),
                Just("\n"), Just("\r\n"), Just("\0"), Just("_"), Just("\t"), Just("value"), Just("\u{e9}"),
            ], 0..9,
        )) {
            let text = parts.concat().into_bytes();
            for underscores in [false, true] {
                if let Some(quick) = plain(&text) {
                    prop_assert_eq!(quick, any_line(&text, underscores));
                }
            }
        }
    }

    #[test]
    fn fields_are_found_changed_and_removed() {
        let mut headers = Headers::default();
        headers.push_named(b"X-Real-IP", b"1");
        headers.push_named(b"Vary", b"a");
        headers.push_named(b"x-real-ip", b"2");
        let mut out = Vec::new();
        assert!(headers.join_variable("x_real_ip", b", ", &mut out));
        assert_eq!(out, b"1, 2");
        headers.set(Known::Vary, b"Vary", b"b");
        assert_eq!(headers.get(Known::Vary), Some(&b"b"[..]));
        headers.remove_named(b"X-REAL-IP");
        assert_eq!(headers.len(), 1);
        assert!(headers.remove(Known::Vary));
        assert!(headers.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80), underscores: bool) {
            if let Line::Field { name, value, len, .. } = line(&bytes, underscores) {
                assert!(len <= bytes.len());
                assert!(!name.contains(&b' ') && !value.contains(&0) && !value.contains(&b'\r'));
            }
        }

        /// The short way says nothing else than the long one.
        #[test]
        fn plain_lines_are_read_as_any(bytes in "[A-b_\r\n\0]{0,3}[A-Za-c-]{0,9}:? {0,2}[ -c\0\r]{0,9} {0,2}\r{0,2}\n.{0,3}", underscores: bool) {
            if let Some(field) = plain(bytes.as_bytes()) {
                proptest::prop_assert_eq!(field, any_line(bytes.as_bytes(), underscores));
            }
        }
    }
}
