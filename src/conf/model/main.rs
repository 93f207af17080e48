//! The main context and `events`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{CpuAffinity, ErrorLog, Http, Stream};

/// A whole configuration.
#[derive(Debug)]
pub struct Config {
    /// The main context.
    pub main: Main,
    /// `events { }`
    pub events: Events,
    /// `http { }`, if there is one.
    pub http: Option<Http>,
    /// `stream { }`, if there is one.
    pub stream: Option<Stream>,
    /// Every file that was read, in order of reading, for `-T`: path and content.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Warnings, already in nginx's words with file and line, without `nginx: [warn] `.
    pub warnings: Vec<String>,
}

/// Directives of the main context.
#[derive(Clone, Debug)]
pub struct Main {
    /// The prefix that relative paths start from (`-p`), ends with `/`.
    pub prefix: PathBuf,
    /// `daemon`
    pub daemon: bool,
    /// `master_process`
    pub master_process: bool,
    /// `pid`, absolute.
    pub pid: PathBuf,
    /// `user` and its group, as written.
    pub user: Option<(String, Option<String>)>,
    /// `worker_processes`: threads of the worker, 1 or more; `auto` is already resolved.
    // DIFFERS(threads): nginx starts as many processes.
    pub worker_processes: usize,
    /// `worker_rlimit_nofile`
    pub worker_rlimit_nofile: Option<u64>,
    /// `worker_rlimit_core`, bytes.
    pub worker_rlimit_core: Option<u64>,
    /// `worker_shutdown_timeout`
    pub worker_shutdown_timeout: Option<Duration>,
    /// `worker_cpu_affinity`
    pub worker_cpu_affinity: CpuAffinity,
    /// `worker_priority`
    pub worker_priority: i32,
    /// `working_directory`
    pub working_directory: Option<PathBuf>,
    /// `ssl_object_cache_inheritable`: what has not changed of certificates, keys and lists goes on over a reload.
    pub object_cache_inheritable: bool,
    /// `env` lines: name, and a value when one is given.
    pub env: Vec<(String, Option<String>)>,
    /// Whether some `proxy_bind` is `transparent`, which takes a capability.
    pub transparent: bool,
    /// `error_log` of the main context; the default is `logs/error.log` at level error.
    pub error_log: Arc<[ErrorLog]>,
}

/// Directives of `events`.
#[derive(Clone, Debug)]
pub struct Events {
    /// `worker_connections`, per thread.
    pub worker_connections: usize,
    /// `multi_accept`
    pub multi_accept: bool,
    /// `debug_connection`
    pub debug_connection: Vec<ipnet::IpNet>,
}
