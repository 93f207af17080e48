//! TLS's greeting, the `ClientHello`, read as far as it is needed to know whom a client wants: the name, the protocols and
//! the version that it offers.
//!
//! Bytes only: whoever collects them shows all that have come so far, again and again, and what was understood is not
//! read twice. A record is looked at once it is complete. Every length is checked against what the message has left, and
//! a message with a wrong one counts as no TLS. Mirrors `stream/ngx_stream_ssl_preread_module.c` of nginx 1.31.5, also
//! where it is more generous than RFC 8446: the first name and the first list of protocols count, an extension's own
//! length counts only where the extension is skipped, and whoever sends `supported_versions` speaks TLS 1.3.
#![warn(clippy::indexing_slicing)]

use smallvec::SmallVec;

/// What is known of a greeting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// How many bytes of records were read.
    read: usize,
    part: Part,
    /// How many bytes of `part` are to come.
    wanted: usize,
    /// How many bytes of the message are to come; those of `part` are among them.
    left: usize,
    /// How many bytes the present list of names or protocols has after `part`.
    list: usize,
    /// What has come of `part`, where it is kept.
    kept: SmallVec<[u8; 32]>,
    version: (u8, u8),
    name: Option<Vec<u8>>,
    protocols: Option<Vec<u8>>,
}

/// What a look at the bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The greeting goes on.
    More,
    /// All of it is known.
    Whole,
    /// It is in the format of SSL 2.0: there is a version and nothing else.
    Version2,
    /// This is no greeting.
    Other,
}

/// The parts of the message, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Type and length of the message.
    #[default]
    Head,
    Version,
    Random,
    SessionLength,
    Session,
    SuitesLength,
    Suites,
    MethodsLength,
    Methods,
    ExtensionsLength,
    ExtensionHead,
    /// The rest of an extension, of no interest.
    Extension,
    NamesLength,
    NameHead,
    Name,
    ProtocolsLength,
    ProtocolLength,
    Protocol,
    VersionsLength,
}

impl Part {
    fn is_kept(self) -> bool {
        !matches!(
            self,
            Self::Random | Self::Session | Self::Suites | Self::Methods | Self::Extension
        )
    }
}

/// Where the message leads after a part.
enum Step {
    /// To a part of so many bytes.
    To(Part, usize),
    /// To the next extension, if there is one.
    Extension,
    /// To its end.
    End,
}

/// Bytes in front of a record: type, version, length.
const RECORD_HEAD: usize = 5;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// Types of extensions.
const SERVER_NAME: u16 = 0;
const APPLICATION_PROTOCOLS: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const HOST_NAME: u8 = 0;

impl ClientHello {
    /// Looks at `bytes`: all that have come so far, which begin with all that were shown before.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Seen {
        while let Some(rest) = bytes.get(self.read..)
            && let Some((head, rest)) = rest.split_first_chunk::<RECORD_HEAD>()
        {
            let [kind, major, _, high, low] = *head;
            // A record of SSL 2.0: a length with its top bit set, the type of the message, its version.
            if let [0x80..=0xff, _, CLIENT_HELLO, major @ (0 | 3), minor] = *head {
                self.version = (major, minor);
                return Seen::Version2;
            }
            if kind != HANDSHAKE || major != 3 {
                return Seen::Other;
            }
            let length = usize::from(u16::from_be_bytes([high, low]));
            let Some(record) = rest.get(..length) else {
                return Seen::More;
            };
            self.read += RECORD_HEAD + length;
            match self.record(record) {
                Seen::More => {}
                seen => return seen,
            }
        }
        Seen::More
    }

    /// `$ssl_preread_server_name`; empty when none was given.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or_default()
    }

    /// `$ssl_preread_alpn_protocols`: with commas between them.
    pub(crate) fn protocols(&self) -> &[u8] {
        self.protocols.as_deref().unwrap_or_default()
    }

    /// `$ssl_preread_protocol`: the highest version that is offered; empty for one that nobody has named.
    pub(crate) fn version(&self) -> &'static str {
        match self.version {
            (0, 2) => "SSLv2",
            (3, 0) => "SSLv3",
            (3, 1) => "TLSv1",
            (3, 2) => "TLSv1.1",
            (3, 3) => "TLSv1.2",
            (3, 4) => "TLSv1.3",
            _ => "",
        }
    }

    /// Reads the content of a record: a piece of the message.
    fn record(&mut self, mut bytes: &[u8]) -> Seen {
        if self.part == Part::Head && self.wanted == 0 {
            (self.wanted, self.left) = (4, 4);
        }
        loop {
            let (piece, rest) = bytes.split_at(bytes.len().min(self.wanted));
            if self.part.is_kept() {
                self.kept.extend_from_slice(piece);
            }
            bytes = rest;
            self.wanted -= piece.len();
            self.left -= piece.len();
            if self.wanted > 0 {
                return Seen::More;
            }
            let kept = std::mem::take(&mut self.kept);
            let (part, wanted) = match self.next(&kept) {
                Some(Step::To(part, wanted)) => (part, wanted),
                Some(Step::Extension) if self.left > 0 => (Part::ExtensionHead, 4),
                Some(Step::Extension | Step::End) => return Seen::Whole,
                None => return Seen::Other,
            };
            if wanted > self.left {
                return Seen::Other;
            }
            (self.part, self.wanted) = (part, wanted);
        }
    }

    /// Takes in the present part, which is complete; None when it cannot be right.
    fn next(&mut self, kept: &[u8]) -> Option<Step> {
        let number = || kept.iter().fold(0, |sum, c| sum << 8 | usize::from(*c));
        let step = match self.part {
            Part::Head => {
                let (kind, _) = kept.split_first()?;
                self.left = number() & 0x00ff_ffff;
                (*kind == CLIENT_HELLO).then_some(Step::To(Part::Version, 2))?
            }
            Part::Version => {
                let [major, minor] = *kept.as_array()?;
                self.version = (major, minor);
                Step::To(Part::Random, 32)
            }
            Part::Random => Step::To(Part::SessionLength, 1),
            Part::SessionLength => Step::To(Part::Session, number()),
            Part::Session => Step::To(Part::SuitesLength, 2),
            Part::SuitesLength => Step::To(Part::Suites, number()),
            Part::Suites => Step::To(Part::MethodsLength, 1),
            Part::MethodsLength => Step::To(Part::Methods, number()),
            Part::Methods if self.left == 0 => Step::End,
            Part::Methods => Step::To(Part::ExtensionsLength, 2),
            Part::ExtensionsLength | Part::Extension => Step::Extension,
            Part::ExtensionHead => self.extension(kept)?,
            _ => self.listed(kept, number())?,
        };
        Some(step)
    }

    fn extension(&self, head: &[u8]) -> Option<Step> {
        let [high, low, length_high, length_low] = *head.as_array()?;
        let length = u16::from_be_bytes([length_high, length_low]);
        Some(match u16::from_be_bytes([high, low]) {
            SERVER_NAME if self.name.is_none() => Step::To(Part::NamesLength, 2),
            APPLICATION_PROTOCOLS if self.protocols.is_none() => Step::To(Part::ProtocolsLength, 2),
            SUPPORTED_VERSIONS => Step::To(Part::VersionsLength, 1),
            _ => Step::To(Part::Extension, length.into()),
        })
    }

    /// Takes in a part of an extension of interest; `number` is the part as a number.
    fn listed(&mut self, kept: &[u8], number: usize) -> Option<Step> {
        Some(match self.part {
            Part::NamesLength => {
                self.list = number;
                Step::To(Part::NameHead, 3)
            }
            Part::NameHead => {
                let [kind, high, low] = *kept.as_array()?;
                let length = usize::from(u16::from_be_bytes([high, low]));
                self.list = self.list.checked_sub(3 + length)?;
                self.name = Some(Vec::new());
                (kind == HOST_NAME).then_some(Step::To(Part::Name, length))?
            }
            Part::Name => {
                self.name = Some(kept.to_vec());
                Step::To(Part::Extension, self.list)
            }
            Part::ProtocolsLength => {
                self.list = number;
                self.protocols = Some(Vec::new());
                Step::To(Part::ProtocolLength, 1)
            }
            Part::ProtocolLength => {
                self.list = self.list.checked_sub(1 + number)?;
                (number > 0).then_some(Step::To(Part::Protocol, number))?
            }
            Part::Protocol => {
                let protocols = self.protocols.get_or_insert_default();
                protocols.extend_from_slice(kept);
                if self.list == 0 {
                    return Some(Step::Extension);
                }
                protocols.push(b',');
                Step::To(Part::ProtocolLength, 1)
            }
            Part::VersionsLength => {
                self.version = (3, 4);
                Step::To(Part::Extension, number)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests know their bytes")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `content` behind its length, in so many bytes.
    fn sized(width: usize, content: &[u8]) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        [&length[length.len() - width..], content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &sized(2, content)].concat()
    }

    fn name(name: &[u8]) -> Vec<u8> {
        let entry = [&[HOST_NAME][..], &sized(2, name)].concat();
        extension(SERVER_NAME, &sized(2, &entry))
    }

    /// The message, with these extensions if it is to have any.
    fn message(extensions: Option<&[Vec<u8>]>) -> Vec<u8> {
        let mut body = [&[3, 3][..], &[7; 32], &sized(1, &[9; 32])].concat();
        body.extend([sized(2, &[0x13, 1]), sized(1, &[0])].concat());
        body.extend(extensions.map_or(Vec::new(), |list| sized(2, &list.concat())));
        [&[CLIENT_HELLO][..], &sized(3, &body)].concat()
    }

    /// The message in records of at most so many bytes.
    fn records(message: &[u8], most: usize) -> Vec<u8> {
        let record = |piece: &[u8]| [&[HANDSHAKE, 3, 1][..], &sized(2, piece)].concat();
        message.chunks(most).flat_map(record).collect()
    }

    type Facts = (Seen, String, String, &'static str);

    /// What is known when bytes come in pieces that end at `ends`.
    fn look(bytes: &[u8], ends: impl IntoIterator<Item = usize>) -> Facts {
        let mut hello = ClientHello::default();
        let mut seen = Seen::More;
        for end in ends.into_iter().chain([bytes.len()]) {
            if seen == Seen::More {
                seen = hello.read(&bytes[..end]);
            }
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            seen,
            text(hello.name()),
            text(hello.protocols()),
            hello.version(),
        )
    }

    fn all() -> Vec<u8> {
        let protocols = extension(APPLICATION_PROTOCOLS, &sized(2, b"\x02h2\x08http/1.1"));
        message(Some(&[
            extension(0x0a0a, b""),
            name(b"Example.com"),
            protocols,
            name(b"second"),
            extension(SUPPORTED_VERSIONS, b"\x02\x03\x04"),
        ]))
    }

    #[test]
    fn what_a_client_offers() {
        let facts = |seen, name: &str, protocols: &str, version| {
            (seen, name.to_owned(), protocols.to_owned(), version)
        };
        let whole = facts(Seen::Whole, "Example.com", "h2,http/1.1", "TLSv1.3");
        for most in [1, 7, 100, 16384] {
            let bytes = records(&all(), most);
            assert_eq!(look(&bytes, 0..bytes.len()), whole, "records of {most}");
            assert_eq!(look(&bytes[..bytes.len() - 1], []).0, Seen::More);
        }
        let bare = facts(Seen::Whole, "", "", "TLSv1.2");
        for extensions in [None, Some(&[][..])] {
            assert_eq!(look(&records(&message(extensions), 99), []), bare);
        }
        let old = facts(Seen::Version2, "", "", "TLSv1.2");
        assert_eq!(look(b"\x80\x2e\x01\x03\x03", 0..5), old);
        assert_eq!(look(b"\x80\x2e\x01\x00\x02", []).3, "SSLv2");
    }

    #[test]
    fn what_is_no_greeting() {
        let list = |content: &[u8]| extension(APPLICATION_PROTOCOLS, content);
        for (what, message) in [
            ("another message", b"\x02\0\0\0".to_vec()),
            ("no room for a version", b"\x01\0\0\x01".to_vec()),
            ("no room for the random", b"\x01\0\0\x21\x03\x03".to_vec()),
            (
                "no name of a host",
                message(Some(&[extension(SERVER_NAME, b"\0\x04\x01\0\x01a")])),
            ),
            (
                "a name longer than its list",
                message(Some(&[extension(SERVER_NAME, b"\0\x03\0\0\x01a")])),
            ),
            ("an empty protocol", message(Some(&[list(b"\0\x01\0")]))),
            ("no protocol", message(Some(&[list(b"\0\0")]))),
            (
                "a protocol longer than its list",
                message(Some(&[list(b"\0\x02\x02h2")])),
            ),
            (
                "an extension beyond the end",
                message(Some(&[b"\0\x05\0\x01".to_vec()])),
            ),
        ] {
            let bytes = records(&message, 9);
            assert_eq!(look(&bytes, 0..bytes.len()).0, Seen::Other, "{what}");
        }
        for text in ["GET / HTTP/1.1", "\x16\x02\x01\0\0", "\x15\x03\x01\0\x02"] {
            assert_eq!(look(text.as_bytes(), 0..5).0, Seen::Other, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(
            most in 1usize..300,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            ends in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut bytes = records(&all(), most);
            for (at, byte) in changes {
                *at.get_mut(&mut bytes) = byte;
            }
            let mut ends: Vec<usize> = ends.iter().map(|end| end.index(bytes.len())).collect();
            ends.sort_unstable();
            let whole = look(&bytes, []);
            prop_assert_eq!(&look(&bytes, ends), &whole);
            prop_assert_eq!(look(&bytes, 0..bytes.len()), whole);
        }
    }
}
