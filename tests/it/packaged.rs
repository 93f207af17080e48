//! What an operator finds: the help, and configurations that are valid, for nginx as well.

use std::{fs, process::Command};

use crate::support::{
    Subject,
    compare::{check, oracle},
    subject::Program,
};

/// A file of `conf/`, with `{{dir}}` in the place of the directories that packages make.
fn conf(name: &str) -> String {
    let path = format!("{}/conf/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path)
        .unwrap()
        .replace("/var/log/headwater", "{{dir}}")
        .replace("/run/headwater.pid", "{{dir}}/test.pid")
        .replace("user headwater;", "")
}

#[test]
fn the_default_configuration_is_valid() {
    assert_eq!(check(&conf("headwater.conf")), Some(0));
}

#[test]
fn the_demonstration_is_valid() {
    assert_eq!(check(&conf("demo.conf")), Some(0));
}

/// The help, in nginx's way and in everyone else's; nginx does not know the latter.
#[test]
fn help_and_version() {
    let ours = |arguments: &[&str]| Subject::new(Program::Headwater, "").check(arguments);
    let (code, help) = ours(&["--help"]);
    assert_eq!((code, &*help), (Some(0), &*ours(&["-h"]).1));
    assert!(help.contains("\n  -t            : "), "{help}");
    let version = ours(&["--version"]);
    assert_eq!(version, ours(&["-v"]));
    assert_eq!(version.0, Some(0));
    if let Some(nginx) = oracle() {
        let nginx = Subject::new(Program::Nginx(nginx), "").check(&["--help"]);
        let text = "nginx: invalid option: \"-\"\n".to_owned();
        assert_eq!(nginx, (Some(1), text));
    }
}

/// The formatter of manual pages has nothing to say about ours.
#[test]
fn manual_pages_have_no_mistakes() {
    for page in ["headwater.8", "headwater.conf.5"] {
        let file = format!("{}/man/{page}", env!("CARGO_MANIFEST_DIR"));
        let mut man = Command::new("man");
        man.args(["--warnings", "-l", &file])
            .env("LC_ALL", "C.UTF-8");
        let Ok(output) = man.output() else {
            eprintln!("skipped: no man");
            return;
        };
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && words.is_empty(),
            "{page}: {words}"
        );
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("SEE ALSO"), "{page} is whole");
    }
}
