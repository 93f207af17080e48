//! Header fields as they were written last.
//!
//! Most heads say the same as those before them: the date of this second, the same server, the same type. Their strings are
//! copied rather than written anew, bit by bit.
#![warn(clippy::indexing_slicing)]

use std::cell::RefCell;

/// How many places a thread has for fields; which one a field gets follows from its bytes.
const PLACES: usize = 64;
/// How many fields a place holds: two that are said again and again do not drive each other out.
const WAYS: usize = 2;
/// Fields of other lengths are quickly written, or seldom the same: bytes of name and value.
const SHORTEST: usize = 4;
const LONGEST: usize = 64;
/// Each string has its length in front, here of one byte.
const LONGEST_CODE: usize = LONGEST + 2;

/// A field and what was written for it.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// Name and value.
    text: [u8; LONGEST],
    name: u8,
    len: u8,
    code_len: u8,
    code: [u8; LONGEST_CODE],
}

const EMPTY: Said = Said {
    text: [0; LONGEST],
    name: 0,
    len: 0,
    code_len: 0,
    code: [0; LONGEST_CODE],
};

thread_local! {
    /// The newest first.
    static SAID: RefCell<Box<[[Said; WAYS]]>> = RefCell::new(vec![[EMPTY; WAYS]; PLACES].into());
}

impl Said {
    fn is(&self, name: &[u8], value: &[u8]) -> bool {
        let (start, end) = (usize::from(self.name), usize::from(self.len));
        start == name.len()
            && end == name.len() + value.len()
            && self.text.get(..start) == Some(name)
            && self.text.get(start..end) == Some(value)
    }
}

/// Appends what was written before for name and value, or for the value alone where the name is empty; false when that is
/// not known.
pub(super) fn recall(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(at) = place(name, value) else {
        return false;
    };
    SAID.with_borrow(|places| {
        let is_it = |said: &&Said| said.is(name, value);
        let said = places.get(at).and_then(|ways| ways.iter().find(is_it));
        let code = said.and_then(|said| said.code.get(..usize::from(said.code_len)));
        out.extend_from_slice(code.unwrap_or_default());
        code.is_some()
    })
}

/// Remembers that `code` is what is written for them.
pub(super) fn remember(name: &[u8], value: &[u8], code: &[u8]) {
    let small = |n: usize| u8::try_from(n).unwrap_or(0);
    let len = name.len() + value.len();
    let mut new = Said {
        name: small(name.len()),
        len: small(len),
        code_len: small(code.len()),
        ..EMPTY
    };
    let (Some(at), Some(own), Some(own_code)) = (
        place(name, value),
        new.text.get_mut(..len),
        new.code.get_mut(..code.len()),
    ) else {
        return;
    };
    let (own_name, own_value) = own.split_at_mut(name.len());
    own_name.copy_from_slice(name);
    own_value.copy_from_slice(value);
    own_code.copy_from_slice(code);
    SAID.with_borrow_mut(|places| {
        if let Some([first, second]) = places.get_mut(at) {
            *second = std::mem::replace(first, new);
        }
    });
}

/// The place of a field; None for one that is not remembered.
fn place(name: &[u8], value: &[u8]) -> Option<usize> {
    if !(SHORTEST..=LONGEST).contains(&(name.len() + value.len())) {
        return None;
    }
    let number = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let mix = |sum: u32, bytes| {
        (sum ^ number(bytes))
            .wrapping_mul(0x9e37_79b1)
            .rotate_left(15)
    };
    // The last part overlaps the one before it.
    let parts = value.as_chunks().0.iter().map(Some);
    let sum = parts
        .chain([value.last_chunk(), name.last_chunk()])
        .fold(0, mix)
        .wrapping_mul(0x9e37_79b1);
    let place = sum >> (32 - PLACES.ilog2());
    Some(place as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_end_where_they_end() {
        let mut out = vec![1];
        remember(b"text", b"value", b"code");
        assert!(!recall(b"tex", b"tvalue", &mut out));
        assert!(!recall(b"", b"textvalue", &mut out));
        assert!(!recall(b"text", b"value2", &mut out));
        assert!(recall(b"text", b"value", &mut out));
        assert_eq!(out, b"\x01code");
    }

    #[test]
    fn long_and_short_fields_are_not_remembered() {
        for len in [0, SHORTEST - 1, LONGEST + 1, 5000] {
            let text = vec![b'a'; len];
            let (name, value) = text.split_at(len / 2);
            remember(name, value, b"code");
            assert!(!recall(name, value, &mut Vec::new()), "{len}");
        }
    }

    proptest! {
        /// Whatever else was said, what is recalled is what was remembered for these bytes last.
        #[test]
        fn what_is_recalled_was_said(said in proptest::collection::vec(("[ab]{0,3}", "[ab]{4,6}"), 1..200)) {
            for (name, value) in &said {
                let code = format!("{name}-{value}");
                let (name, value) = (name.as_bytes(), value.as_bytes());
                let mut out = Vec::new();
                if recall(name, value, &mut out) {
                    prop_assert_eq!(&out, code.as_bytes());
                }
                remember(name, value, code.as_bytes());
                out.clear();
                prop_assert!(recall(name, value, &mut out));
                prop_assert_eq!(&out, code.as_bytes());
            }
        }
    }
}
