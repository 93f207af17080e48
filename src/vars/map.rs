//! `map`

/// `map` table.
#[derive(Debug, Default)]
pub struct Map {}
