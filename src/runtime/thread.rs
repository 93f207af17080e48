//! One worker thread, from its runtime's start to its last connection.

use std::{
    cell::Cell,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use tokio::{
    runtime::Builder,
    sync::mpsc,
    task::{JoinHandle, LocalSet},
};

use super::accept::{Door, Engines, accept, receive};
use crate::{
    common::{clock, errno::Errno},
    conf::model::{Config, Level},
    http,
    log::{AccessLogs, Logs},
    net::listen::Listeners,
    stream,
};

/// What the main thread asks of a worker thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Finish what is there.
    Quit,
    /// Stop at once.
    Terminate,
    /// Hand over log lines, then drop the sender.
    Flush(std::sync::mpsc::Sender<()>),
    /// Drop the sender: the thread turns.
    Ping(std::sync::mpsc::Sender<()>),
}

/// What a thread is made of.
pub(super) struct Setup {
    pub(super) number: usize,
    pub(super) config: Arc<Config>,
    pub(super) logs: Logs,
    pub(super) listeners: Arc<Listeners>,
    pub(super) http: Arc<http::Live>,
    pub(super) stream: Arc<stream::Live>,
}

/// Counts the thread's connections.
#[derive(Default)]
pub(super) struct Count {
    open: Cell<usize>,
    waiting: Cell<Option<Waker>>,
}

impl Count {
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }

    /// One more, until the guard is dropped.
    pub(super) fn enter(self: &Rc<Self>) -> Entered {
        self.open.set(self.open.get() + 1);
        Entered(self.clone())
    }

    /// Ready when there are none.
    fn poll_zero(&self, cx: &Context<'_>) -> Poll<()> {
        if self.open.get() == 0 {
            return Poll::Ready(());
        }
        self.waiting.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

/// One open connection.
pub(super) struct Entered(Rc<Count>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        if self.0.open.get() == 0
            && let Some(waker) = self.0.waiting.take()
        {
            waker.wake();
        }
    }
}

/// Runs a thread; `started` is dropped when it accepts connections, or when it cannot.
pub(super) fn run(
    setup: Setup,
    commands: mpsc::UnboundedReceiver<Command>,
    started: std::sync::mpsc::Sender<()>,
) {
    let logs = setup.logs.clone();
    let emerg = |what: &str, error: std::io::Error| {
        logs.main().emit(
            Level::Emerg,
            None,
            format_args!("{what} failed ({})", Errno(&error)),
        );
    };
    let main = &setup.config.main;
    if let (Some(processors), true) = (
        main.worker_cpu_affinity.of(setup.number),
        main.master_process,
    ) {
        stay_on(processors, &logs);
    }
    clock::keep_time();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .on_thread_unpark(clock::waited)
        .build();
    match runtime {
        Ok(runtime) => {
            let local = LocalSet::new();
            match local.block_on(&runtime, serve(setup, commands, started)) {
                Ok(access) => {
                    // Some requests are logged as they are dropped.
                    drop(local);
                    access.flush();
                }
                Err(error) => emerg("listening in a worker thread", error),
            }
        }
        Err(error) => emerg("epoll_create()", error),
    }
}

/// Binds the calling thread to processors (`worker_cpu_affinity`). A failure is logged and leaves it free.
fn stay_on(processors: &[usize], logs: &Logs) {
    let mut set = CpuSet::new();
    for &processor in processors {
        // The configuration holds no number that is too large.
        set.set(processor).ok();
    }
    let result = sched_setaffinity(Pid::from_raw(0), &set);
    // In nginx's order, but when it is done: who reads the line finds it so.
    for processor in processors {
        let text = format_args!("sched_setaffinity(): using cpu #{processor}");
        logs.main().emit(Level::Notice, None, text);
    }
    if let Err(error) = result {
        let error = Errno(&error.into());
        logs.main().emit(
            Level::Alert,
            None,
            format_args!("sched_setaffinity() failed ({error})"),
        );
    }
}

async fn serve(
    setup: Setup,
    mut commands: mpsc::UnboundedReceiver<Command>,
    started: std::sync::mpsc::Sender<()>,
) -> std::io::Result<Rc<AccessLogs>> {
    let access = AccessLogs::new(setup.logs.clone());
    let flusher = access.clone();
    tokio::task::spawn_local(async move { flusher.run().await });
    let engines = Rc::new(Engines {
        http: http::Thread::new(setup.http.clone(), access.clone()),
        stream: stream::Thread::new(setup.stream.clone(), access.clone()),
    });
    tokio::task::spawn_local(http::watch(Rc::downgrade(&engines.http)));
    let count = Rc::new(Count::default());
    let doors = open_doors(&setup, &engines, &count)?;
    let patience = setup.config.main.worker_shutdown_timeout;
    drop((setup, started));
    while let Some(command) = commands.recv().await {
        match command {
            Command::Flush(done) => flush(&access, done),
            Command::Ping(done) => drop(done),
            Command::Terminate => break,
            Command::Quit => {
                doors.iter().for_each(JoinHandle::abort);
                engines.http.shutdown();
                engines.stream.quit();
                if let Some(patience) = patience {
                    let rest = drain(&mut commands, &count, &access);
                    if tokio::time::timeout(patience, rest).await.is_ok() {
                        break;
                    }
                    // Requests that are still open then are dropped with their tasks; sessions say that they end.
                    engines.http.end_requests();
                    engines.stream.end_sessions().await;
                } else {
                    drain(&mut commands, &count, &access).await;
                }
                break;
            }
        }
    }
    access.flush();
    Ok(access)
}

/// Waits until the last connection has ended, or for [`Command::Terminate`].
async fn drain(
    commands: &mut mpsc::UnboundedReceiver<Command>,
    count: &Count,
    access: &AccessLogs,
) {
    std::future::poll_fn(|cx| {
        loop {
            match commands.poll_recv(cx) {
                Poll::Ready(Some(Command::Flush(done))) => flush(access, done),
                Poll::Ready(Some(Command::Quit | Command::Ping(_))) => {}
                Poll::Ready(Some(Command::Terminate) | None) => return Poll::Ready(()),
                Poll::Pending => return count.poll_zero(cx),
            }
        }
    })
    .await;
}

fn flush(access: &AccessLogs, done: std::sync::mpsc::Sender<()>) {
    access.flush();
    drop(done);
}

/// A task for each listening socket of this thread.
fn open_doors(
    setup: &Setup,
    engines: &Rc<Engines>,
    count: &Rc<Count>,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let threads = setup.config.main.worker_processes;
    let acceptors = setup.listeners.acceptors(setup.number, threads)?;
    let mut doors = Vec::new();
    for (number, list) in acceptors.into_iter().enumerate() {
        for acceptor in list {
            let door = Door {
                acceptor,
                number,
                limit: setup.config.events.worker_connections,
                alone: threads == 1,
                log: setup.logs.main(),
                engines: engines.clone(),
                count: count.clone(),
            };
            if door.acceptor.is_udp() {
                // It ends by itself, with its last session.
                tokio::task::spawn_local(receive(door));
            } else {
                doors.push(tokio::task::spawn_local(accept(door)));
            }
        }
    }
    Ok(doors)
}
