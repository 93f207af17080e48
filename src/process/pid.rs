//! The pid file.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use crate::{common::errno::Errno, conf::model::Level, log::ErrorSink};

/// Writes this process's id. The error is nginx's message.
pub(super) fn write(path: &Path) -> Result<(), String> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(|error| failed("open()", path, &error))?;
    writeln!(file, "{}", std::process::id()).map_err(|error| failed("write()", path, &error))
}

/// Tests that it can be written, and leaves its content (`-t`). The error is nginx's message.
pub(super) fn touch(path: &Path) -> Result<(), String> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map(drop)
        .map_err(|error| failed("open()", path, &error))
}

/// The id of the running master. The error is nginx's message.
pub(super) fn read(path: &Path) -> Result<i32, String> {
    let text = fs::read_to_string(path).map_err(|error| failed("open()", path, &error))?;
    let number = text.trim_end_matches(['\r', '\n']);
    number
        .parse()
        .map_err(|_| format!("invalid PID number \"{number}\" in \"{}\"", path.display()))
}

/// Whether both are names of one file, as of one in `/run` and in `/var/run`.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::canonicalize(path).ok();
    place(one).is_some_and(|one| place(other) == Some(one))
}

/// Removes it at the end.
pub(super) fn remove(path: &Path, sink: ErrorSink) {
    if let Err(error) = fs::remove_file(path) {
        let message = failed("unlink()", path, &error);
        sink.emit(Level::Alert, None, format_args!("{message}"));
    }
}

fn failed(call: &str, path: &Path, error: &io::Error) -> String {
    format!("{call} \"{}\" failed ({})", path.display(), Errno(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_read_and_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nginx.pid");
        let missing = read(&path).unwrap_err();
        assert!(
            missing.starts_with("open() \"")
                && missing.ends_with("\" failed (2: No such file or directory)")
        );
        write(&path).unwrap();
        assert_eq!(read(&path).unwrap().unsigned_abs(), std::process::id());
        touch(&path).unwrap();
        assert!(read(&path).is_ok());
        fs::write(&path, "x\n").unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .starts_with("invalid PID number \"x\" in \"")
        );
    }
}
