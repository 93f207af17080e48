//! The environment of workers, and of a new binary: what `env` lists, and `TZ`.
//!
//! Mirrors `ngx_set_environment` (`core/nginx.c`). The master keeps what it was started with, so that a later
//! configuration may list other names.

use std::{env, ffi::OsString, os::unix::ffi::OsStrExt as _};

use super::sys;
use crate::{common::clock, conf::model::Main};

/// A variable and its value.
pub(super) type Variable = (OsString, OsString);

/// What `main` lets through of this process's environment, and what it sets itself.
pub(super) fn listed(main: &Main) -> Vec<Variable> {
    select(main, env::vars_os())
}

fn select(main: &Main, inherited: impl Iterator<Item = Variable>) -> Vec<Variable> {
    let inherited: Vec<_> = inherited.collect();
    let inherit = |name: &str| {
        let found = inherited.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let names_zone = main.env.iter().any(|(name, _)| name == "TZ");
    let zone = (!names_zone).then(|| ("TZ".to_owned(), None));
    let mut selected: Vec<Variable> = Vec::new();
    for (name, value) in main.env.iter().chain(&zone) {
        let value = value.clone().map(OsString::from).or_else(|| inherit(name));
        // Of lines with the same name the first one counts, as for getenv().
        let is_text =
            !name.contains('\0') && value.as_ref().is_some_and(|v| !v.as_bytes().contains(&0));
        let is_new =
            is_text && !name.is_empty() && !selected.iter().any(|(known, _)| known == &**name);
        if let (Some(value), true) = (value, is_new) {
            selected.push((name.into(), value));
        }
    }
    selected
}

/// Leaves this process, which is about to serve, no more than [`listed`]. It has one thread.
// DIFFERS(env-zone): with nginx a `TZ` that is set here is used from the first reload on, or never, as its C library has it.
pub(super) fn restrict(main: &Main) {
    sys::replace_environment(&listed(main));
    clock::reset_zone();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf;

    #[test]
    fn what_is_listed_and_the_zone() {
        let variable = |(name, value): (&str, &str)| (OsString::from(name), OsString::from(value));
        let selected = |text: &str| {
            let main = conf::check(text.as_bytes()).unwrap().main;
            select(
                &main,
                [("TZ", "UTC"), ("A", "1"), ("B", "2"), ("AB", "3")]
                    .map(variable)
                    .into_iter(),
            )
        };
        assert_eq!(selected("events { }"), [("TZ", "UTC")].map(variable));
        assert_eq!(
            selected("env A; env NONE; env B=x=y; env A=2; env C=; env =z; events { }"),
            [("A", "1"), ("B", "x=y"), ("C", ""), ("TZ", "UTC")].map(variable)
        );
        assert_eq!(
            selected("env TZ=JST-9; events { }"),
            [("TZ", "JST-9")].map(variable)
        );
    }
}
