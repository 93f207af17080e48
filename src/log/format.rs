//! Access log lines: a `log_format` with the values of one request.
//!
//! Mirrors the escapes of `ngx_http_log_escape` (`http/modules/ngx_http_log_module.c`) and `ngx_escape_json`
//! (`core/ngx_string.c`). Values are escaped where they were written, and a value that needs no escape is not copied.

use crate::{
    conf::model::{Escape, LogFormat},
    vars::{Part, Source},
};

const HEX: [u8; 16] = *b"0123456789ABCDEF";

/// Appends the line, without a newline, to `out`.
pub fn render<S: Source + ?Sized>(format: &LogFormat, source: &mut S, out: &mut Vec<u8>) {
    for part in format.template.parts() {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Var(id) => {
                let start = out.len();
                let found = source.value(id, out);
                match format.escape {
                    Escape::Default if !found => {
                        out.truncate(start);
                        out.push(b'-');
                    }
                    Escape::Default => escape_default(out, start),
                    Escape::Json => escape_json(out, start),
                    Escape::None => {}
                }
            }
        }
    }
}

/// Replaces quotes, backslashes, control characters and all bytes above 126 behind `start` by `\xXX`.
fn escape_default(out: &mut Vec<u8>, start: usize) {
    rewrite(out, start, needs_hex, |out, rest| {
        for &byte in rest {
            if needs_hex(byte) {
                let (high, low) = hex(byte);
                out.extend_from_slice(&[b'\\', b'x', high, low]);
            } else {
                out.push(byte);
            }
        }
    });
}

fn needs_hex(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\' || byte > b'~'
}

/// Makes what is behind `start` the inside of a JSON string.
fn escape_json(out: &mut Vec<u8>, start: usize) {
    rewrite(
        out,
        start,
        |byte| needs_json(byte) || !byte.is_ascii(),
        |out, rest| {
            // DIFFERS(json-log): nginx writes bytes that are no UTF-8 as they are, and then the line is no JSON.
            for chunk in rest.utf8_chunks() {
                for &byte in chunk.valid().as_bytes() {
                    json_byte(byte, out);
                }
                if !chunk.invalid().is_empty() {
                    out.extend_from_slice("\u{fffd}".as_bytes());
                }
            }
        },
    );
}

fn needs_json(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

fn json_byte(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0c => out.extend_from_slice(b"\\f"),
        0..b' ' => {
            let (high, low) = hex(byte);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        _ => out.push(byte),
    }
}

fn hex(byte: u8) -> (u8, u8) {
    (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)])
}

/// Runs `write` over the bytes behind `start` from the first that is `special`, if there is one.
fn rewrite(
    out: &mut Vec<u8>,
    start: usize,
    special: impl Fn(u8) -> bool,
    write: impl FnOnce(&mut Vec<u8>, &[u8]),
) {
    let value = out.get(start..).unwrap_or_default();
    if let Some(at) = value.iter().position(|&byte| special(byte)) {
        let rest = out.split_off(start + at);
        write(out, &rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vars::{Template, VarId};

    struct Agent(Option<&'static [u8]>);
    impl Source for Agent {
        fn value(&mut self, _id: &VarId, out: &mut Vec<u8>) -> bool {
            out.extend_from_slice(self.0.unwrap_or_default());
            self.0.is_some()
        }
    }

    fn line(escape: Escape, value: Option<&'static [u8]>) -> Vec<u8> {
        let format = LogFormat {
            name: "x".into(),
            escape,
            template: Template::compile(b"[$http_user_agent]", &mut |_| VarId::Uri).unwrap(),
        };
        let mut out = b"before ".to_vec();
        render(&format, &mut Agent(value), &mut out);
        out
    }

    #[test]
    fn escapes() {
        let odd: &[u8] = b"a\"b\\c\td\x01e\xc3\xa4\xff\x7f";
        for (escape, expected) in [
            (
                Escape::Default,
                &b"before [a\\x22b\\x5Cc\\x09d\\x01e\\xC3\\xA4\\xFF\\x7F]"[..],
            ),
            (
                Escape::Json,
                b"before [a\\\"b\\\\c\\td\\u0001e\xc3\xa4\xef\xbf\xbd\x7f]",
            ),
            (Escape::None, b"before [a\"b\\c\td\x01e\xc3\xa4\xff\x7f]"),
        ] {
            let shown = line(escape, Some(odd));
            assert_eq!(
                shown.escape_ascii().to_string(),
                expected.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn plain_empty_and_missing() {
        for escape in [Escape::Default, Escape::Json, Escape::None] {
            assert_eq!(
                line(escape, Some(b"plain ~ text")),
                b"before [plain ~ text]"
            );
            assert_eq!(line(escape, Some(b"")), b"before []");
        }
        assert_eq!(line(Escape::Default, None), b"before [-]");
        assert_eq!(line(Escape::Json, None), b"before []");
        assert_eq!(line(Escape::None, None), b"before []");
    }

    proptest::proptest! {
        #[test]
        fn json_is_json(value in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            let mut out = value;
            escape_json(&mut out, 0);
            let quoted = [b"\"", &out[..], b"\""].concat();
            serde_json::from_slice::<String>(&quoted).unwrap();
        }
    }
}
