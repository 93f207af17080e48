//! `geo`

/// `geo` table.
#[derive(Debug, Default)]
pub struct Geo {}
