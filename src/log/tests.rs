//! Tests of the logs: files, syslog, reopening.

use std::fs;

use super::*;
use crate::conf::model::ErrorLog;

fn file_log(path: &Path, level: Level) -> ErrorLog {
    ErrorLog {
        target: LogTarget::File(path.into()),
        level,
    }
}

fn new(main: &[ErrorLog]) -> Result<Logs, String> {
    Logs::new(main, Path::new("/"))
}

#[test]
fn lines_go_where_their_level_says() {
    let dir = tempfile::tempdir().unwrap();
    let (all, errors) = (dir.path().join("all"), dir.path().join("errors"));
    let logs = new(&[file_log(&errors, Level::Error), file_log(&all, Level::Info)]).unwrap();
    let sink = logs.main();
    assert!(sink.enabled(Level::Info) && !sink.enabled(Level::Debug));
    sink.emit(Level::Error, Some(7), format_args!("bad {}", 1));
    sink.emit(Level::Notice, None, format_args!("start"));
    sink.emit(Level::Debug, None, format_args!("not at all"));
    sink.emit(Level::Error, None, format_args!("{}", "ä".repeat(2000)));
    logs.start();
    sink.emit(Level::Info, None, format_args!("by a thread"));
    logs.flush();
    let errors = fs::read_to_string(errors).unwrap();
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    let pid = std::process::id();
    assert!(lines[0].contains(&format!(" [error] {pid}#")), "{errors}");
    assert!(lines[0].ends_with(": *7 bad 1"), "{errors}");
    assert!((2046..2048).contains(&lines[1].len()));
    let all = fs::read_to_string(all).unwrap();
    assert_eq!(all.lines().count(), 4, "{all}");
    assert!(all.ends_with(": by a thread\n"), "{all}");
}

#[test]
fn reopening_follows_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("error.log"), dir.path().join("old.log"));
    let logs = new(&[file_log(&path, Level::Info)]).unwrap();
    logs.start();
    logs.main().emit(Level::Info, None, format_args!("one"));
    fs::rename(&path, &moved).unwrap();
    logs.reopen(None);
    logs.main().emit(Level::Info, None, format_args!("two"));
    logs.flush();
    assert!(fs::read_to_string(moved).unwrap().ends_with(" one\n"));
    assert!(fs::read_to_string(path).unwrap().ends_with(" two\n"));
}

#[test]
fn a_file_that_does_not_open_has_nginx_s_message() {
    let missing = Path::new("/nowhere/error.log");
    let message = new(&[file_log(missing, Level::Info)]).unwrap_err();
    assert_eq!(
        message,
        "open() \"/nowhere/error.log\" failed (2: No such file or directory)"
    );
    let (logs, failure) = Logs::startup(Some(missing), false);
    assert_eq!(failure, Some(message));
    assert!(logs.main().enabled(Level::Notice));
}
