//! http
pub mod buffer;
pub mod h1;

use std::{rc::Rc, sync::Arc};

use crate::{conf::model, log, net};

/// What all threads share.
#[derive(Debug)]
pub struct Live {
    config: Arc<model::Config>,
    logs: log::Logs,
}

impl Live {
    /// Makes the live things of `config`; `snapshot` is what the worker before it knew of its peers.
    pub fn new(config: Arc<model::Config>, logs: &log::Logs, _snapshot: Option<&str>) -> Arc<Self> {
        Arc::new(Self {
            config,
            logs: logs.clone(),
        })
    }

    /// What the next worker should know of the peers.
    pub fn snapshot(&self) -> String {
        String::new()
    }
}

/// One thread's share.
#[derive(Debug)]
pub struct Thread {
    live: Arc<Live>,
    access: Rc<log::AccessLogs>,
}

impl Thread {
    /// The calling thread's share of `live`.
    pub fn new(live: Arc<Live>, access: Rc<log::AccessLogs>) -> Rc<Self> {
        Rc::new(Self { live, access })
    }

    /// Serves one connection that came in at socket number `socket`, to its end.
    pub async fn serve(self: Rc<Self>, io: net::Io, socket: usize) {
        let _ = (&self.live.config, &self.live.logs, &self.access, socket);
        drop(io);
    }

    /// Ends idle connections; those with a request end after it.
    pub fn shutdown(&self) {}

    /// Open connections.
    pub fn active(&self) -> usize {
        0
    }
}
