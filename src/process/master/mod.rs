//! The master process: waits for signals, starts workers, replaces them and, at USR2, itself.
//!
//! Mirrors `ngx_master_process_cycle` (`os/unix/ngx_process_cycle.c`). It ends by handing an exit code up: either
//! its own, or that of a worker that was forked on the way and has run to its end.

mod workers;

use std::{process::ExitCode, time::Duration};

use nix::unistd::{Pid, getppid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

use super::{
    Start, Startup,
    control::Command,
    cycle::{Cycle, reporter},
    launch::Launch,
    notify::{self, Watchdog},
    pid,
    signals::{Received, Signals},
    title, upgrade, worker,
};
use crate::{
    common::{
        clock::{self, Now},
        errno::Errno,
    },
    conf::model::Level,
    log::Owner,
};
use workers::Workers;

/// How long workers may take to stop at once before they are killed.
const KILL_AFTER: Duration = Duration::from_secs(2);

/// Goes on, or ends this process with a code.
type Step = Result<(), ExitCode>;

struct Master {
    startup: Startup,
    cycle: Cycle,
    signals: Option<Signals>,
    workers: Workers,
    wishes: Wishes,
    kill_at: Option<Now>,
    watchdog: Watchdog,
    /// Somebody waits for the service to come up.
    launch: Option<Launch>,
    /// The process that started this one.
    parent: Pid,
    /// It is the older binary.
    is_upgrade: bool,
    /// The newer binary, as long as it runs.
    new_binary: Option<Pid>,
    /// WINCH has sent the workers away.
    has_stopped_accepting: bool,
}

/// What signals have asked for and is not done yet.
#[derive(Clone, Copy, Debug, Default)]
struct Wishes {
    reap: bool,
    terminate: bool,
    quit: bool,
    reconfigure: bool,
    restart: bool,
    reopen: bool,
    change_binary: bool,
    stop_accepting: bool,
}

/// Runs the master to its end. None: it could not start.
pub(super) fn run(cycle: Cycle, startup: Startup, start: Start) -> Option<ExitCode> {
    let signals = Signals::new()
        .map_err(|error| {
            cycle.log(
                Level::Emerg,
                format_args!("sigaction() failed ({})", Errno(&error)),
            );
        })
        .ok()?;
    title::set(&format!("master process {}", startup.args.join(" ")));
    let mut master = Master {
        startup,
        cycle,
        signals: Some(signals),
        workers: Workers::default(),
        wishes: Wishes::default(),
        kill_at: None,
        watchdog: Watchdog::new(),
        launch: Some(start.launch),
        parent: getppid(),
        is_upgrade: start.is_upgrade,
        new_binary: None,
        has_stopped_accepting: false,
    };
    let Err(code) = master
        .start_workers(start.snapshot)
        .and_then(|()| master.watch());
    Some(code)
}

impl Master {
    fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        self.cycle.log(level, message);
    }

    fn watch(&mut self) -> Result<std::convert::Infallible, ExitCode> {
        if let Some(launch) = self.launch.take() {
            launch.done();
        }
        notify::ready("serving");
        loop {
            let kill = self.kill_at.map(|at| at.since(clock::now()));
            let timeout = kill.into_iter().chain(self.watchdog.next()).min();
            let asked = self.workers.asked();
            let woken = self
                .signals
                .as_mut()
                .map(|signals| signals.wait(&asked, timeout))
                .unwrap_or_default();
            let has_answer = woken.ready.contains(&true);
            for received in woken.signals {
                self.note(received);
            }
            if has_answer {
                self.hear();
            }
            if self.watchdog.is_due() {
                self.look();
            }
            self.step()?;
        }
    }

    /// Asks the serving worker whether all its threads turn. What drains is left alone: its end is bounded otherwise.
    fn look(&mut self) {
        if !self.workers.ping() {
            notify::alive();
        }
    }

    /// Takes the answers.
    fn hear(&mut self) {
        if self.workers.hear() {
            notify::alive();
        }
    }

    /// Does what is wished for, in nginx's order.
    fn step(&mut self) -> Step {
        let wishes = &mut self.wishes;
        if std::mem::take(&mut wishes.reap) {
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
            self.workers.tell(Command::Quit);
            self.close_listeners();
            return Ok(());
        }
        if std::mem::take(&mut self.wishes.reconfigure) {
            self.reconfigure()?;
        }
        if std::mem::take(&mut self.wishes.restart) {
            self.start_workers(None)?;
        }
        if std::mem::take(&mut self.wishes.reopen) {
            self.reopen();
        }
        if std::mem::take(&mut self.wishes.change_binary) {
            self.change_binary();
        }
        if std::mem::take(&mut self.wishes.stop_accepting) {
            self.has_stopped_accepting = true;
            self.workers.tell(Command::Quit);
        }
        Ok(())
    }

    fn note(&mut self, received: Received) {
        let ends = matches!(received.number, SIGQUIT | SIGTERM | SIGINT);
        if ends && !self.wishes.quit && !self.wishes.terminate {
            self.say_good_bye();
        }
        let busy = self.has_other_binary();
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
            // DIFFERS(foreground): nginx ignores it with `daemon off`, where a terminal sends it when its size changes; that
            // one comes from no process.
            SIGWINCH
                if self.cycle.config.main.daemon || received.from.is_some_and(|pid| pid > 0) =>
            {
                wishes.stop_accepting = true;
                ", stop accepting connections"
            }
            SIGUSR2 if busy => ", ignoring",
            SIGUSR2 => {
                wishes.change_binary = true;
                ", changing binary"
            }
            SIGCHLD => {
                wishes.reap = true;
                ""
            }
            _ => "",
        };
        let text = received.describe(action);
        self.log(Level::Notice, format_args!("{text}"));
        if received.number == SIGUSR2 && busy {
            self.log(
                Level::Crit,
                format_args!(
                    "the changing binary signal is ignored: you should shutdown or terminate before either old or new \
                     binary's process"
                ),
            );
        }
    }

    /// Whether an older or a newer binary runs beside this one.
    // DIFFERS(foreground): nginx also ignores USR2 as long as the process lives that started it, that is with `daemon off`.
    fn has_other_binary(&self) -> bool {
        self.new_binary.is_some() || self.has_older()
    }

    fn has_older(&self) -> bool {
        self.is_upgrade && getppid() == self.parent
    }

    /// Tells the service manager who goes on, or that nobody does.
    fn say_good_bye(&self) {
        match self.new_binary {
            Some(pid) => notify::hand_over(pid.as_raw().unsigned_abs()),
            None => notify::stopping("finishing requests"),
        }
    }

    /// Stops all workers, in the end by force.
    fn terminate(&mut self) {
        match self.kill_at {
            None => {
                self.workers.tell(Command::Terminate);
                self.kill_at = Some(clock::now().after(KILL_AFTER));
            }
            Some(at) if at <= clock::now() => {
                self.workers.kill();
                self.kill_at = Some(clock::now().after(KILL_AFTER));
            }
            Some(_) => {}
        }
    }

    fn reconfigure(&mut self) -> Step {
        if self.new_binary.is_some() {
            // Back to the old binary: its configuration is served again as it was.
            self.has_stopped_accepting = false;
            return self.start_workers(None);
        }
        self.log(Level::Notice, format_args!("reconfiguring"));
        notify::reloading();
        clock::reset_zone();
        let new = match worker::load(&self.cycle, &self.startup) {
            Ok(new) => new,
            Err(message) => {
                notify::ready(&format!("serving; the last reload failed: {message}"));
                return Ok(());
            }
        };
        let old = std::mem::replace(&mut self.cycle, new);
        // A failure leaves it where it was.
        self.cycle.logs.redirect_stderr().ok();
        old.listeners
            .retire(&self.cycle.listeners, &mut reporter(self.cycle.logs.main()));
        drop(old.logs);
        let snapshot = self.workers.snapshot();
        let before = self.workers.begin();
        self.start_workers(snapshot)?;
        self.workers.retire(before);
        notify::ready("serving");
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
        self.workers.tell(Command::Reopen);
    }

    fn change_binary(&mut self) {
        self.log(Level::Notice, format_args!("changing binary"));
        let snapshot = self.workers.snapshot();
        self.new_binary = upgrade::start(&self.cycle, &self.startup, snapshot.as_deref());
    }

    /// The newer binary has ended: this one is alone again.
    fn take_back(&mut self) {
        upgrade::ended(&self.cycle, &self.startup);
        self.new_binary = None;
        if std::mem::take(&mut self.has_stopped_accepting) {
            self.wishes.restart = true;
        }
    }

    fn exit(&mut self) -> ExitCode {
        let (main, sink) = (&self.cycle.config.main, self.cycle.logs.main());
        match self.new_binary {
            Some(_) => pid::remove(&upgrade::old_pid(main), sink),
            None => pid::remove(&main.pid, sink),
        }
        sink.emit(Level::Notice, None, format_args!("exit"));
        self.close_listeners();
        ExitCode::SUCCESS
    }

    fn close_listeners(&mut self) {
        let listeners = std::mem::take(&mut self.cycle.listeners);
        // The files of Unix sockets are the newer binary's.
        if self.new_binary.is_none() {
            listeners.close(self.has_older(), &mut reporter(self.cycle.logs.main()));
        }
    }
}
