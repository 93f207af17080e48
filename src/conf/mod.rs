//! The configuration language: from text to a validated, immutable [`model`].

pub mod model;
