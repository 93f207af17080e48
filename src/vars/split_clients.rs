//! `split_clients`

/// `split_clients` table.
#[derive(Debug, Default)]
pub struct SplitClients {}
