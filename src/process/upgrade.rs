//! USR2: the binary at our path is started beside us, with our sockets and what we know of the peers.
//!
//! Mirrors `ngx_exec_new_binary` (`core/nginx.c`). The pid file is renamed to `.oldbin` meanwhile, and back when the new
//! binary ends before us.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::Pid;

use super::{
    Startup,
    cycle::Cycle,
    environment,
    inherit::{self, state_file},
};
use crate::{
    common::errno::Errno,
    conf::model::{Level, Main},
    log::ErrorSink,
};

/// Variables by which a service manager knows us; nginx has no use for them.
const MANAGER: [&str; 2] = ["NOTIFY_SOCKET", "WATCHDOG_USEC"];

/// Starts the new binary. None: it did not start, which is logged, and everything is as it was.
pub(super) fn start(cycle: &Cycle, startup: &Startup, snapshot: Option<&str>) -> Option<Pid> {
    let (pid, old) = paths(&cycle.config.main);
    let (binary, sink) = (&startup.binary, cycle.logs.main());
    let shown = binary.display();
    if let Err(error) = fs::rename(pid, &old) {
        let what = format!("before executing new binary process \"{shown}\"");
        rename_failed(sink, [pid, &old], "", &what, &error);
        return None;
    }
    match spawn(cycle, startup, snapshot) {
        Ok(child) => {
            cycle.log(
                Level::Notice,
                format_args!("start new binary process {child}"),
            );
            Some(child)
        }
        Err(error) => {
            cycle.log(
                Level::Alert,
                format_args!(
                    "execve() failed while executing new binary process \"{shown}\" ({})",
                    Errno(&error)
                ),
            );
            let what = format!("after an attempt to execute new binary process \"{shown}\"");
            rename_back(cycle, &what);
            None
        }
    }
}

/// The new binary has ended: the pid file is ours again.
pub(super) fn ended(cycle: &Cycle, startup: &Startup) {
    let what = format!(
        "after the new binary process \"{}\" exited",
        startup.binary.display()
    );
    rename_back(cycle, &what);
}

/// Where the old binary's id is while there is a new one.
pub(super) fn old_pid(main: &Main) -> PathBuf {
    paths(main).1
}

fn paths(main: &Main) -> (&Path, PathBuf) {
    let mut old = OsString::from(&main.pid);
    old.push(".oldbin");
    (&main.pid, old.into())
}

fn rename_back(cycle: &Cycle, what: &str) {
    let (pid, old) = paths(&cycle.config.main);
    if let Err(error) = fs::rename(&old, pid) {
        rename_failed(cycle.logs.main(), [&old, pid], " back", what, &error);
    }
}

fn rename_failed(sink: ErrorSink, paths: [&Path; 2], back: &str, what: &str, error: &io::Error) {
    let [from, to] = paths.map(Path::display);
    sink.emit(
        Level::Alert,
        None,
        format_args!(
            "rename() {from}{back} to {to} failed {what} ({})",
            Errno(error)
        ),
    );
}

fn spawn(cycle: &Cycle, startup: &Startup, snapshot: Option<&str>) -> io::Result<Pid> {
    let mut args = startup.args.iter();
    let mut command = Command::new(&startup.binary);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    let state = snapshot.and_then(state_file);
    let sockets = cycle.listeners.fds();
    let sockets: Vec<String> = sockets.iter().map(|fd| format!("{fd};")).collect();
    command
        .args(args)
        .env_clear()
        .envs(
            MANAGER
                .iter()
                .filter_map(|name| Some((name, env::var_os(name)?))),
        )
        .envs(environment::listed(&cycle.config.main))
        .env(inherit::SOCKETS, sockets.concat())
        .envs(
            state
                .iter()
                .map(|(_, number)| (inherit::STATE, number.to_string())),
        );
    cycle.listeners.set_inheritable(true)?;
    let child = command.spawn();
    cycle.listeners.set_inheritable(false)?;
    let child = child?.id();
    Ok(Pid::from_raw(child.cast_signed()))
}
