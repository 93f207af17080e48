//! Temporary files for bodies that do not fit in memory.
//!
//! Mirrors `core/ngx_file.c`: a number of ten digits below the configured directory and its levels.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::conf::model::TempPath;

/// A temporary file that was just made.
#[derive(Debug)]
pub(super) struct TempFile {
    /// Open for reading and writing.
    pub file: File,
    /// Its path; the file is gone already unless it was to be kept.
    pub path: PathBuf,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Makes a file below `dir`, which is relative to `prefix` unless absolute. Unless `keep` is set, its name is removed at
/// once and it lives as long as it is open.
pub(super) fn create(dir: &TempPath, prefix: &Path, keep: bool) -> io::Result<TempFile> {
    loop {
        let number = format!("{:010}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut path = prefix.join(&dir.path);
        let mut end = number.len();
        for digits in dir
            .levels
            .iter()
            .map(|n| usize::from(*n))
            .take_while(|n| *n > 0 && *n <= 10)
        {
            let start = end.saturating_sub(digits);
            path.push(number.get(start..end).unwrap_or("0"));
            end = start;
        }
        path.push(&number);
        match open(&path) {
            Ok(file) => {
                if !keep {
                    std::fs::remove_file(&path)?;
                }
                return Ok(TempFile { file, path });
            }
            // Another process's file: the next number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let new = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
    };
    match new() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            new()
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_make_directories() {
        let dir = tempfile::tempdir().unwrap();
        let temp = TempPath {
            path: Path::new("body").into(),
            levels: [1, 2, 0],
        };
        let made = create(&temp, dir.path(), true).unwrap();
        let below: Vec<_> = made
            .path
            .strip_prefix(dir.path().join("body"))
            .unwrap()
            .iter()
            .map(std::ffi::OsStr::len)
            .collect();
        assert_eq!(below, [1, 2, 10]);
        assert!(made.path.exists());
        assert!(!create(&temp, dir.path(), false).unwrap().path.exists());
    }
}
