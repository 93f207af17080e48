//! What one block says, before it is merged with the blocks around it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    common::addr::Addr,
    conf::{PID, error::Place, model},
    vars::{SlotId, Template},
};

use super::{MethodSupport, Reader};

/// Which block a [`LocationDraft`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `http`
    Http,
    /// `server`
    Server,
    /// `location`
    Location,
    /// `if`
    If,
    /// `limit_except`
    LimitExcept,
}

/// Settings of a block that may differ from location to location.
#[derive(Debug)]
pub(crate) struct LocationDraft {
    pub(crate) role: Role,
    pub(crate) place: Place,
    pub(crate) kind: model::LocationKind,
    pub(crate) name: Vec<u8>,
    pub(crate) internal: Option<bool>,
    pub(crate) handler: Option<model::Handler>,
    /// It says nothing of a handler and is an `if`.
    pub(crate) inherits_handler: bool,
    pub(crate) auto_redirect: bool,
    pub(crate) core: model::CoreDraft,
    pub(crate) proxy: model::ProxyDraft,
    pub(crate) proxy_ssl: model::UpstreamSslDraft,
    pub(crate) grpc: model::ProxyDraft,
    pub(crate) grpc_ssl: model::UpstreamSslDraft,
    pub(crate) headers: model::HeadersDraft,
    pub(crate) headers_inherit: Option<Inherit>,
    pub(crate) trailers_inherit: Option<Inherit>,
    pub(crate) gzip: model::GzipDraft,
    pub(crate) realip: model::RealipDraft,
    pub(crate) limits: model::LimitsDraft,
    pub(crate) access: Option<Vec<model::AccessRule>>,
    pub(crate) access_log: Option<Vec<model::AccessLog>>,
    /// `access_log off`, whatever else there is.
    pub(crate) access_log_off: bool,
    pub(crate) rewrite_log: Option<bool>,
    pub(crate) uninitialized_variable_warn: Option<bool>,
    pub(crate) rewrite: Vec<OpDraft>,
    pub(crate) try_files: Option<model::TryFiles>,
    pub(crate) limit_except: Option<(model::Methods, Box<Self>)>,
    pub(crate) index: Option<Vec<Template>>,
    pub(crate) children: Vec<Self>,
}

impl LocationDraft {
    pub(crate) fn new(role: Role, place: Place) -> Self {
        Self {
            role,
            place,
            kind: model::LocationKind::Block,
            name: Vec::new(),
            internal: None,
            handler: None,
            inherits_handler: false,
            auto_redirect: false,
            core: model::CoreDraft::default(),
            proxy: model::ProxyDraft::default(),
            proxy_ssl: model::UpstreamSslDraft::default(),
            grpc: model::ProxyDraft::default(),
            grpc_ssl: model::UpstreamSslDraft::default(),
            headers: model::HeadersDraft::default(),
            headers_inherit: None,
            trailers_inherit: None,
            gzip: model::GzipDraft::default(),
            realip: model::RealipDraft::default(),
            limits: model::LimitsDraft::default(),
            access: None,
            access_log: None,
            access_log_off: false,
            rewrite_log: None,
            uninitialized_variable_warn: None,
            rewrite: Vec::new(),
            try_files: None,
            limit_except: None,
            index: None,
            children: Vec::new(),
        }
    }

    /// The name as text, for messages.
    pub(crate) fn name_text(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

/// `add_header_inherit` and `add_trailer_inherit`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inherit {
    /// `on`: the lists around are taken when there is none here.
    On,
    /// `off`
    Off,
    /// `merge`: they come after the one here.
    Merge,
}

/// A rewrite directive; an `if` still holds its draft.
#[derive(Debug)]
pub(crate) enum OpDraft {
    /// All but `if`.
    Plain(model::Op),
    /// `if`
    If(Box<IfDraft>),
}

/// `if`
#[derive(Debug)]
pub(crate) struct IfDraft {
    pub(crate) condition: model::Condition,
    /// Its rewrite directives are in here too.
    pub(crate) location: LocationDraft,
}

/// `server { }` of `http`.
#[derive(Debug)]
pub(crate) struct ServerDraft {
    pub(crate) place: Place,
    pub(crate) core: model::ServerCoreDraft,
    pub(crate) http2: model::Http2Draft,
    pub(crate) ssl: model::SslDraft,
    pub(crate) names: Vec<model::ServerName>,
    /// Whether a `listen` was there.
    pub(crate) listen: bool,
    /// Set when the block ends.
    pub(crate) location: Option<LocationDraft>,
}

impl ServerDraft {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            core: model::ServerCoreDraft::default(),
            http2: model::Http2Draft::default(),
            ssl: model::SslDraft::default(),
            names: Vec::new(),
            listen: false,
            location: None,
        }
    }
}

/// One address of `listen`, with all servers that answer there (by index).
#[derive(Clone, Debug)]
pub(crate) struct ListenDraft {
    pub(crate) options: model::ListenOptions,
    /// Options that only one `listen` of an address may set.
    pub(crate) set: bool,
    pub(crate) is_default_set: bool,
    pub(crate) default_server: usize,
    pub(crate) servers: Vec<usize>,
    pub(crate) proxy_protocol: bool,
    pub(crate) ssl: bool,
    pub(crate) http2: bool,
    /// `protocols` and its flags in `ngx_http_conf_addr_t`: for the warning about protocol options.
    pub(crate) protocols: Option<u8>,
    pub(crate) protocols_changed: bool,
}

/// `upstream { }`, or the group behind a `proxy_pass` to an address.
#[derive(Debug)]
pub(crate) struct UpstreamDraft {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) no_port: bool,
    pub(crate) explicit: bool,
    pub(crate) place: Place,
    pub(crate) servers: Vec<model::UpstreamServer>,
    /// Addresses of an implicit group that needs no look-up.
    pub(crate) addrs: Vec<Addr>,
    pub(crate) method: Option<model::Method>,
    pub(crate) support: MethodSupport,
    pub(crate) zone: Option<(Arc<str>, u64)>,
    pub(crate) keepalive: Option<(usize, bool)>,
    pub(crate) keepalive_requests: Option<u64>,
    pub(crate) keepalive_time: Option<Duration>,
    pub(crate) keepalive_timeout: Option<Duration>,
}

impl UpstreamDraft {
    pub(crate) fn new(name: &str, place: Place) -> Self {
        Self {
            name: name.to_owned(),
            port: 0,
            no_port: true,
            explicit: false,
            place,
            servers: Vec::new(),
            addrs: Vec::new(),
            method: None,
            support: MethodSupport::all(),
            zone: None,
            keepalive: None,
            keepalive_requests: None,
            keepalive_time: None,
            keepalive_timeout: None,
        }
    }
}

/// What only `http` has.
#[derive(Debug, Default)]
pub(crate) struct HttpDraft {
    /// There has been a block.
    pub(crate) seen: bool,
    pub(crate) servers: Vec<ServerDraft>,
    pub(crate) limit_zones: Vec<LimitZoneDraft>,
    pub(crate) rate_zones: Vec<RateZoneDraft>,
}

/// Buffer, flush time and compression of buffered logs by file.
pub(crate) type LogBuffers = HashMap<Arc<Path>, (usize, Option<Duration>, Option<u32>)>;

/// What only `stream` has.
#[derive(Debug, Default)]
pub(crate) struct StreamDraft {
    /// There has been a block.
    pub(crate) seen: bool,
    pub(crate) servers: Vec<SessionDraft>,
    pub(crate) limit_zones: Vec<LimitZoneDraft>,
}

/// Settings of `stream` or of a `server` in it.
#[derive(Debug)]
pub(crate) struct SessionDraft {
    pub(crate) place: Place,
    pub(crate) names: Vec<model::ServerName>,
    /// Whether a `listen` was there.
    pub(crate) listen: bool,
    pub(crate) core: model::StreamCoreDraft,
    pub(crate) realip: model::RealipDraft,
    pub(crate) access: Option<Vec<model::AccessRule>>,
    pub(crate) access_log: Option<Vec<model::AccessLog>>,
    /// `access_log off`, whatever else there is.
    pub(crate) access_log_off: bool,
    pub(crate) assignments: Vec<(SlotId, Template)>,
    pub(crate) handler: model::StreamHandler,
    pub(crate) proxy: model::StreamProxyDraft,
    pub(crate) ssl: model::SslDraft,
    pub(crate) proxy_ssl: model::UpstreamSslDraft,
}

impl SessionDraft {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            names: Vec::new(),
            listen: false,
            core: model::StreamCoreDraft::default(),
            realip: model::RealipDraft::default(),
            access: None,
            access_log: None,
            access_log_off: false,
            assignments: Vec::new(),
            handler: model::StreamHandler::None,
            proxy: model::StreamProxyDraft::default(),
            ssl: model::SslDraft::default(),
            proxy_ssl: model::UpstreamSslDraft::default(),
        }
    }
}

/// A zone of `limit_conn`, perhaps named by one before it is defined.
#[derive(Debug)]
pub(crate) struct LimitZoneDraft {
    pub(crate) name: Arc<str>,
    /// What is counted by, as written too; None until the zone is defined.
    pub(crate) key: Option<(Template, String)>,
    pub(crate) size: u64,
}

impl LimitZoneDraft {
    /// A zone that is not defined yet.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            key: None,
            size: 0,
        }
    }

    /// The zone; one that was never defined is an error of the whole configuration, found at its end.
    pub(crate) fn build(self) -> model::LimitZone {
        model::LimitZone {
            name: self.name,
            key: self.key.map(|(key, _)| key).unwrap_or_default(),
            size: self.size,
        }
    }
}

/// A zone of `limit_req`.
#[derive(Debug)]
pub(crate) struct RateZoneDraft {
    pub(crate) zone: LimitZoneDraft,
    /// Thousandths of a request a second.
    pub(crate) rate: u64,
}

impl RateZoneDraft {
    pub(crate) fn build(self) -> model::RateZone {
        let key_text = self.zone.key.as_ref().map(|(_, text)| text.clone());
        model::RateZone {
            zone: self.zone.build(),
            key_text: key_text.unwrap_or_default(),
            rate: self.rate,
        }
    }
}

/// A `log_format`; `combined` exists before any is read.
#[derive(Clone, Debug)]
pub(crate) struct FormatDraft {
    pub(crate) format: Arc<model::LogFormat>,
}

/// `events { }`
#[derive(Debug, Default)]
pub(crate) struct EventsDraft {
    pub(crate) worker_connections: Option<usize>,
    pub(crate) multi_accept: Option<bool>,
    pub(crate) debug_connection: Vec<ipnet::IpNet>,
}

impl EventsDraft {
    pub(crate) fn build(self) -> model::Events {
        model::Events {
            worker_connections: self.worker_connections.unwrap_or(512),
            multi_accept: self.multi_accept.unwrap_or(false),
            debug_connection: self.debug_connection,
        }
    }
}

/// The main context.
#[derive(Debug, Default)]
pub(crate) struct MainDraft {
    pub(crate) daemon: Option<bool>,
    pub(crate) master_process: Option<bool>,
    pub(crate) pid: Option<PathBuf>,
    pub(crate) user: Option<(String, Option<String>)>,
    pub(crate) worker_processes: Option<usize>,
    pub(crate) worker_rlimit_nofile: Option<u64>,
    pub(crate) worker_rlimit_core: Option<u64>,
    pub(crate) worker_shutdown_timeout: Option<Duration>,
    pub(crate) worker_cpu_affinity: Option<model::CpuAffinity>,
    pub(crate) worker_priority: Option<i32>,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) object_cache_inheritable: Option<bool>,
    pub(crate) env: Vec<(String, Option<String>)>,
    pub(crate) transparent: bool,
    pub(crate) error_log: Vec<model::ErrorLog>,
}

impl MainDraft {
    pub(crate) fn build(self, reader: &Reader) -> model::Main {
        let mut error_log = self.error_log;
        if error_log.is_empty() {
            error_log.push(default_error_log(reader));
        }
        model::Main {
            prefix: reader.options.prefix.clone(),
            daemon: self.daemon.unwrap_or(true),
            master_process: self.master_process.unwrap_or(true),
            pid: self.pid.unwrap_or_else(|| reader.full_path(PID)),
            user: self.user,
            worker_processes: self.worker_processes.unwrap_or(1).max(1),
            worker_rlimit_nofile: self.worker_rlimit_nofile,
            worker_rlimit_core: self.worker_rlimit_core,
            worker_shutdown_timeout: self.worker_shutdown_timeout,
            worker_cpu_affinity: self.worker_cpu_affinity.unwrap_or_default(),
            worker_priority: self.worker_priority.unwrap_or(0),
            working_directory: self.working_directory,
            object_cache_inheritable: self.object_cache_inheritable.unwrap_or(true),
            env: self.env,
            transparent: self.transparent,
            error_log: error_log.into(),
        }
    }
}

/// The log of `-e`, or `logs/error.log`, at level error.
fn default_error_log(reader: &Reader) -> model::ErrorLog {
    let target = match reader.options.error_log.as_deref() {
        Some("stderr") => model::LogTarget::Stderr,
        Some(path) => model::LogTarget::File(reader.full_path(path).into()),
        None => model::LogTarget::File(reader.full_path("logs/error.log").into()),
    };
    model::ErrorLog {
        target,
        level: model::Level::Error,
    }
}
