//! Strings of header fields as they were written last.
//!
//! Most heads say the same as those before them: the date of this second, the same server, the same type. Their strings are
//! copied rather than written anew, bit by bit.
#![warn(clippy::indexing_slicing)]

use std::cell::RefCell;

/// How many places a thread has for strings; which one a string gets follows from its bytes.
const PLACES: usize = 64;
/// How many strings a place holds: two that are said again and again do not drive each other out.
const WAYS: usize = 2;
/// Strings of other lengths are quickly written, or seldom the same.
const SHORTEST: usize = 4;
const LONGEST: usize = 48;

/// A string and what was written for it, with its length in front.
#[derive(Clone, Copy, Debug)]
struct Said {
    text: [u8; LONGEST],
    len: u8,
    is_name: bool,
    code: [u8; LONGEST + 1],
    code_len: u8,
}

const EMPTY: Said = Said {
    text: [0; LONGEST],
    len: 0,
    is_name: false,
    code: [0; LONGEST + 1],
    code_len: 0,
};

thread_local! {
    /// The newest first.
    static SAID: RefCell<Box<[[Said; WAYS]]>> = RefCell::new(vec![[EMPTY; WAYS]; PLACES].into());
}

/// Appends what was written for `text` before; false when that is not known.
pub(super) fn recall(text: &[u8], is_name: bool, out: &mut Vec<u8>) -> bool {
    let Some(at) = place(text) else { return false };
    SAID.with_borrow(|places| {
        let is_it = |said: &&Said| {
            said.is_name == is_name && said.text.get(..usize::from(said.len)) == Some(text)
        };
        let said = places.get(at).and_then(|ways| ways.iter().find(is_it));
        let code = said.and_then(|said| said.code.get(..usize::from(said.code_len)));
        out.extend_from_slice(code.unwrap_or_default());
        code.is_some()
    })
}

/// Remembers that `code` is what is written for `text`.
pub(super) fn remember(text: &[u8], is_name: bool, code: &[u8]) {
    let mut new = Said { is_name, ..EMPTY };
    let (Some(at), Some(own), Some(own_code)) = (
        place(text),
        new.text.get_mut(..text.len()),
        new.code.get_mut(..code.len()),
    ) else {
        return;
    };
    own.copy_from_slice(text);
    own_code.copy_from_slice(code);
    new.len = u8::try_from(text.len()).unwrap_or(0);
    new.code_len = u8::try_from(code.len()).unwrap_or(0);
    SAID.with_borrow_mut(|places| {
        if let Some([first, second]) = places.get_mut(at) {
            *second = std::mem::replace(first, new);
        }
    });
}

/// The place of a string; None for one that is not remembered.
fn place(text: &[u8]) -> Option<usize> {
    if !(SHORTEST..=LONGEST).contains(&text.len()) {
        return None;
    }
    let number = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let mix = |sum: u32, bytes| {
        (sum ^ number(bytes))
            .wrapping_mul(0x9e37_79b1)
            .rotate_left(15)
    };
    // The last part overlaps the one before it.
    let parts = text.as_chunks().0.iter().map(Some);
    let sum = parts
        .chain([text.last_chunk()])
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
    fn names_are_not_values() {
        let mut out = vec![1];
        remember(b"text", true, b"name");
        assert!(!recall(b"text", false, &mut out));
        assert!(recall(b"text", true, &mut out));
        assert_eq!(out, b"\x01name");
    }

    #[test]
    fn long_and_short_strings_are_not_remembered() {
        for len in [0, SHORTEST - 1, LONGEST + 1, 5000] {
            let text = vec![b'a'; len];
            remember(&text, false, b"code");
            assert!(!recall(&text, false, &mut Vec::new()), "{len}");
        }
    }

    proptest! {
        /// Whatever else was said, what is recalled is what was remembered for these bytes last.
        #[test]
        fn what_is_recalled_was_said(said in proptest::collection::vec(("[ab]{4,6}", any::<bool>()), 1..200)) {
            for (text, is_name) in &said {
                let code = format!("{is_name}{text}");
                let mut out = Vec::new();
                if recall(text.as_bytes(), *is_name, &mut out) {
                    prop_assert_eq!(&out, code.as_bytes());
                }
                remember(text.as_bytes(), *is_name, code.as_bytes());
                out.clear();
                prop_assert!(recall(text.as_bytes(), *is_name, &mut out));
                prop_assert_eq!(&out, code.as_bytes());
            }
        }
    }
}
