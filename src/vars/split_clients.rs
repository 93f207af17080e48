//! `split_clients`

use super::Template;

/// `split_clients` table.
#[derive(Debug, Default)]
pub struct SplitClients {}

impl SplitClients {
    /// What is hashed.
    pub fn key(&self) -> &Template {
        todo!()
    }
    /// The value for `key`; None beyond the last part.
    pub fn lookup(&self, _key: &[u8]) -> Option<&[u8]> {
        todo!()
    }
}
