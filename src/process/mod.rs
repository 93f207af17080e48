//! The process: master and worker, signals, the pid file, privileges.
//!
//! The master reads configurations, opens everything as whoever started it, and forks one worker process a
//! generation; it has a single thread and serves nobody. Mirrors `os/unix/ngx_process_cycle.c`.

mod control;
mod cycle;
mod environment;
mod inherit;
mod launch;
mod master;
mod notify;
mod pid;
mod signals;
mod sys;
mod title;
mod upgrade;
mod worker;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use nix::{sys::signal::Signal, unistd::Pid};

use crate::{
    common::errno::Errno,
    conf::{
        LoadOptions,
        model::{Config, Level},
    },
    log::{self, Logs},
    tls::Contexts,
};
use cycle::{Before, Cycle};
pub use inherit::Inherited;
use launch::Launch;

/// How the program was started.
#[derive(Clone, Debug)]
pub struct Startup {
    /// Where the configuration is, for reloads.
    pub options: LoadOptions,
    /// The log until a configuration says where to.
    pub logs: Logs,
    /// The command line.
    pub args: Vec<String>,
    /// The program's file, for a new binary.
    pub binary: PathBuf,
}

/// What a process begins with besides its configuration.
#[derive(Debug)]
struct Start {
    /// What an older binary knew of the peers.
    snapshot: Option<String>,
    /// An older binary started this one.
    is_upgrade: bool,
    launch: Launch,
}

/// The program's file: the name by which it was called where that is a path, so that a new binary in its place is found.
pub fn binary(args: &[String]) -> PathBuf {
    let called = args.first().filter(|name| name.contains('/'));
    let running = || std::env::current_exe().unwrap_or_default();
    called.map_or_else(running, PathBuf::from)
}

/// Prepares the process for titles in `ps`. First of all, and never again may anybody look at the arguments.
pub fn claim_title() {
    title::claim();
}

/// Logs that the program cannot go on.
pub fn emerg(logs: &Logs, message: &str) {
    logs.main()
        .emit(Level::Emerg, None, format_args!("{message}"));
}

/// Logs the warnings of a configuration.
pub fn warn(logs: &Logs, warnings: &[String]) {
    for warning in warnings {
        logs.main()
            .emit(Level::Warn, None, format_args!("{warning}"));
    }
}

/// Opens and closes everything that `config` names (`-t`); None: something failed, which is logged.
pub fn test(config: Config, tls: Contexts, logs: &Logs) -> Option<Arc<Config>> {
    Cycle::open(config, tls, &Before::Test, logs.main()).map(|cycle| cycle.config)
}

/// Sends the master whose number is in the file `pid` the signal that a word of `-s` stands for; false when it failed,
/// which is logged.
pub fn send_signal(word: &str, pid: &Path, logs: &Logs) -> bool {
    let log = logs.main();
    log.emit(Level::Notice, None, format_args!("signal process started"));
    let signal = match word {
        "stop" => Signal::SIGTERM,
        "quit" => Signal::SIGQUIT,
        "reopen" => Signal::SIGUSR1,
        _ => Signal::SIGHUP,
    };
    let number = match pid::read(pid) {
        Ok(number) => number,
        Err(message) => {
            log.emit(Level::Error, None, format_args!("{message}"));
            return false;
        }
    };
    match nix::sys::signal::kill(Pid::from_raw(number), signal) {
        Ok(()) => true,
        Err(errno) => {
            let signal = signal as i32;
            let error = errno.into();
            log.emit(
                Level::Alert,
                None,
                format_args!("kill({number}, {signal}) failed ({})", Errno(&error)),
            );
            false
        }
    }
}

/// Serves until a signal ends it. None: it could not start, and why is logged.
pub fn run(
    config: Config,
    tls: Contexts,
    startup: Startup,
    mut inherited: Inherited,
) -> Option<ExitCode> {
    let listeners = inherited.listeners(startup.logs.main());
    let cycle = Cycle::open(config, tls, &Before::Start(&listeners), startup.logs.main())?;
    drop(listeners);
    let main = &cycle.config.main;
    let version = env!("CARGO_PKG_VERSION");
    cycle.log(Level::Notice, format_args!("headwater/{version}"));
    let is_upgrade = inherited.is_upgrade();
    let launch = match launch::background(main.daemon && !is_upgrade) {
        Ok(launch::Side::Parent(code)) => return Some(code),
        Ok(launch::Side::Service(launch)) => launch,
        Err((what, error)) => return failed(&cycle, what, &error),
    };
    if let Err(message) = pid::write(&main.pid) {
        emerg(&cycle.logs, &message);
        return None;
    }
    if let Err(error) = cycle.logs.redirect_stderr() {
        cycle.log(
            Level::Alert,
            format_args!("dup2(STDERR) failed ({})", Errno(&error)),
        );
    }
    log::set_console(false);
    let start = Start {
        snapshot: inherited.state(),
        is_upgrade,
        launch,
    };
    if main.master_process {
        master::run(cycle, startup, start)
    } else {
        worker::run_alone(cycle, startup, start)
    }
}

fn failed(cycle: &Cycle, what: &str, error: &std::io::Error) -> Option<ExitCode> {
    cycle.log(
        Level::Emerg,
        format_args!("{what} failed ({})", Errno(error)),
    );
    None
}
