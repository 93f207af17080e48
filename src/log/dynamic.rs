//! Access logs whose path has variables.
//!
//! nginx opens and closes such a file for each line unless `open_log_file_cache` is there; here the last few stay
//! open, and a look at the name before each line notices a file that was moved away. Mirrors
//! `ngx_http_log_script_write` (`http/modules/ngx_http_log_module.c`).

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::{access::Place, file::open_append};
use crate::{
    common::errno::Errno,
    conf::model::Level,
    vars::{Source, Template},
};

/// How many files a thread keeps open for one `access_log`.
const KEPT: usize = 32;

/// The files of one `access_log`, most recently used last.
#[derive(Debug)]
pub(super) struct Dynamic {
    path: Template,
    /// What relative paths start from.
    prefix: PathBuf,
    open: Vec<(PathBuf, File)>,
    scratch: Vec<u8>,
}

impl Dynamic {
    pub(super) fn new(path: Template, prefix: PathBuf) -> Self {
        Self {
            path,
            prefix,
            open: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Appends `line` to the file that the path is for this request. Failures are lines of the error log.
    pub(super) fn write<S: Source + ?Sized>(
        &mut self,
        source: &mut S,
        line: &[u8],
        place: Place<'_>,
    ) {
        self.scratch.clear();
        place.root.path.render(source, &mut self.scratch);
        if !root_exists(&self.prefix.join(as_path(&self.scratch)), place) {
            return;
        }
        self.scratch.clear();
        self.path.render(source, &mut self.scratch);
        let path = self.prefix.join(as_path(&self.scratch));
        let report = |level, text: std::fmt::Arguments<'_>| {
            place.error.emit(level, Some(place.conn), text);
        };
        match self.file(&path) {
            Ok(file) => {
                if let Err(error) = file.write_all(line) {
                    let (path, error) = (path.display(), Errno(&error));
                    report(
                        Level::Alert,
                        format_args!("write() to \"{path}\" failed ({error})"),
                    );
                }
            }
            Err(error) => {
                let (path, error) = (path.display(), Errno(&error));
                report(
                    Level::Crit,
                    format_args!("open() \"{path}\" failed ({error})"),
                );
            }
        }
    }

    fn file(&mut self, path: &Path) -> io::Result<&mut File> {
        let kept = self.open.iter().position(|(name, _)| name == path);
        let entry = match kept.map(|at| self.open.remove(at)) {
            Some((name, file)) if is_named(&file, path) => (name, file),
            _ => (path.to_owned(), open_append(path)?),
        };
        if self.open.len() >= KEPT {
            self.open.remove(0);
        }
        self.open.push(entry);
        let (_, file) = self.open.last_mut().expect("one was just put there");
        Ok(file)
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Whether `path` is still the name of `file`.
fn is_named(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// A request may not make files appear by its path alone: nginx wants the root to be a directory.
fn root_exists(root: &Path, place: Place<'_>) -> bool {
    let error = match fs::metadata(root) {
        Ok(info) if info.is_dir() => return true,
        // ENOTDIR
        Ok(_) => io::Error::from_raw_os_error(20),
        Err(error) => error,
    };
    let (root, error) = (root.display(), Errno(&error));
    place.error.emit(
        Level::Error,
        Some(place.conn),
        format_args!("testing \"{root}\" existence failed ({error})"),
    );
    false
}
