//! Names that only one test knows: it runs once more, as a process with an `/etc/hosts` of its own.

use std::{
    env, fs,
    process::{Command, Output},
};

use nix::unistd::Uid;

/// Set in the process that has the names.
const INSIDE: &str = "HEADWATER_TEST_HOSTS";
/// Ends with 1 when it may not mount; a test that fails ends with 101.
const SCRIPT: &str = "mount --bind \"$0\" /etc/hosts || exit 1; exec \"$@\"";

/// Runs `body`, the whole of the test `test`, where `hosts` is what the system's resolver reads. Where processes may have no
/// mounts of their own (containers, some systems for users that are not root) the test is skipped, and says so.
///
/// # Panics
/// When the test fails.
pub(crate) fn with_hosts(test: &str, hosts: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hosts");
    fs::write(&file, hosts).unwrap();
    let mut command = Command::new("unshare");
    if !Uid::effective().is_root() {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    command
        .args(["--mount", "sh", "-c", SCRIPT])
        .arg(&file)
        .arg(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1");
    let Ok(Output {
        status,
        stdout,
        stderr,
    }) = command.output()
    else {
        return eprintln!("skipped: no unshare(1)");
    };
    let words = [stdout, stderr].concat();
    let words = String::from_utf8_lossy(&words);
    match status.code() {
        Some(0) => assert!(words.contains("1 passed"), "{test} is no test: {words}"),
        Some(1) => eprintln!("skipped: no mounts of its own: {words}"),
        _ => panic!("{words}"),
    }
}
