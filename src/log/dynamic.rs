//! Access logs whose path has variables.
//!
//! DIFFERS(log-files): nginx opens and closes such a file for each line unless `open_log_file_cache` is there; here the
//! last few stay open also then, and a look at the name before each line notices a file that was moved away. Mirrors
//! `ngx_http_log_script_write` (`http/modules/ngx_http_log_module.c`) and `core/ngx_open_file_cache.c`.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use super::{access::Place, file::open_append};
use crate::{
    common::{
        clock::{self, Now},
        errno::Errno,
    },
    conf::model::{Level, OpenFileCache},
    vars::{Source, Template},
};

/// What holds without `open_log_file_cache`.
const UNCACHED: OpenFileCache = OpenFileCache {
    max: 32,
    min_uses: 1,
    inactive: Duration::MAX,
    valid: Duration::ZERO,
};

/// The files of one `access_log` in one thread, most recently used last.
#[derive(Debug)]
pub(super) struct Dynamic {
    path: Template,
    /// What relative paths start from.
    prefix: PathBuf,
    known: Vec<Known>,
    scratch: Vec<u8>,
}

/// A file that was written to.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// None: it was not used often enough to stay open.
    file: Option<Rc<File>>,
    uses: usize,
    /// When the file was last seen to have its name.
    checked: Now,
    used: Now,
}

impl Dynamic {
    pub(super) fn new(path: Template, prefix: PathBuf) -> Self {
        Self {
            path,
            prefix,
            known: Vec::new(),
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
        if let Some(root) = place.root {
            root.path.render(source, &mut self.scratch);
            if !root_exists(&self.prefix.join(as_path(&self.scratch)), place) {
                return;
            }
        }
        self.scratch.clear();
        self.path.render(source, &mut self.scratch);
        let path = self.prefix.join(as_path(&self.scratch));
        let report = |level, text: std::fmt::Arguments<'_>| {
            place.error.emit(level, Some(place.conn), text);
        };
        let cache = place.cache.unwrap_or(UNCACHED);
        match self.file(&path, &cache, clock::now()) {
            Ok(file) => {
                if let Err(error) = (&*file).write_all(line) {
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

    /// The file of that name, for one line.
    fn file(&mut self, path: &Path, cache: &OpenFileCache, now: Now) -> io::Result<Rc<File>> {
        self.known
            .retain(|known| now.since(known.used) <= cache.inactive);
        let at = self.known.iter().position(|known| known.path == path);
        let mut known = match at {
            Some(at) => self.known.remove(at),
            None => Known {
                path: path.to_owned(),
                file: None,
                uses: 0,
                checked: now,
                used: now,
            },
        };
        known.uses += 1;
        known.used = now;
        let file = match known.file.take() {
            Some(file) if now.since(known.checked) < cache.valid => file,
            Some(file) if is_named(&file, path) => {
                known.checked = now;
                file
            }
            _ => {
                known.checked = now;
                Rc::new(open_append(path)?)
            }
        };
        let excess = (self.known.len() + 1).saturating_sub(cache.max);
        self.known.drain(..excess.min(self.known.len()));
        known.file = (known.uses >= cache.min_uses).then(|| file.clone());
        self.known.push(known);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn after(secs: u64) -> Now {
        Now::from_millis(secs * 1000)
    }

    #[test]
    fn files_stay_open_as_the_cache_says() {
        let dir = tempfile::tempdir().unwrap();
        let (here, gone) = (dir.path().join("here"), dir.path().join("gone"));
        fs::create_dir(&here).unwrap();
        let mut files = Dynamic::new(Template::default(), PathBuf::new());
        let cache = OpenFileCache {
            max: 3,
            min_uses: 2,
            inactive: Duration::from_secs(20),
            valid: Duration::from_mins(1),
        };
        let mut open = |name: &str, now| files.file(&here.join(name), &cache, after(now)).is_ok();
        for name in ["lru", "lru", "once", "first", "first", "second", "second"] {
            assert!(open(name, 1));
        }
        fs::rename(&here, &gone).unwrap();
        for (name, kept) in [
            ("lru", false),
            ("once", false),
            ("first", true),
            ("second", true),
        ] {
            assert_eq!(open(name, 2), kept, "{name}");
        }
        assert!(open("first", 22) && !open("second", 23));
        for now in [40, 60] {
            assert!(open("first", now));
        }
        assert!(!open("first", 61));
    }
}
