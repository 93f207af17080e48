//! Header fields, stored as offsets into one byte vector.

use super::known::Known;
use crate::common::recycle::Spares;

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

    /// Adds the field of a line that [`line`](super::line::line) took apart: one copy for name and value.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
