//! The worker's threads: each has its own runtime, its own connections and its own share of the listening sockets.
//!
//! A [`Generation`] is one configuration in service. A worker process has one; without a master a reload makes a
//! second one beside it while the first finishes its requests.

mod accept;
mod thread;

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    conf::model::{Config, Level},
    http,
    log::Logs,
    net::listen::Listeners,
    stream, tls,
};
use thread::{Command, Setup};

/// One configuration in service.
#[derive(Debug)]
pub struct Generation {
    http: Arc<http::Live>,
    stream: Arc<stream::Live>,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    commands: mpsc::UnboundedSender<Command>,
    handle: std::thread::JoinHandle<()>,
}

/// How long a reopening waits for the threads to hand over their lines.
const FLUSH_PATIENCE: Duration = Duration::from_millis(500);

impl Generation {
    /// Starts the threads; returns when they accept connections. `ended` is dropped by each thread at its end, so
    /// the caller sees the other end of a pipe become readable when all are done.
    pub fn start(
        config: &Arc<Config>,
        logs: &Logs,
        tls: &tls::Contexts,
        listeners: &Arc<Listeners>,
        snapshot: Option<&str>,
        ended: OwnedFd,
    ) -> io::Result<Self> {
        let http = http::Live::new(config.clone(), logs, tls.clone(), snapshot);
        let stream = stream::Live::new(config.clone(), logs, tls.clone(), snapshot);
        let ended = Arc::new(ended);
        let (started, starting) = std::sync::mpsc::channel();
        let threads = (0..config.main.worker_processes)
            .map(|number| {
                let (commands, inbox) = mpsc::unbounded_channel();
                let setup = Setup {
                    number,
                    config: config.clone(),
                    logs: logs.clone(),
                    listeners: listeners.clone(),
                    http: http.clone(),
                    stream: stream.clone(),
                };
                let (started, ended) = (started.clone(), ended.clone());
                let handle = std::thread::Builder::new()
                    .name(format!("worker {number}"))
                    .spawn(move || {
                        thread::run(setup, inbox, started);
                        drop(ended);
                    })?;
                Ok(Thread { commands, handle })
            })
            .collect::<io::Result<_>>()?;
        drop(started);
        // A thread that could not start has said so in the error log, and closed its end.
        while starting.recv().is_ok() {}
        Ok(Self {
            http,
            stream,
            threads,
        })
    }

    /// Stops accepting; connections end when they have no request.
    pub fn quit(&self) {
        self.send(|| Command::Quit);
    }

    /// Stops at once.
    pub fn terminate(&self) {
        self.send(|| Command::Terminate);
    }

    /// Hands the threads' log lines over to the writers.
    pub fn flush_logs(&self) {
        self.ask(Command::Flush).recv_timeout(FLUSH_PATIENCE).ok();
    }

    /// Asks all threads whether they still turn; the channel is closed when the last of them has answered.
    pub fn ping(&self) -> Receiver<()> {
        self.ask(Command::Ping)
    }

    /// Each thread drops its end when it is through; one that has ended has no end to drop.
    fn ask(&self, command: fn(Sender<()>) -> Command) -> Receiver<()> {
        let (done, waiting) = std::sync::mpsc::channel();
        self.send(|| command(done.clone()));
        waiting
    }

    /// What the next generation should know of the peers.
    pub fn snapshot(&self) -> String {
        self.http.snapshot() + &self.stream.snapshot()
    }

    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads
            .iter()
            .all(|thread| thread.handle.is_finished())
    }

    /// Waits for the threads, and says whether they all ended in order.
    pub fn join(self, logs: &Logs) -> bool {
        let mut good = true;
        for thread in self.threads {
            if thread.handle.join().is_err() {
                logs.main()
                    .emit(Level::Alert, None, format_args!("worker thread panicked"));
                good = false;
            }
        }
        good
    }

    fn send(&self, command: impl Fn() -> Command) {
        for thread in &self.threads {
            // A thread that has ended needs no command.
            thread.commands.send(command()).ok();
        }
    }
}
