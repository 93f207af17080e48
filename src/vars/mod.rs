//! Variables: their names, templates such as `"$scheme://$host"` compiled once, patterns, and the lookup tables
//! behind `map`, `geo` and `split_clients`.
//!
//! Pure: a template or a table asks a [`Source`] for the variables it needs and knows nothing of requests.
//! Mirrors `http/ngx_http_variables.c` and `http/ngx_http_script.c`.

pub mod geo;
pub mod id;
pub mod map;
pub mod pattern;
pub mod slots;
pub mod split_clients;
pub mod template;

pub use id::VarId;
pub use pattern::Pattern;
pub use slots::{Slot, SlotSource, Slots};
pub use template::{Part, Template};

/// Where a template finds the values of its variables: a request, a stream session, a test.
pub trait Source {
    /// Appends the value of `id` to `out`; false when the variable is not found (its text is then empty, and
    /// a log shows `-`).
    fn value(&mut self, id: &VarId, out: &mut Vec<u8>) -> bool;
}

/// Index of a variable that a configuration defines (`set`, `map`, `geo`, `split_clients`, a named capture).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(pub u32);

/// A pattern whose named groups are variables of the configuration.
#[derive(Clone, Debug)]
pub struct BoundPattern {
    /// The pattern.
    pub pattern: Pattern,
    /// Which group goes to which variable.
    pub slots: Vec<(usize, SlotId)>,
}
