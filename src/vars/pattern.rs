//! Regular expressions: linear time where the pattern allows it, PCRE2 for look-around and back-references.
//!
//! nginx uses PCRE2 without UTF and without extra options (`core/ngx_regex.c`), so patterns work on bytes and classes
//! such as `\d` are ASCII.

use std::fmt;

use smallvec::SmallVec;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    engine: Engine,
    text: Box<str>,
    names: Vec<(usize, Box<str>)>,
    groups: usize,
}

#[derive(Clone, Debug)]
enum Engine {
    Linear(regex::bytes::Regex),
    Pcre(pcre2::bytes::Regex),
}

/// Byte ranges of the whole match (0) and of each group; None where a group took no part. Every request has room for these:
/// that is no more than most patterns need.
pub type Captures = SmallVec<[Option<(usize, usize)>; 4]>;

/// A pattern that does not compile; the display is nginx's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    message: String,
    pattern: String,
    offset: usize,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pcre2_compile() failed: {} in \"{}\"",
            self.message, self.pattern
        )?;
        match self.pattern.get(self.offset..) {
            Some(rest) if !rest.is_empty() => write!(f, " at \"{rest}\""),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for PatternError {}

impl Pattern {
    /// Compiles `text`; `caseless` ignores the case of ASCII letters.
    pub fn new(text: &str, caseless: bool) -> Result<Self, PatternError> {
        let linear = regex::bytes::RegexBuilder::new(text)
            .case_insensitive(caseless)
            .unicode(false)
            .build();
        let engine = match linear {
            Ok(regex) => Engine::Linear(regex),
            Err(_) => Engine::Pcre(pcre(text, caseless)?),
        };
        let names: Vec<Option<String>> = match &engine {
            Engine::Linear(regex) => regex
                .capture_names()
                .map(|n| n.map(str::to_owned))
                .collect(),
            Engine::Pcre(regex) => regex.capture_names().to_vec(),
        };
        let groups = names.len();
        let names = names
            .into_iter()
            .enumerate()
            .filter_map(|(i, n)| n.map(|n| (i, n.into_boxed_str())))
            .collect();
        Ok(Self {
            engine,
            text: text.into(),
            names,
            groups,
        })
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Named groups: their number and name.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.names.iter().map(|(i, n)| (*i, &**n))
    }

    /// How many groups it has, without the whole match.
    pub fn group_count(&self) -> usize {
        self.groups - 1
    }

    /// Whether it matches anywhere in `subject`.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        match &self.engine {
            Engine::Linear(regex) => regex.is_match(subject),
            // DIFFERS(patterns): a match error (the backtracking limit) is no match; nginx logs an alert as well.
            Engine::Pcre(regex) => regex.is_match(subject).unwrap_or(false),
        }
    }

    /// The captures of the first match in `subject`.
    pub fn captures(&self, subject: &[u8]) -> Option<Captures> {
        match &self.engine {
            Engine::Linear(regex) if self.groups == 1 => regex
                .find(subject)
                .map(|m| std::iter::once(Some((m.start(), m.end()))).collect()),
            Engine::Linear(regex) => {
                let mut locations = regex.capture_locations();
                regex.captures_read(&mut locations, subject)?;
                Some((0..locations.len()).map(|i| locations.get(i)).collect())
            }
            Engine::Pcre(regex) => {
                let captures = regex.captures(subject).ok().flatten()?;
                Some(
                    (0..captures.len())
                        .map(|i| captures.get(i).map(|m| (m.start(), m.end())))
                        .collect(),
                )
            }
        }
    }
}

fn pcre(text: &str, caseless: bool) -> Result<pcre2::bytes::Regex, PatternError> {
    pcre2::bytes::RegexBuilder::new()
        .caseless(caseless)
        .build(text)
        .map_err(|error| {
            let shown = error.to_string();
            PatternError {
                message: shown
                    .rsplit_once(": ")
                    .map_or(shown.clone(), |(_, message)| message.to_owned()),
                pattern: text.to_owned(),
                offset: error.offset().unwrap_or(text.len()),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_names() {
        let pattern = Pattern::new(r"^/(?<first>\w+)/(x)?", false).unwrap();
        assert_eq!(pattern.group_count(), 2);
        assert_eq!(pattern.names().collect::<Vec<_>>(), [(1, "first")]);
        let captures = pattern.captures(b"/ab/").unwrap();
        assert_eq!(captures.as_slice(), [Some((0, 4)), Some((1, 3)), None]);
        assert!(pattern.captures(b"ab").is_none());
    }

    #[test]
    fn look_around_falls_back_to_pcre() {
        let pattern = Pattern::new(r"^/(?!static)(.*)$", true).unwrap();
        assert!(matches!(pattern.engine, Engine::Pcre(_)));
        assert!(pattern.is_match(b"/api"));
        assert!(!pattern.is_match(b"/static/x"));
        assert_eq!(pattern.captures(b"/api").unwrap()[1], Some((1, 4)));
    }

    #[test]
    fn a_bad_pattern_says_where() {
        let error = Pattern::new("a(b", false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "pcre2_compile() failed: missing closing parenthesis in \"a(b\""
        );
    }
}
