//! The chunked transfer coding, decoded step by step and written.
//!
//! Mirrors `ngx_http_parse_chunked`: line ends must be CRLF, extensions are skipped, trailers are skipped or handed out.

/// Decoder of one body. It owns no bytes: the caller feeds it and takes the data.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    state: State,
    /// Bytes left of the current chunk.
    size: u64,
    /// Hand trailers to the caller instead of skipping them.
    keep_trailers: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Size,
    Extension,
    ExtensionLf,
    Data,
    AfterData,
    AfterDataLf,
    LastExtension,
    LastExtensionLf,
    Trailer,
    TrailerLf,
    TrailerHeader,
    TrailerHeaderLf,
    Done,
}

/// What [`Decoder::step`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The input is used up.
    More,
    /// Skip `skip` bytes of framing; then `data` bytes belong to the body.
    Data {
        /// Framing bytes before the data.
        skip: usize,
        /// Data bytes, at least 1.
        data: usize,
    },
    /// The body's end: so many bytes of framing were before it. With [`Decoder::with_trailers`] trailer lines follow.
    End(usize),
    /// An error in the framing.
    Invalid,
}

impl Decoder {
    /// A decoder that ends after the last chunk's line, so that the caller reads the trailer lines.
    pub fn with_trailers() -> Self {
        Self {
            keep_trailers: true,
            ..Self::default()
        }
    }

    /// Whether the end has been seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes of the current chunk that [`Step::Data`] has not told of yet.
    pub fn left(&self) -> u64 {
        self.size
    }

    /// Looks at the next bytes of the body. After [`Step::Data`] the caller continues behind the data, after
    /// [`Step::More`] with new bytes.
    pub fn step(&mut self, bytes: &[u8]) -> Step {
        if self.state == State::Data && self.size == 0 {
            self.state = State::AfterData;
        }
        for (at, &c) in bytes.iter().enumerate() {
            if self.state == State::Data {
                return self.take(at, bytes.len() - at);
            }
            match self.next(c) {
                Some(State::Done) => {
                    self.state = State::Done;
                    return Step::End(at + 1);
                }
                Some(state) => self.state = state,
                None => return Step::Invalid,
            }
        }
        Step::More
    }

    fn take(&mut self, skip: usize, available: usize) -> Step {
        let data = usize::try_from(self.size).map_or(available, |size| size.min(available));
        self.size -= data as u64;
        Step::Data { skip, data }
    }

    /// The state after one framing byte; None is an error.
    fn next(&mut self, c: u8) -> Option<State> {
        use State::{
            AfterData, AfterDataLf, Data, Done, Extension, ExtensionLf, LastExtension,
            LastExtensionLf, Size, Start, Trailer, TrailerHeader, TrailerHeaderLf, TrailerLf,
        };
        Some(match (self.state, c) {
            (Start, _) => {
                self.size = digit(c)?;
                Size
            }
            (Size, _) if digit(c).is_some() => {
                // Leaves room for adding a few bytes of framing, as nginx does.
                if self.size > (i64::MAX as u64) / 16 {
                    return None;
                }
                self.size = self.size * 16 + digit(c)?;
                Size
            }
            (Size, b'\r') => {
                if self.size == 0 {
                    LastExtensionLf
                } else {
                    ExtensionLf
                }
            }
            (Size, b';' | b' ' | b'\t') => {
                if self.size == 0 {
                    LastExtension
                } else {
                    Extension
                }
            }
            (Extension, b'\r') => ExtensionLf,
            (LastExtension, b'\r') => LastExtensionLf,
            (Extension | LastExtension | Trailer | TrailerHeader, b'\n') => return None,
            (Extension | LastExtension, _) => self.state,
            (ExtensionLf, b'\n') => Data,
            (AfterData, b'\r') => AfterDataLf,
            (AfterDataLf, b'\n') => Start,
            (LastExtensionLf, b'\n') => {
                if self.keep_trailers {
                    Done
                } else {
                    Trailer
                }
            }
            (Trailer, b'\r') => TrailerLf,
            (TrailerLf, b'\n') => Done,
            (TrailerHeader, b'\r') => TrailerHeaderLf,
            (Trailer | TrailerHeader, _) => TrailerHeader,
            (TrailerHeaderLf, b'\n') => Trailer,
            _ => return None,
        })
    }
}

fn digit(c: u8) -> Option<u64> {
    char::from(c).to_digit(16).map(u64::from)
}

/// Appends the line that begins a chunk of `size` bytes.
pub fn begin(size: usize, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let nibbles = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    for i in (0..nibbles).rev() {
        out.push(DIGITS[size >> (4 * i) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// What ends a body without trailers.
pub const LAST: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `input` cut into pieces of `cut` bytes; the body and what is left after its end.
    fn decode(input: &[u8], cut: usize) -> Result<(Vec<u8>, usize, bool), ()> {
        let mut decoder = Decoder::default();
        let (mut body, mut used) = (Vec::new(), 0);
        for piece in input.chunks(cut) {
            let mut rest = piece;
            while !decoder.is_done() {
                match decoder.step(rest) {
                    Step::More => {
                        used += rest.len();
                        break;
                    }
                    Step::Data { skip, data } => {
                        body.extend_from_slice(&rest[skip..skip + data]);
                        used += skip + data;
                        rest = &rest[skip + data..];
                    }
                    Step::End(n) => used += n,
                    Step::Invalid => return Err(()),
                }
            }
        }
        Ok((body, used, decoder.is_done()))
    }

    #[test]
    fn bodies_in_any_pieces() {
        let input = b"5;ext=1\r\nhello\r\n00a\r\n0123456789\r\n0\r\nT: x\r\n\r\nNEXT";
        for cut in 1..input.len() {
            let (body, used, done) = decode(input, cut).unwrap();
            assert_eq!(
                (body.as_slice(), used, done),
                (&b"hello0123456789"[..], input.len() - 4, true),
                "{cut}"
            );
        }
    }

    #[test]
    fn errors() {
        for input in [
            "x",
            "5\nhello",
            "5\r\nhelloX",
            "1\r\na\r\n0\n",
            "fffffffffffffffff\r\n",
            "\r\n",
            "5 ;\n",
            "0\r\n\n",
        ] {
            assert_eq!(decode(input.as_bytes(), 100), Err(()), "{input:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(chunks in proptest::collection::vec(proptest::collection::vec(0u8..255, 1..300), 0..5), cut in 1usize..50) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                begin(chunk.len(), &mut wire);
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(LAST);
            assert_eq!(decode(&wire, cut), Ok((chunks.concat(), wire.len(), true)));
        }
    }
}
