//! Text with variables, compiled once: `"$scheme://${host}/$1"`.
//!
//! Mirrors `ngx_http_script_compile` and `ngx_http_compile_complex_value` (`http/ngx_http_script.c)`: `$name`, `${name}`
//! and `$1` to `$9`; a `$` before anything else is an error, there is no escape for it.

use std::{fmt, sync::Arc};

use super::{Source, VarId};

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Bytes that stand for themselves.
    Text(Arc<[u8]>),
    /// The value of a variable.
    Var(VarId),
}

/// Text with variables. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    parts: Arc<[Part]>,
}

/// Why a text is no template; the display is nginx's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// A `$` that no name follows.
    InvalidName,
    /// `${name` without `}`; holds the name.
    MissingBracket(String),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName => f.write_str("invalid variable name"),
            Self::MissingBracket(name) => {
                write!(f, "the closing bracket in \"{name}\" variable is missing")
            }
        }
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Compiles `text`; `resolve` turns each name into its variable and is called in order of appearance.
    pub fn compile(
        text: &[u8],
        resolve: &mut dyn FnMut(&str) -> VarId,
    ) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some((&first, tail)) = rest.split_first() {
            if first != b'$' {
                literal.push(first);
                rest = tail;
                continue;
            }
            let (name, tail) = variable_name(tail)?;
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal).into()));
            }
            parts.push(Part::Var(match name.as_bytes() {
                [digit @ b'1'..=b'9', ..] => VarId::Capture(digit - b'0'),
                _ => resolve(name),
            }));
            rest = tail;
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal.into()));
        }
        Ok(Self {
            parts: parts.into(),
        })
    }

    /// A template without variables.
    pub fn literal(text: &[u8]) -> Self {
        let parts: Vec<Part> = if text.is_empty() {
            Vec::new()
        } else {
            vec![Part::Text(text.into())]
        };
        Self {
            parts: parts.into(),
        }
    }

    /// The pieces in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text, when there are no variables in it.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it has no text and no variables.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends the text with every variable replaced by its value to `out`; one that is not found is empty.
    pub fn render<S: Source + ?Sized>(&self, source: &mut S, out: &mut Vec<u8>) {
        for part in &*self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Var(id) => {
                    source.value(id, out);
                }
            }
        }
    }

    /// The text with every variable replaced, as a new vector.
    pub fn to_vec<S: Source + ?Sized>(&self, source: &mut S) -> Vec<u8> {
        let mut out = Vec::new();
        self.render(source, &mut out);
        out
    }
}

impl From<Part> for Template {
    fn from(part: Part) -> Self {
        Self {
            parts: Arc::new([part]),
        }
    }
}

/// Splits the name of a variable off `text`, which begins after the `$`. A capture is one digit without brackets.
fn variable_name(text: &[u8]) -> Result<(&str, &[u8]), TemplateError> {
    if let [b'1'..=b'9', ..] = text {
        let (digit, rest) = text.split_at(1);
        return Ok((ascii(digit), rest));
    }
    let (bracket, text) = match text {
        [b'{', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let end = text
        .iter()
        .position(|c| !c.is_ascii_alphanumeric() && *c != b'_')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let name = ascii(name);
    match (bracket, rest) {
        (true, [b'}', rest @ ..]) if !name.is_empty() => Ok((name, rest)),
        (true, [b'}', ..]) => Err(TemplateError::InvalidName),
        (true, _) => Err(TemplateError::MissingBracket(name.to_owned())),
        (false, _) if name.is_empty() => Err(TemplateError::InvalidName),
        (false, rest) => Ok((name, rest)),
    }
}

fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;
    impl Source for Names {
        fn value(&mut self, id: &VarId, out: &mut Vec<u8>) -> bool {
            out.extend_from_slice(format!("<{id:?}>").as_bytes());
            true
        }
    }

    fn compile(text: &str) -> Result<Template, TemplateError> {
        Template::compile(text.as_bytes(), &mut |name| {
            VarId::builtin(name).unwrap_or(VarId::Uri)
        })
    }

    #[test]
    fn names_brackets_and_captures() {
        let template = compile("a$scheme-${host}b$12${3}").unwrap();
        assert_eq!(
            template.to_vec(&mut Names),
            b"a<Scheme>-<Host>b<Capture(1)>2<Capture(3)>"
        );
        assert_eq!(compile("plain").unwrap().as_literal(), Some(&b"plain"[..]));
        assert_eq!(compile("").unwrap().as_literal(), Some(&b""[..]));
    }

    #[test]
    fn errors_are_nginx_s() {
        for (text, message) in [
            ("$", "invalid variable name"),
            ("$$a", "invalid variable name"),
            ("${}", "invalid variable name"),
            ("${ab", "the closing bracket in \"ab\" variable is missing"),
            (
                "${ab-}",
                "the closing bracket in \"ab\" variable is missing",
            ),
        ] {
            assert_eq!(compile(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_compile_or_fail(text in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            Template::compile(&text, &mut |_| VarId::Uri).ok();
        }
    }
}
