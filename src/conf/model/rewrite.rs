//! The rewrite module's directives, compiled to a small tree.

use std::sync::Arc;

use super::Location;
use crate::vars::{BoundPattern, Template, VarId};

/// One step of a block's rewrite directives, run in order.
#[derive(Clone, Debug)]
pub enum Op {
    /// `set`
    Set {
        /// A slot, `$args` or `$limit_rate`.
        target: VarId,
        /// The value.
        value: Template,
    },
    /// `if`
    If(Box<If>),
    /// `rewrite`
    Rewrite(Box<Rewrite>),
    /// `return`
    Return {
        /// The status, 0 to 999.
        status: u16,
        /// Body, or the address for 301, 302, 303, 307 and 308.
        text: Option<Template>,
    },
    /// `break`
    Break,
}

/// `if (condition) { ... }`
#[derive(Clone, Debug)]
pub struct If {
    /// What must hold.
    pub condition: Condition,
    /// Rewrite directives inside.
    pub ops: Vec<Op>,
    /// The settings that hold inside: those of the block around it and its own.
    pub location: Arc<Location>,
}

/// Condition of an `if`.
#[derive(Clone, Debug)]
pub enum Condition {
    /// `($x)`: neither empty nor `0`.
    Truth(VarId),
    /// `($x = text)`
    Equal {
        /// Left side.
        var: VarId,
        /// Right side.
        value: Template,
        /// `!=`
        negate: bool,
    },
    /// `($x ~ pattern)`
    Match {
        /// Left side.
        var: VarId,
        /// Right side.
        pattern: BoundPattern,
        /// `!~`
        negate: bool,
    },
    /// `(-f path)` and the like.
    File {
        /// The path.
        path: Template,
        /// What is asked of it.
        test: FileTest,
        /// `!-f`
        negate: bool,
    },
}

/// Test of a path in an `if`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTest {
    /// `-f`
    File,
    /// `-d`
    Directory,
    /// `-e`
    Exists,
    /// `-x`
    Executable,
}

/// `rewrite pattern replacement [flag]`
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// Matched against the URI.
    pub pattern: BoundPattern,
    /// The new URI or, for a redirect, address; a trailing `?` is taken off.
    pub replacement: Template,
    /// Whether the request's arguments are appended (no trailing `?` in the replacement).
    pub add_args: bool,
    /// What happens then.
    pub flag: RewriteFlag,
}

/// Last argument of `rewrite`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteFlag {
    /// None: go on with the next directive.
    Next,
    /// `last`
    Last,
    /// `break`
    Break,
    /// `redirect`, or a replacement that begins with `http://`, `https://` or `$scheme`: 302.
    Redirect,
    /// `permanent`: 301.
    Permanent,
}
