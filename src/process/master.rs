//! The master process: waits for signals, starts workers, replaces them.
//!
//! Mirrors `ngx_master_process_cycle` (`os/unix/ngx_process_cycle.c`). It ends by handing an exit code up: either
//! its own, or that of a worker that was forked on the way and has run to its end.

use std::{process::ExitCode, time::Duration};

use nix::{
    errno::Errno as SystemError,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

use super::{
    Startup,
    control::{self, Command, MasterEnd},
    cycle::{Cycle, reporter},
    pid,
    signals::{self, Received, Signals},
    sys::{self, Fork},
    worker,
};
use crate::{
    common::{
        clock::{self, Now},
        errno::Errno,
    },
    conf::model::Level,
    log::Owner,
};

/// How long workers may take to stop at once before they are killed.
const KILL_AFTER: Duration = Duration::from_secs(2);

/// Goes on, or ends this process with a code.
type Step = Result<(), ExitCode>;

struct Master {
    startup: Startup,
    cycle: Cycle,
    signals: Option<Signals>,
    workers: Vec<Worker>,
    wishes: Wishes,
    kill_at: Option<Now>,
}

/// What signals have asked for and is not done yet.
#[derive(Clone, Copy, Debug, Default)]
struct Wishes {
    reap: bool,
    terminate: bool,
    quit: bool,
    reconfigure: bool,
    reopen: bool,
    stop_accepting: bool,
}

#[derive(Debug)]
struct Worker {
    pid: Pid,
    control: MasterEnd,
    /// It was told to end.
    exiting: bool,
    respawn: bool,
}

/// Runs the master to its end. None: it could not start.
pub(super) fn run(cycle: Cycle, startup: Startup) -> Option<ExitCode> {
    let signals = Signals::new()
        .map_err(|error| {
            cycle.log(
                Level::Emerg,
                format_args!("sigaction() failed ({})", Errno(&error)),
            );
        })
        .ok()?;
    let mut master = Master {
        startup,
        cycle,
        signals: Some(signals),
        workers: Vec::new(),
        wishes: Wishes::default(),
        kill_at: None,
    };
    master.log(Level::Notice, format_args!("start worker processes"));
    let Err(code) = master.start_worker(None).and_then(|()| master.watch());
    Some(code)
}

impl Master {
    fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        self.cycle.log(level, message);
    }

    fn watch(&mut self) -> Result<std::convert::Infallible, ExitCode> {
        loop {
            let timeout = self.kill_at.map(|at| at.since(clock::now()));
            let woken = self
                .signals
                .as_mut()
                .map(|signals| signals.wait(&[], timeout))
                .unwrap_or_default();
            for received in woken.signals {
                self.note(received);
            }
            self.step()?;
        }
    }

    /// Does what is wished for, in nginx's order.
    fn step(&mut self) -> Step {
        if std::mem::take(&mut self.wishes.reap) {
            self.reap()?;
        }
        if self.workers.is_empty() && (self.wishes.terminate || self.wishes.quit) {
            return Err(self.exit());
        }
        if self.wishes.terminate {
            self.terminate();
            return Ok(());
        }
        if self.wishes.quit {
            self.tell_workers(Command::Quit);
            self.close_listeners();
            return Ok(());
        }
        if std::mem::take(&mut self.wishes.reconfigure) {
            self.reconfigure()?;
        }
        if std::mem::take(&mut self.wishes.reopen) {
            self.reopen();
        }
        if std::mem::take(&mut self.wishes.stop_accepting) {
            self.tell_workers(Command::Quit);
        }
        Ok(())
    }

    fn note(&mut self, received: Received) {
        let wishes = &mut self.wishes;
        let action = match received.number {
            SIGQUIT => {
                wishes.quit = true;
                ", shutting down"
            }
            SIGTERM | SIGINT => {
                wishes.terminate = true;
                ", exiting"
            }
            SIGHUP => {
                wishes.reconfigure = true;
                ", reconfiguring"
            }
            SIGUSR1 => {
                wishes.reopen = true;
                ", reopening logs"
            }
            SIGWINCH if self.cycle.config.main.daemon => {
                wishes.stop_accepting = true;
                ", stop accepting connections"
            }
            // DIFFERS(binary-upgrade): nginx starts the new binary beside the old one.
            SIGUSR2 => ", ignoring",
            SIGCHLD => {
                wishes.reap = true;
                ""
            }
            _ => "",
        };
        let text = received.describe(action);
        self.log(Level::Notice, format_args!("{text}"));
    }

    /// Forks a worker for the current cycle. In the worker this returns its exit code when all is over.
    fn start_worker(&mut self, snapshot: Option<String>) -> Step {
        let failed = |what: &str, error: std::io::Error| {
            self.cycle.log(
                Level::Alert,
                format_args!("{what} failed ({})", Errno(&error)),
            );
        };
        let (ours, theirs) = match control::pair() {
            Ok(pair) => pair,
            Err(error) => {
                failed("socketpair()", error);
                return Ok(());
            }
        };
        if let Err(error) = signals::block() {
            failed("sigprocmask()", error);
        }
        match sys::fork() {
            Ok(Fork::Child) => {
                drop(ours);
                self.workers.clear();
                self.signals = None;
                let listeners = std::mem::take(&mut self.cycle.listeners);
                Err(worker::run(worker::Setup {
                    listeners,
                    cycle: &self.cycle,
                    control: theirs,
                    snapshot,
                    daemonized: self.cycle.config.main.daemon,
                }))
            }
            Ok(Fork::Parent(pid)) => {
                drop(theirs);
                self.log(Level::Notice, format_args!("start worker process {pid}"));
                self.unblock();
                ours.wait_ready();
                self.workers.push(Worker {
                    pid,
                    control: ours,
                    exiting: false,
                    respawn: true,
                });
                Ok(())
            }
            Err(error) => {
                failed("fork()", error);
                self.unblock();
                Ok(())
            }
        }
    }

    fn unblock(&self) {
        if let Err(error) = signals::unblock() {
            self.log(
                Level::Alert,
                format_args!("sigprocmask() failed ({})", Errno(&error)),
            );
        }
    }

    /// Collects ended workers and replaces those that nobody told to end.
    fn reap(&mut self) -> Step {
        let mut lost = 0;
        while let Some((pid, code)) = self.wait_child() {
            let Some(at) = self.workers.iter().position(|worker| worker.pid == pid) else {
                continue;
            };
            let mut worker = self.workers.swap_remove(at);
            if code == Some(2) && worker.respawn {
                self.log(
                    Level::Alert,
                    format_args!(
                        "worker process {pid} exited with fatal code 2 and cannot be respawned"
                    ),
                );
                worker.respawn = false;
            }
            if worker.respawn && !worker.exiting {
                lost += 1;
            }
        }
        for _ in 0..lost {
            if !self.wishes.terminate && !self.wishes.quit {
                self.start_worker(None)?;
            }
        }
        Ok(())
    }

    /// One ended child and its exit code; None when there is no other.
    fn wait_child(&self) -> Option<(Pid, Option<i32>)> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => {
                    self.log(
                        Level::Notice,
                        format_args!("worker process {pid} exited with code {code}"),
                    );
                    return Some((pid, Some(code)));
                }
                Ok(WaitStatus::Signaled(pid, signal, dumped)) => {
                    let (signal, dumped) =
                        (signal as i32, if dumped { " (core dumped)" } else { "" });
                    self.log(
                        Level::Alert,
                        format_args!("worker process {pid} exited on signal {signal}{dumped}"),
                    );
                    return Some((pid, None));
                }
                Err(SystemError::EINTR) => {}
                _ => return None,
            }
        }
    }

    fn tell_workers(&mut self, command: Command) {
        for worker in &mut self.workers {
            let ends = command != Command::Reopen;
            if worker.exiting && command == Command::Quit {
                continue;
            }
            if worker.control.send(command).is_err() {
                let signal = match command {
                    Command::Quit => Signal::SIGQUIT,
                    Command::Terminate => Signal::SIGTERM,
                    Command::Reopen | Command::Snapshot => Signal::SIGUSR1,
                };
                // A process that is gone is noticed by SIGCHLD.
                kill(worker.pid, signal).ok();
            }
            worker.exiting |= ends;
        }
    }

    /// Stops all workers, in the end by force.
    fn terminate(&mut self) {
        match self.kill_at {
            None => {
                self.tell_workers(Command::Terminate);
                self.kill_at = Some(clock::now().after(KILL_AFTER));
            }
            Some(at) if at <= clock::now() => {
                for worker in &self.workers {
                    // A process that is gone is noticed by SIGCHLD.
                    kill(worker.pid, Signal::SIGKILL).ok();
                }
                self.kill_at = Some(clock::now().after(KILL_AFTER));
            }
            Some(_) => {}
        }
    }

    fn reconfigure(&mut self) -> Step {
        self.log(Level::Notice, format_args!("reconfiguring"));
        clock::reset_zone();
        let Some(new) = worker::load(&self.cycle, &self.startup) else {
            return Ok(());
        };
        let old = std::mem::replace(&mut self.cycle, new);
        // A failure leaves it where it was.
        self.cycle.logs.redirect_stderr().ok();
        old.listeners
            .retire(&self.cycle.listeners, &mut reporter(self.cycle.logs.main()));
        drop(old.logs);
        let serving = self.workers.iter().find(|worker| !worker.exiting);
        let snapshot = serving.and_then(|worker| worker.control.snapshot());
        self.log(Level::Notice, format_args!("start worker processes"));
        let before = self.workers.len();
        self.start_worker(snapshot)?;
        let new = self.workers.split_off(before);
        self.tell_workers(Command::Quit);
        self.workers.extend(new);
        Ok(())
    }

    fn reopen(&mut self) {
        self.log(Level::Notice, format_args!("reopening logs"));
        let owner = self
            .cycle
            .user
            .as_ref()
            .map(|user| Owner(user.uid.as_raw()));
        self.cycle.logs.reopen(owner);
        // A failure leaves it where it was.
        self.cycle.logs.redirect_stderr().ok();
        self.tell_workers(Command::Reopen);
    }

    fn exit(&mut self) -> ExitCode {
        let sink = self.cycle.logs.main();
        pid::remove(&self.cycle.config.main.pid, sink);
        sink.emit(Level::Notice, None, format_args!("exit"));
        self.close_listeners();
        ExitCode::SUCCESS
    }

    fn close_listeners(&mut self) {
        let listeners = std::mem::take(&mut self.cycle.listeners);
        listeners.close(&mut reporter(self.cycle.logs.main()));
    }
}
