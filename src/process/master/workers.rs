//! The worker processes of a master: starting them, telling them things, collecting those that have ended.
//!
//! Mirrors `ngx_spawn_process`, `ngx_signal_worker_processes` and `ngx_reap_children`
//! (`os/unix/ngx_process.c`, `os/unix/ngx_process_cycle.c`).

use std::os::fd::BorrowedFd;

use nix::{
    errno::Errno as SystemError,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::{Master, Step};
use crate::{
    common::errno::Errno,
    conf::model::Level,
    process::{
        control::{self, Command, MasterEnd, Message},
        signals,
        sys::{self, Fork},
        worker,
    },
};

/// All that have not ended, from the oldest to the newest.
#[derive(Debug, Default)]
pub(super) struct Workers(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    pid: Pid,
    control: MasterEnd,
    /// It was told to end.
    exiting: bool,
    respawn: bool,
    /// It has not answered yet.
    asked: bool,
}

impl Workers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the serving worker knows of the peers.
    pub(super) fn snapshot(&self) -> Option<String> {
        self.serving().and_then(|worker| worker.control.snapshot())
    }

    fn serving(&self) -> Option<&Worker> {
        self.0.iter().rev().find(|worker| !worker.exiting)
    }

    /// How many there are before new ones come; for [`retire`](Self::retire).
    pub(super) fn begin(&self) -> usize {
        self.0.len()
    }

    /// Tells the first `count` to finish what they have.
    pub(super) fn retire(&mut self, count: usize) {
        let new = self.0.split_off(count.min(self.0.len()));
        self.tell(Command::Quit);
        self.0.extend(new);
    }

    pub(super) fn tell(&mut self, command: Command) {
        for worker in &mut self.0 {
            let ends = command != Command::Reopen;
            if worker.exiting && command == Command::Quit {
                continue;
            }
            if worker.control.send(command).is_err() {
                let signal = match command {
                    Command::Quit => Signal::SIGQUIT,
                    Command::Terminate => Signal::SIGTERM,
                    Command::Reopen | Command::Snapshot | Command::Ping => Signal::SIGUSR1,
                };
                // A process that is gone is noticed by SIGCHLD.
                kill(worker.pid, signal).ok();
            }
            worker.exiting |= ends;
        }
    }

    /// Ends all by force.
    pub(super) fn kill(&self) {
        for worker in &self.0 {
            // A process that is gone is noticed by SIGCHLD.
            kill(worker.pid, Signal::SIGKILL).ok();
        }
    }

    /// Asks the serving worker for an answer; false when there is none to ask.
    pub(super) fn ping(&mut self) -> bool {
        let Some(worker) = self.0.iter_mut().rev().find(|worker| !worker.exiting) else {
            return false;
        };
        worker.asked = worker.control.send(Command::Ping).is_ok();
        true
    }

    /// Where answers are to come from.
    pub(super) fn asked(&self) -> Vec<BorrowedFd<'_>> {
        let asked = self.0.iter().filter(|worker| worker.asked);
        asked.map(|worker| worker.control.fd()).collect()
    }

    /// Reads one answer of each worker that was asked and has something to say; whether it was the one hoped for.
    pub(super) fn hear(&mut self) -> bool {
        let mut alive = false;
        for worker in self.0.iter_mut().filter(|worker| worker.asked) {
            match worker.control.receive() {
                Some(Message::Pong) => {
                    worker.asked = false;
                    alive = true;
                }
                Some(_) => {}
                // It is gone, or says nonsense.
                None => worker.asked = false,
            }
        }
        alive
    }
}

impl Master {
    /// Starts what serves the current cycle. In the worker this returns its exit code when all is over.
    pub(super) fn start_workers(&mut self, snapshot: Option<String>) -> Step {
        self.log(Level::Notice, format_args!("start worker processes"));
        self.start_worker(snapshot)
    }

    /// Forks a worker for the current cycle.
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
                self.workers.0.clear();
                self.signals = None;
                self.launch = None;
                let listeners = std::mem::take(&mut self.cycle.listeners);
                Err(worker::run(worker::Setup {
                    listeners,
                    cycle: &self.cycle,
                    control: theirs,
                    snapshot,
                    daemonized: self.cycle.config.main.daemon || self.is_upgrade,
                }))
            }
            Ok(Fork::Parent(pid)) => {
                drop(theirs);
                self.log(Level::Notice, format_args!("start worker process {pid}"));
                self.unblock();
                ours.wait_ready();
                self.workers.0.push(Worker {
                    pid,
                    control: ours,
                    exiting: false,
                    respawn: true,
                    asked: false,
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

    /// Collects ended children and replaces those workers that nobody told to end.
    pub(super) fn reap(&mut self) -> Step {
        let mut lost = 0;
        while let Some((pid, code)) = self.wait_child() {
            if self.new_binary == Some(pid) {
                self.take_back();
                continue;
            }
            let workers = &mut self.workers.0;
            let Some(at) = workers.iter().position(|worker| worker.pid == pid) else {
                continue;
            };
            let mut worker = workers.remove(at);
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
                    let name = self.name(pid);
                    self.log(
                        Level::Notice,
                        format_args!("{name} {pid} exited with code {code}"),
                    );
                    return Some((pid, Some(code)));
                }
                Ok(WaitStatus::Signaled(pid, signal, dumped)) => {
                    let name = self.name(pid);
                    let (signal, dumped) =
                        (signal as i32, if dumped { " (core dumped)" } else { "" });
                    self.log(
                        Level::Alert,
                        format_args!("{name} {pid} exited on signal {signal}{dumped}"),
                    );
                    return Some((pid, None));
                }
                Err(SystemError::EINTR) => {}
                _ => return None,
            }
        }
    }

    /// What the lines of the log call a child.
    fn name(&self, pid: Pid) -> &'static str {
        if self.new_binary == Some(pid) {
            return "new binary process";
        }
        let is_worker = self.workers.0.iter().any(|worker| worker.pid == pid);
        if is_worker {
            "worker process"
        } else {
            "unknown process"
        }
    }
}
