//! `map`

use super::{BoundPattern, Template, pattern::Captures};

/// `map` table.
#[derive(Debug, Default)]
pub struct Map {}

/// What a look-up found.
#[derive(Debug)]
pub struct Hit<'a> {
    /// The value.
    pub value: &'a Template,
    /// The pattern that matched, and what it captured.
    pub captures: Option<(&'a BoundPattern, Captures)>,
}

impl Map {
    /// What is looked up.
    pub fn key(&self) -> &Template {
        todo!()
    }
    /// Whether the value is computed each time.
    pub fn is_volatile(&self) -> bool {
        false
    }
    /// Looks `key` up.
    pub fn lookup(&self, _key: &[u8]) -> Hit<'_> {
        todo!()
    }
}
