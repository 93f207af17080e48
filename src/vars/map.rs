//! `map`: a value for a text, by exact name, host name with wildcard, or pattern.
//!
//! Names are found in any case: first exact ones, then `*.example.com` and `.example.com` (the longest), then `www.example.*`
//! (the longest), then patterns in order. Mirrors `ngx_http_map_find` (`http/ngx_http_variables.c`) and the keys of
//! `core/ngx_hash.c`.

use smallvec::SmallVec;

use super::{BoundPattern, Template, pattern::Captures};
use crate::common::hash::FnvMap;

/// `map` table.
#[derive(Debug, Default)]
pub struct Map {
    key: Template,
    default: Option<Template>,
    exact: FnvMap<Box<[u8]>, Template>,
    /// `*.example.com` and `.example.com` by `example.com`.
    suffixes: FnvMap<Box<[u8]>, Suffix>,
    /// `www.example.*` by `www.example`.
    prefixes: FnvMap<Box<[u8]>, Template>,
    patterns: Vec<(BoundPattern, Template)>,
    hostnames: bool,
    volatile: bool,
}

#[derive(Debug)]
struct Suffix {
    value: Template,
    /// Whether the name without anything before it is meant too.
    bare: bool,
}

/// What a lookup found.
#[derive(Debug)]
pub struct Hit<'a> {
    /// The value; empty when there is no default.
    pub value: &'a Template,
    /// The pattern that matched, and where in the key its groups did.
    pub captures: Option<(&'a BoundPattern, Captures)>,
}

/// Why a name cannot be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// `invalid hostname or wildcard`
    Invalid,
    /// `conflicting parameter`; the name as it is compared.
    Conflicting(Vec<u8>),
}

impl Map {
    /// An empty table for the value of `key`.
    pub fn new(key: Template) -> Self {
        Self {
            key,
            ..Self::default()
        }
    }

    /// The text whose value is looked up.
    pub fn key(&self) -> &Template {
        &self.key
    }

    /// Whether the value is computed anew each time it is used.
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }

    /// `volatile`
    pub fn set_volatile(&mut self) {
        self.volatile = true;
    }

    /// `hostnames`: names that follow may have wildcards.
    pub fn set_hostnames(&mut self) {
        self.hostnames = true;
    }

    /// Sets the default; false when there is one.
    pub fn set_default(&mut self, value: Template) -> bool {
        let is_first = self.default.is_none();
        self.default.get_or_insert(value);
        is_first
    }

    /// Adds a pattern; they are tried in this order.
    pub fn add_pattern(&mut self, pattern: BoundPattern, value: Template) {
        self.patterns.push((pattern, value));
    }

    /// Adds a name.
    pub fn add(&mut self, name: &[u8], value: Template) -> Result<(), KeyError> {
        let lower = name.to_ascii_lowercase();
        let kind = if self.hostnames {
            kind_of(name)?
        } else {
            Kind::Exact
        };
        let (cut, is_free) = match kind {
            Kind::Exact => {
                let suffix = self.suffixes.get(&*lower);
                let is_free = !self.exact.contains_key(&*lower) && !suffix.is_some_and(|s| s.bare);
                (&*lower, is_free)
            }
            Kind::Suffix { bare } => {
                let cut = &lower[if bare { 1 } else { 2 }..];
                let is_free =
                    !(self.suffixes.contains_key(cut) || bare && self.exact.contains_key(cut));
                (cut, is_free)
            }
            Kind::Prefix => {
                let cut = &lower[..lower.len() - 2];
                (cut, !self.prefixes.contains_key(cut))
            }
        };
        if !is_free {
            return Err(KeyError::Conflicting(lower));
        }
        match kind {
            Kind::Exact => {
                self.exact.insert(cut.into(), value);
            }
            Kind::Suffix { bare } => {
                self.suffixes.insert(cut.into(), Suffix { value, bare });
            }
            Kind::Prefix => {
                self.prefixes.insert(cut.into(), value);
            }
        }
        Ok(())
    }

    /// The value for `key`.
    pub fn lookup(&self, key: &[u8]) -> Hit<'_> {
        let key = match key {
            [name @ .., b'.'] if self.hostnames => name,
            key => key,
        };
        if let Some(value) = self.find_name(key) {
            return Hit {
                value,
                captures: None,
            };
        }
        if !key.is_empty() {
            for (pattern, value) in &self.patterns {
                if let Some(captures) = pattern.pattern.captures(key) {
                    return Hit {
                        value,
                        captures: Some((pattern, captures)),
                    };
                }
            }
        }
        Hit {
            value: self.default.as_ref().unwrap_or(&NOTHING),
            captures: None,
        }
    }

    fn find_name(&self, key: &[u8]) -> Option<&Template> {
        let mut lower: SmallVec<[u8; 64]> = key.into();
        lower.make_ascii_lowercase();
        let lower = &*lower;
        if let Some(value) = self.exact.get(lower) {
            return Some(value);
        }
        if !self.suffixes.is_empty() {
            let bare = self.suffixes.get(lower).filter(|suffix| suffix.bare);
            let mut dots = memchr::memchr_iter(b'.', lower);
            let found = bare.or_else(|| dots.find_map(|dot| self.suffixes.get(&lower[dot + 1..])));
            if let Some(suffix) = found {
                return Some(&suffix.value);
            }
        }
        if self.prefixes.is_empty() {
            return None;
        }
        memchr::memrchr_iter(b'.', lower).find_map(|dot| self.prefixes.get(&lower[..dot]))
    }
}

static NOTHING: std::sync::LazyLock<Template> = std::sync::LazyLock::new(Template::default);

#[derive(Clone, Copy)]
enum Kind {
    Exact,
    Suffix { bare: bool },
    Prefix,
}

/// What kind of host name this is.
fn kind_of(name: &[u8]) -> Result<Kind, KeyError> {
    let stars = memchr::memchr_iter(b'*', name).count();
    if stars > 1 || name.windows(2).any(|pair| pair == b"..") || name.contains(&0) {
        return Err(KeyError::Invalid);
    }
    match name {
        [b'.', _, ..] => Ok(Kind::Suffix { bare: true }),
        [b'*', b'.', _, ..] => Ok(Kind::Suffix { bare: false }),
        [_, .., b'.', b'*'] => Ok(Kind::Prefix),
        _ if stars > 0 => Err(KeyError::Invalid),
        _ => Ok(Kind::Exact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vars::Pattern;

    fn map(hostnames: bool, names: &[&str]) -> Map {
        let mut map = Map::new(Template::default());
        if hostnames {
            map.set_hostnames();
        }
        for name in names {
            map.add(name.as_bytes(), Template::literal(name.as_bytes()))
                .unwrap();
        }
        map
    }

    fn find<'a>(map: &'a Map, key: &str) -> &'a str {
        let value = map.lookup(key.as_bytes()).value.as_literal().unwrap();
        std::str::from_utf8(value).unwrap()
    }

    #[test]
    fn names_in_any_case() {
        let map = map(false, &["Abc", "", "*.x", "a.b"]);
        for (key, expected) in [
            ("aBC", "Abc"),
            ("", ""),
            ("*.x", "*.x"),
            ("y.x", ""),
            ("a.b.", ""),
        ] {
            assert_eq!(find(&map, key), expected, "{key}");
        }
    }

    #[test]
    fn host_names_from_exact_to_prefix() {
        let names = [
            "example.com",
            "*.example.com",
            "*.a.example.com",
            ".example.org",
            "www.example.*",
            "www.*",
            "*.org",
        ];
        let map = map(true, &names);
        for (key, expected) in [
            ("EXAMPLE.com", "example.com"),
            ("example.com.", "example.com"),
            ("x.example.com", "*.example.com"),
            (".example.com", "*.example.com"),
            ("a.example.com", "*.example.com"),
            ("b.a.example.com", "*.a.example.com"),
            ("example.org", ".example.org"),
            ("a.b.example.org", ".example.org"),
            ("other.org", "*.org"),
            ("org", ""),
            ("www.example.net", "www.example.*"),
            ("www.example.co.uk", "www.example.*"),
            ("www.other.net", "www.*"),
            ("www.example.org", ".example.org"),
            ("www", ""),
            ("", ""),
        ] {
            assert_eq!(find(&map, key), expected, "{key}");
        }
    }

    #[test]
    fn bad_and_conflicting_names() {
        let mut map = map(true, &["a.com", ".b.com", "*.c.com", "d.*"]);
        let conflict = |name: &str| Err(KeyError::Conflicting(name.into()));
        for (name, expected) in [
            ("*", Err(KeyError::Invalid)),
            ("a*.com", Err(KeyError::Invalid)),
            ("*.a.*", Err(KeyError::Invalid)),
            ("a..com", Err(KeyError::Invalid)),
            ("A.com", conflict("a.com")),
            (".a.com", conflict(".a.com")),
            ("b.com", conflict("b.com")),
            ("*.b.com", conflict("*.b.com")),
            (".C.com", conflict(".c.com")),
            ("D.*", conflict("d.*")),
            ("*.a.com", Ok(())),
            ("c.com", Ok(())),
        ] {
            assert_eq!(
                map.add(name.as_bytes(), Template::default()),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn patterns_after_names_and_never_for_nothing() {
        let mut map = map(false, &["abc"]);
        assert!(map.set_default(Template::literal(b"default")));
        assert!(!map.set_default(Template::literal(b"again")));
        for (text, value) in [("^(a.)", "first"), (".*", "second")] {
            let pattern = BoundPattern {
                pattern: Pattern::new(text, false).unwrap(),
                slots: Vec::new(),
            };
            map.add_pattern(pattern, Template::literal(value.as_bytes()));
        }
        assert_eq!(find(&map, "abc"), "abc");
        assert_eq!(find(&map, "abd"), "first");
        assert_eq!(find(&map, "Abd"), "second");
        assert_eq!(find(&map, ""), "default");
        let captures = map.lookup(b"abd").captures.unwrap().1;
        assert_eq!(captures.as_slice(), [Some((0, 2)), Some((0, 2))]);
    }

    proptest::proptest! {
        #[test]
        fn any_name_is_found_or_refused(names in proptest::collection::vec("[ab*.]{0,6}", 0..8), key in "[ab.]{0,8}") {
            let mut map = map(true, &[]);
            let mut added = Vec::new();
            for name in &names {
                if map.add(name.as_bytes(), Template::literal(name.as_bytes())).is_ok() {
                    added.push(name.as_str());
                }
            }
            let key_name = key.strip_suffix('.').unwrap_or(&key);
            let found = find(&map, &key);
            if added.contains(&key_name) && !key_name.starts_with('.') {
                proptest::prop_assert_eq!(found, key_name);
            }
            proptest::prop_assert!(found.is_empty() || added.contains(&found));
        }
    }
}
