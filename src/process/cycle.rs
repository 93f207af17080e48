//! What the master has of one configuration: the model, its logs and its sockets.
//!
//! Mirrors the parts of `ngx_init_cycle` (`core/ngx_cycle.c`) that follow the reading of the files, in their order:
//! a failure leaves an older cycle as it was.

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{pid, sys::User};
use crate::{
    common::errno::Errno,
    conf::model::{Config, Level},
    log::{ErrorSink, Logs},
    net::listen::{self, Listeners},
    tls::Contexts,
};

/// One configuration and what is open for it.
#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) config: Arc<Config>,
    pub(super) logs: Logs,
    pub(super) tls: Contexts,
    pub(super) listeners: Arc<Listeners>,
    pub(super) user: Option<User>,
}

/// What a cycle takes over from the one before.
pub(super) enum Before<'a> {
    /// There is none, and the configuration is only tested (`-t`).
    Test,
    /// There is none; sockets that an older program handed over.
    Start(&'a Listeners),
    /// A reload.
    Cycle(&'a Cycle),
}

impl Cycle {
    /// Opens everything that `config` needs. None: it failed, and `sink` (or already the new error log) has the reason.
    pub(super) fn open(
        config: Config,
        tls: Contexts,
        before: &Before<'_>,
        sink: ErrorSink,
    ) -> Option<Self> {
        let emerg = |message: String| sink.emit(Level::Emerg, None, format_args!("{message}"));
        let main = &config.main;
        if let Some(text) = main.worker_cpu_affinity.warning(main.worker_processes) {
            sink.emit(Level::Warn, None, format_args!("{text}"));
        }
        let user = User::of(&config.main).map_err(emerg).ok()?;
        match before {
            Before::Test => pid::touch(&config.main.pid).map_err(emerg).ok()?,
            Before::Start(_) => {}
            Before::Cycle(old) => {
                let old = &old.config.main.pid;
                if *old != config.main.pid {
                    pid::write(&config.main.pid).map_err(emerg).ok()?;
                    // DIFFERS(pid-alias): nginx removes the file that it has just written.
                    if !pid::is_same(old, &config.main.pid) {
                        pid::remove(old, sink);
                    }
                }
            }
        }
        create_paths(&config, user.as_ref()).map_err(emerg).ok()?;
        let logs = Logs::open(&config).map_err(emerg).ok()?;
        let nothing = Listeners::default();
        let (previous, testing) = match before {
            Before::Test => (&nothing, true),
            Before::Start(inherited) => (*inherited, false),
            Before::Cycle(old) => (&*old.listeners, false),
        };
        let listeners = Listeners::open(
            &listen::all(&config),
            config.main.worker_processes,
            previous,
            testing,
            &mut reporter(logs.main()),
        )?;
        Some(Self {
            config: Arc::new(config),
            logs,
            tls,
            listeners: Arc::new(listeners),
            user,
        })
    }

    /// Writes a line to the main error log.
    pub(super) fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        self.logs.main().emit(level, None, message);
    }
}

/// Sends messages about sockets to `sink`.
pub(super) fn reporter(sink: ErrorSink) -> impl FnMut(Level, fmt::Arguments<'_>) {
    move |level, message| sink.emit(level, None, message)
}

/// Makes the directories of temporary files, for the worker's user. The error is nginx's message.
fn create_paths(config: &Config, user: Option<&User>) -> Result<(), String> {
    let mut paths = BTreeSet::new();
    if let Some(http) = &config.http {
        http.each_location(&mut |location| {
            for temp in [
                &location.core.client_body_temp_path,
                &location.proxy.temp_path,
            ] {
                paths.insert(config.main.prefix.join(&temp.path));
            }
        });
    }
    paths.iter().try_for_each(|path| create_path(path, user))
}

fn create_path(path: &PathBuf, user: Option<&User>) -> Result<(), String> {
    let failed = |call: &str| {
        let (call, shown) = (call.to_owned(), path.display());
        move |error: io::Error| format!("{call} \"{shown}\" failed ({})", Errno(&error))
    };
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("mkdir()")(error));
        }
        _ => {}
    }
    user.map_or(Ok(()), |user| {
        let info = fs::metadata(path).map_err(failed("stat()"))?;
        give_to(path, &info, user)
    })
}

fn give_to(path: &Path, info: &fs::Metadata, user: &User) -> Result<(), String> {
    let (shown, uid) = (path.display(), user.uid.as_raw());
    if info.uid() != uid {
        std::os::unix::fs::chown(path, Some(uid), None)
            .map_err(|error| format!("chown(\"{shown}\", {uid}) failed ({})", Errno(&error)))?;
    }
    let mode = info.permissions().mode();
    if mode & 0o700 != 0o700 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o700))
            .map_err(|error| format!("chmod() \"{shown}\" failed ({})", Errno(&error)))?;
    }
    Ok(())
}
