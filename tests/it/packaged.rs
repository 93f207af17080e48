//! The configurations that come with the program are valid, for nginx as well.

use std::fs;

use crate::support::compare::check;

/// A file of `conf/`, with `{{dir}}` in the place of the directories that packages make.
fn conf(name: &str) -> String {
    let path = format!("{}/conf/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path)
        .unwrap()
        .replace("/var/log/headwater", "{{dir}}")
        .replace("/run/headwater.pid", "{{dir}}/test.pid")
        .replace("user www-data;", "")
}

#[test]
fn the_default_configuration_is_valid() {
    assert_eq!(check(&conf("headwater.conf")), Some(0));
}

#[test]
fn the_demonstration_is_valid() {
    assert_eq!(check(&conf("demo.conf")), Some(0));
}
