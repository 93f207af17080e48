//! The worker process: its main thread watches signals and the master, the others serve.
//!
//! Mirrors `ngx_worker_process_cycle` and, for `master_process off`, `ngx_single_process_cycle`
//! (`os/unix/ngx_process_cycle.c`).

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

use super::{
    Start, Startup,
    control::{Command, Message, WorkerEnd},
    cycle::{Before, Cycle, reporter},
    environment, pid,
    signals::{self, Received, Signals},
    sys, title,
};
use crate::{
    common::{clock, errno::Errno},
    conf::{
        self,
        model::{Config, Level},
    },
    log::{Logs, Owner},
    net::listen::Listeners,
    runtime::Generation,
    tls::Contexts,
};

/// A worker must not be started again when it ends with this code.
const FATAL: u8 = 2;

/// What a forked worker needs.
pub(super) struct Setup<'a> {
    pub(super) cycle: &'a Cycle,
    pub(super) listeners: Arc<Listeners>,
    pub(super) control: WorkerEnd,
    pub(super) snapshot: Option<String>,
    pub(super) daemonized: bool,
}

/// Runs a worker in a process of its own, to its end.
pub(super) fn run(setup: Setup<'_>) -> ExitCode {
    let Setup { cycle, control, .. } = setup;
    title::set("worker process");
    if !take_on_limits(cycle) {
        return ExitCode::from(FATAL);
    }
    let running = Running::start(
        &cycle.config,
        &cycle.logs,
        &cycle.tls,
        &setup.listeners,
        setup.snapshot.as_deref(),
    );
    let (Ok(signals), Ok(running)) = (Signals::new(), running) else {
        cycle.log(
            Level::Emerg,
            format_args!("a worker process could not start"),
        );
        return ExitCode::from(FATAL);
    };
    if let Err(error) = signals::unblock() {
        cycle.log(
            Level::Alert,
            format_args!("sigprocmask() failed ({})", Errno(&error)),
        );
    }
    // The threads have their own; a socket that nobody accepts from must not stay open.
    drop(setup.listeners);
    control.send(&Message::Ready);
    let worker = Worker {
        logs: cycle.logs.clone(),
        signals,
        current: running,
        old: Vec::new(),
        control: Some(Arc::new(control)),
        pinged: Arc::default(),
        alone: None,
        daemonized: setup.daemonized,
        state: State::Serving,
    };
    worker.serve()
}

/// Runs master and worker in one process (`master_process off`).
pub(super) fn run_alone(cycle: Cycle, startup: Startup, start: Start) -> Option<ExitCode> {
    environment::restrict(&cycle.config.main);
    let signals = Signals::new();
    let blocked = signals::block();
    let snapshot = start.snapshot.as_deref();
    let running = Running::start(
        &cycle.config,
        &cycle.logs,
        &cycle.tls,
        &cycle.listeners,
        snapshot,
    );
    let unblocked = signals::unblock();
    start.launch.done();
    match (signals, blocked.and(unblocked), running) {
        (Ok(signals), Ok(()), Ok(running)) => {
            let worker = Worker {
                logs: cycle.logs.clone(),
                signals,
                current: running,
                old: Vec::new(),
                control: None,
                pinged: Arc::default(),
                daemonized: cycle.config.main.daemon,
                alone: Some((cycle, startup)),
                state: State::Serving,
            };
            Some(worker.serve())
        }
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
            cycle.log(
                Level::Emerg,
                format_args!("starting failed ({})", Errno(&error)),
            );
            None
        }
    }
}

/// Limits and user of the worker; false when it must not go on.
fn take_on_limits(cycle: &Cycle) -> bool {
    let main = &cycle.config.main;
    let alert = |what: String, error: io::Error| {
        cycle.log(
            Level::Alert,
            format_args!("{what} failed ({})", Errno(&error)),
        );
    };
    environment::restrict(main);
    sys::set_limits(main, &mut |what, error| alert(what, error));
    let emerg = |what: String, error: io::Error| {
        cycle.log(
            Level::Emerg,
            format_args!("{what} failed ({})", Errno(&error)),
        );
    };
    if let Some(user) = &cycle.user
        && let Err((what, error)) = user.become_user(main.transparent, &emerg)
    {
        emerg(what, error);
        return false;
    }
    if let Err(error) = sys::allow_core_dumps() {
        alert("prctl(PR_SET_DUMPABLE)".to_owned(), error);
    }
    if let Some(directory) = &main.working_directory
        && let Err(error) = std::env::set_current_dir(directory)
    {
        alert(format!("chdir(\"{}\")", directory.display()), error);
        return false;
    }
    true
}

/// A generation, and the pipe's end that shows when its threads are gone.
struct Running {
    generation: Generation,
    ended: UnixStream,
    logs: Logs,
}

impl Running {
    fn start(
        config: &Arc<Config>,
        logs: &Logs,
        tls: &Contexts,
        listeners: &Arc<Listeners>,
        snapshot: Option<&str>,
    ) -> io::Result<Self> {
        let (ended, ending) = UnixStream::pair()?;
        logs.start();
        let generation = Generation::start(config, logs, tls, listeners, snapshot, ending.into())?;
        Ok(Self {
            generation,
            ended,
            logs: logs.clone(),
        })
    }

    /// The threads have ended or are about to: what they logged is written.
    fn finish(self) -> bool {
        let good = self.generation.join(&self.logs);
        self.logs.flush();
        good
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Serving,
    /// Connections with requests are finished.
    Quitting,
    Terminating,
}

struct Worker {
    logs: Logs,
    signals: Signals,
    current: Running,
    /// Generations before the last reload that still have requests; only without a master.
    old: Vec<Running>,
    control: Option<Arc<WorkerEnd>>,
    /// The master waits for an answer of all threads.
    pinged: Arc<AtomicBool>,
    /// What the master would have.
    alone: Option<(Cycle, Startup)>,
    daemonized: bool,
    state: State,
}

impl Worker {
    fn serve(mut self) -> ExitCode {
        loop {
            let mut fds = vec![self.current.ended.as_fd()];
            fds.extend(self.control.as_ref().map(|control| control.fd()));
            fds.extend(self.old.iter().map(|old| old.ended.as_fd()));
            let woken = self.signals.wait(&fds, None);
            for received in woken.signals {
                self.note(received);
            }
            if woken.ready.get(1) == Some(&true) && self.control.is_some() {
                self.obey();
            }
            self.old.retain(|old| !old.generation.is_finished());
            if woken.ready.first() == Some(&true) {
                return self.exit();
            }
        }
    }

    fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        self.logs.main().emit(level, None, message);
    }

    fn note(&mut self, received: Received) {
        let alone = self.alone.is_some();
        let action = match received.number {
            SIGQUIT => ", shutting down",
            SIGTERM | SIGINT => ", exiting",
            SIGUSR1 => ", reopening logs",
            SIGHUP if alone => ", reconfiguring",
            SIGHUP | SIGUSR2 => ", ignoring",
            SIGWINCH if self.daemonized && !alone => ", shutting down",
            _ => "",
        };
        let text = received.describe(action);
        self.log(Level::Notice, format_args!("{text}"));
        match received.number {
            SIGQUIT => self.quit(),
            SIGTERM | SIGINT => self.terminate(),
            SIGUSR1 => self.reopen(),
            SIGHUP if alone => self.reconfigure(),
            SIGWINCH if self.daemonized && !alone => self.quit(),
            _ => {}
        }
    }

    fn obey(&mut self) {
        let Some(control) = &self.control else {
            return;
        };
        match control.receive() {
            // The master is gone; connections are served to the end of time, as nginx does.
            None => self.control = None,
            Some(Command::Quit) => self.quit(),
            Some(Command::Terminate) => self.terminate(),
            Some(Command::Reopen) => self.reopen(),
            Some(Command::Snapshot) => {
                control.send(&Message::Snapshot(self.current.generation.snapshot()));
            }
            Some(Command::Ping) => self.ping(),
        }
    }

    /// Answers the master once all threads have answered: in a thread of its own, because one that hangs never does.
    fn ping(&self) {
        let Some(control) = self.control.clone() else {
            return;
        };
        if self.pinged.swap(true, Ordering::AcqRel) {
            return;
        }
        let (answers, pinged) = (self.current.generation.ping(), self.pinged.clone());
        std::thread::spawn(move || {
            // It is closed when the last thread has dropped its end.
            answers.recv().ok();
            pinged.store(false, Ordering::Release);
            control.send(&Message::Pong);
        });
    }

    fn quit(&mut self) {
        if self.state == State::Serving {
            self.state = State::Quitting;
            self.log(Level::Notice, format_args!("gracefully shutting down"));
            title::set("worker process is shutting down");
            self.current.generation.quit();
            self.close_listeners();
        }
    }

    /// Without a master the sockets are ours to close.
    fn close_listeners(&mut self) {
        if let Some((cycle, _)) = &mut self.alone {
            let listeners = std::mem::take(&mut cycle.listeners);
            listeners.close(false, &mut reporter(cycle.logs.main()));
        }
    }

    fn terminate(&mut self) {
        self.state = State::Terminating;
        self.current.generation.terminate();
        for old in &self.old {
            old.generation.terminate();
        }
    }

    fn reopen(&self) {
        self.log(Level::Notice, format_args!("reopening logs"));
        self.current.generation.flush_logs();
        self.logs.reopen(None::<Owner>);
        // A failure leaves it where it was.
        self.logs.redirect_stderr().ok();
    }

    /// A reload without a master: the new generation serves beside the old one.
    fn reconfigure(&mut self) {
        self.log(Level::Notice, format_args!("reconfiguring"));
        clock::reset_zone();
        let Some((cycle, startup)) = &mut self.alone else {
            return;
        };
        let Ok(new) = load(cycle, startup) else {
            return;
        };
        let snapshot = self.current.generation.snapshot();
        let running = signals::block().and_then(|()| {
            Running::start(
                &new.config,
                &new.logs,
                &new.tls,
                &new.listeners,
                Some(&snapshot),
            )
        });
        let unblocked = signals::unblock();
        match unblocked.and(running) {
            Ok(running) => {
                let old = std::mem::replace(cycle, new);
                self.logs = cycle.logs.clone();
                old.listeners
                    .retire(&cycle.listeners, &mut reporter(self.logs.main()));
                let old = std::mem::replace(&mut self.current, running);
                old.generation.quit();
                self.old.push(old);
            }
            Err(error) => {
                cycle.log(
                    Level::Emerg,
                    format_args!("reload failed ({})", Errno(&error)),
                );
            }
        }
    }

    /// The threads are gone.
    fn exit(mut self) -> ExitCode {
        self.close_listeners();
        let sink = self.logs.main();
        let wanted = self.state != State::Serving;
        sink.emit(Level::Notice, None, format_args!("exiting"));
        let mut good = self.current.finish();
        for old in self.old {
            old.generation.terminate();
            good &= old.finish();
        }
        if let Some((cycle, _)) = self.alone {
            pid::remove(&cycle.config.main.pid, sink);
        }
        sink.emit(Level::Notice, None, format_args!("exit"));
        self.logs.flush();
        if good && wanted {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// A new cycle for a reload. The error, which is logged, says why there is none; the old one goes on.
pub(super) fn load(cycle: &Cycle, startup: &Startup) -> Result<Cycle, String> {
    let read = || -> Result<_, String> {
        let config = conf::load(&startup.options).map_err(|error| error.to_string())?;
        super::warn(&cycle.logs, &config.warnings);
        let mut warn = |text: &str| super::warn(&cycle.logs, &[text.to_owned()]);
        let tls = Contexts::new(&config, Some(&cycle.tls), &mut warn)?;
        Ok((config, tls))
    };
    let (config, tls) = read().inspect_err(|message| super::emerg(&cycle.logs, message))?;
    let new = Cycle::open(config, tls, &Before::Cycle(cycle), cycle.logs.main());
    new.ok_or_else(|| "the error log says why".to_owned())
}
