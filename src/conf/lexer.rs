//! From bytes to tokens: the words of a statement and what ends it.
//!
//! Mirrors `ngx_conf_read_token` (`core/ngx_conf_file.c`) to the byte: quotes are special only where a word begins, a
//! backslash takes the next byte with it, `${` does not open a block, and a word (or comment) longer than nginx's
//! buffer of 4096 bytes is an error. Lines are counted as there: a message names the line that was reached.
#![warn(clippy::indexing_slicing)]

use std::{borrow::Cow, fmt};

use nom::{
    IResult, Parser,
    branch::alt,
    bytes::complete::{is_not, tag, take, take_while1},
    character::complete::{char, one_of},
    combinator::recognize,
    multi::many0_count,
    sequence::preceded,
};

/// One word of a statement, quotes and escapes resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Word(Vec<u8>);

impl Word {
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

/// What the lexer found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Words and `;`
    Statement(Vec<Word>),
    /// Words and `{`
    BlockStart(Vec<Word>),
    /// `}`
    BlockEnd,
    /// Nothing more.
    End,
}

/// Whether a text is a file or the argument of `-g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File,
    CommandLine,
}

/// Reads tokens one by one.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a [u8],
    line: usize,
    origin: Origin,
}

/// The longest word: nginx's buffer.
const MAX_WORD: usize = 4096;

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8], origin: Origin) -> Self {
        Self {
            rest: text,
            line: 1,
            origin,
        }
    }

    /// The line that was reached, from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The next token, or nginx's message about what stands there.
    pub(super) fn next(&mut self) -> Result<Token, String> {
        let mut words = Vec::new();
        loop {
            self.skip_gap()?;
            let Some(first) = self.peek() else {
                return self.end(words.is_empty());
            };
            match first {
                b';' | b'{' | b'}' if words.is_empty() != (first == b'}') => {
                    self.advance(1);
                    return Err(format!("unexpected \"{}\"", char::from(first)));
                }
                b'}' => {
                    self.advance(1);
                    return Ok(Token::BlockEnd);
                }
                b';' => {
                    self.advance(1);
                    return Ok(Token::Statement(words));
                }
                b'{' => {
                    self.advance(1);
                    return Ok(Token::BlockStart(words));
                }
                quote @ (b'"' | b'\'') => {
                    self.advance(1);
                    let raw = self.word(|rest| quoted(quote, rest), Some(quote))?;
                    self.advance(1);
                    words.push(unescape(raw));
                    self.after_quote()?;
                }
                _ => {
                    let raw = self.word(bare, None)?;
                    words.push(unescape(raw));
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Moves on by `count` bytes and counts their line ends.
    fn advance(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.line += memchr::memchr_iter(b'\n', taken).count();
        self.rest = rest;
        taken
    }

    /// Skips white space and comments.
    fn skip_gap(&mut self) -> Result<(), String> {
        loop {
            match self.peek() {
                Some(b'#') => {
                    let length = memchr::memchr(b'\n', self.rest).unwrap_or(self.rest.len());
                    self.check_length(length, None)?;
                    self.advance(length);
                }
                Some(c) if is_space(c) => {
                    let length = spaces(self.rest).map_or(1, |(_, taken)| taken.len());
                    self.advance(length);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Takes what `parser` recognises; something must follow it.
    fn word(
        &mut self,
        parser: impl Fn(&[u8]) -> IResult<&[u8], &[u8]>,
        quote: Option<u8>,
    ) -> Result<&'a [u8], String> {
        let length = parser(self.rest).map_or(0, |(_, raw)| raw.len());
        // A lone backslash at the very end takes nothing with it.
        let ended = self.rest.get(length).is_some_and(|c| *c != b'\\');
        self.check_length(if ended { length } else { self.rest.len() }, quote)?;
        if ended {
            return Ok(self.advance(length));
        }
        self.advance(self.rest.len());
        self.end(false).map(|_| &[][..])
    }

    /// nginx reads through a buffer; a word whose end is not in it is too long, unless the file ends first.
    fn check_length(&self, length: usize, quote: Option<u8>) -> Result<(), String> {
        if length < MAX_WORD || self.rest.len() <= MAX_WORD || self.origin == Origin::CommandLine {
            return Ok(());
        }
        Err(match quote {
            Some(quote) => format!(
                "too long parameter, probably missing terminating \"{}\" character",
                char::from(quote)
            ),
            None => format!(
                "too long parameter \"{}...\" started",
                String::from_utf8_lossy(self.rest.get(..10).unwrap_or_default())
            ),
        })
    }

    /// After a closing quote a word has ended.
    fn after_quote(&mut self) -> Result<(), String> {
        match self.peek() {
            None | Some(b';' | b'{' | b')') => Ok(()),
            Some(c) if is_space(c) => Ok(()),
            Some(c) => Err(format!("unexpected \"{}\"", char::from(c))),
        }
    }

    fn end(&self, clean: bool) -> Result<Token, String> {
        if clean {
            return Ok(Token::End);
        }
        Err(match self.origin {
            Origin::File => "unexpected end of file, expecting \";\" or \"}\"",
            Origin::CommandLine => "unexpected end of parameter, expecting \";\"",
        }
        .to_owned())
    }
}

fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\r' | b'\n')
}

fn spaces(input: &[u8]) -> IResult<&[u8], &[u8]> {
    take_while1(is_space).parse(input)
}

/// A backslash and the byte after it.
fn escape(input: &[u8]) -> IResult<&[u8], &[u8]> {
    recognize(preceded(char('\\'), take(1usize))).parse(input)
}

/// A word without quotes. Its first byte is known not to be special.
fn bare(input: &[u8]) -> IResult<&[u8], &[u8]> {
    recognize(many0_count(alt((
        is_not(" \t\r\n;{\\$"),
        escape,
        recognize((tag("$"), many0_count(one_of("{")))),
    ))))
    .parse(input)
}

/// What stands before the closing `quote`.
fn quoted(quote: u8, input: &[u8]) -> IResult<&[u8], &[u8]> {
    let stops = [quote, b'\\'];
    recognize(many0_count(alt((is_not(&stops[..]), escape)))).parse(input)
}

/// Resolves `\"`, `\'`, `\\`, `\t`, `\r` and `\n`; another backslash stays.
fn unescape(raw: &[u8]) -> Word {
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = match (byte, bytes.peek()) {
            (b'\\', Some(c @ (b'"' | b'\'' | b'\\'))) => Some(*c),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            _ => None,
        };
        if escaped.is_some() {
            bytes.next();
        }
        out.push(escaped.unwrap_or(byte));
    }
    Word(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<Word> {
        match Lexer::new(text.as_bytes(), Origin::File).next() {
            Ok(Token::Statement(words) | Token::BlockStart(words)) => words,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn error(text: &str) -> (String, usize) {
        let mut lexer = Lexer::new(text.as_bytes(), Origin::File);
        loop {
            match lexer.next() {
                Ok(Token::End) => panic!("{text}: no error"),
                Ok(_) => {}
                Err(message) => return (message, lexer.line()),
            }
        }
    }

    #[test]
    fn words_as_nginx_splits_them() {
        for (text, expected) in [
            ("a b;", &["a", "b"][..]),
            ("server{", &["server"]),
            ("a # comment ; {\n b;", &["a", "b"]),
            (r#"a "b;{}#'" 'c"';"#, &["a", "b;{}#'", "c\""]),
            (r#"a b"c"d;"#, &["a", "b\"c\"d"]),
            (r#"a "\"\\\t\d" \;x;"#, &["a", "\"\\\t\\d", "\\;x"]),
            ("a ${b}c$d{", &["a", "${b}c$d"]),
            ("a ${{x;", &["a", "${{x"]),
            ("if ($a = \"b\") {", &["if", "($a", "=", "b", ")"]),
            ("a x}y;", &["a", "x}y"]),
            ("a\r\n\"\" ;", &["a", ""]),
            ("a é\\", &["a", "é\\ "]),
        ] {
            let text = if text.ends_with('\\') {
                format!("{text} ;")
            } else {
                text.to_owned()
            };
            assert_eq!(words(&text), expected, "{text}");
        }
    }

    #[test]
    fn errors_name_what_and_where() {
        let end = "unexpected end of file, expecting \";\" or \"}\"";
        for (text, message, line) in [
            ("a\n;\n;", "unexpected \";\"", 3),
            ("{", "unexpected \"{\"", 1),
            ("a }", "unexpected \"}\"", 1),
            ("a 'b'c;", "unexpected \"c\"", 1),
            ("a\n b", end, 2),
            ("a 'b\n\n", end, 3),
            ("a \\", end, 1),
            ("a b\\", end, 1),
            ("a 'b' ", end, 1),
        ] {
            assert_eq!(error(text), (message.to_owned(), line), "{text}");
        }
    }

    #[test]
    fn too_long_words() {
        let long = "x".repeat(5000);
        assert_eq!(
            error(&format!("a\n {long};")),
            ("too long parameter \"xxxxxxxxxx...\" started".to_owned(), 2)
        );
        assert_eq!(
            error(&format!("a '{long}';")),
            (
                "too long parameter, probably missing terminating \"'\" character".to_owned(),
                1
            )
        );
        assert_eq!(
            error(&format!("#{long}\n")).0,
            "too long parameter \"#xxxxxxxxx...\" started"
        );
        assert_eq!(words(&format!("a {};", "x".repeat(4000))).len(), 2);
    }

    proptest! {
        #[test]
        fn any_bytes_end(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut lexer = Lexer::new(&text, Origin::File);
            for _ in 0..=text.len() {
                if matches!(lexer.next(), Ok(Token::End) | Err(_)) {
                    return Ok(());
                }
            }
            prop_assert!(false, "no end");
        }

        #[test]
        fn syntax_soup_ends(text in "[a;{}#\"'$\\\\ \n]{0,80}") {
            let mut lexer = Lexer::new(text.as_bytes(), Origin::File);
            while !matches!(lexer.next(), Ok(Token::End) | Err(_)) {}
        }

        #[test]
        fn quoting_round_trips(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut text = b"x \"".to_vec();
            for byte in &value {
                if matches!(byte, b'"' | b'\\') {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.extend_from_slice(b"\";");
            let token = Lexer::new(&text, Origin::File).next();
            prop_assert_eq!(token, Ok(Token::Statement(vec!["x".into(), Word(value)])));
        }
    }
}
