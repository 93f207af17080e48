//! `geo`

use super::Template;
use crate::common::addr::Addr;

/// `geo` table.
#[derive(Debug, Default)]
pub struct Geo {}

impl Geo {
    /// The variable whose value is looked up; None: the client's address.
    pub fn variable(&self) -> Option<&Template> {
        None
    }
    /// Whether the value is computed each time.
    pub fn is_volatile(&self) -> bool {
        false
    }
    /// Looks an address up; `forwarded` is `X-Forwarded-For`, used where the address is one of a trusted proxy.
    pub fn lookup(&self, _addr: Option<&Addr>, _forwarded: &[u8]) -> &[u8] {
        todo!()
    }
}
