//! Groups of servers: explicit ones by name, implicit ones by the host and port of `proxy_pass`.
//!
//! Mirrors `ngx_http_upstream_add` (`http/ngx_http_upstream.c`), `ngx_http_upstream_init_round_robin` and
//! `ngx_http_upstream_keepalive_init_main_conf`.

use std::{sync::Arc, time::Duration};

use super::{Reader, UpstreamDraft};
use crate::{
    common::addr::Addr,
    conf::{
        address::UrlOptions,
        error::{ConfError, Place, Problem},
        model,
    },
};

/// Which parameters of `server` a balancing method takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodSupport {
    /// `backup`
    pub(crate) backup: bool,
}

impl MethodSupport {
    pub(crate) fn all() -> Self {
        Self { backup: true }
    }

    pub(crate) fn no_backup() -> Self {
        Self { backup: false }
    }
}

/// The group that is looked for.
#[derive(Debug)]
pub(crate) struct AddUpstream<'a> {
    /// Name or host.
    pub(crate) host: &'a str,
    /// The port; 0 for `upstream { }`.
    pub(crate) port: u16,
    /// No port is written.
    pub(crate) no_port: bool,
    /// An `upstream { }` is being defined.
    pub(crate) create: bool,
    /// The addresses, where no name had to be looked up.
    pub(crate) addrs: Vec<Addr>,
    /// Where it is asked for.
    pub(crate) place: &'a Place,
}

impl Reader {
    /// The index of the group, which is added when there is none yet.
    pub(crate) fn add_upstream(&mut self, wanted: AddUpstream<'_>) -> Result<usize, Problem> {
        let host = wanted.host;
        let in_stream = self.in_stream();
        for (index, known) in self.realm.upstreams.iter_mut().enumerate() {
            if !known.name.eq_ignore_ascii_case(host) {
                continue;
            }
            if wanted.create && known.explicit {
                return Err(Problem::Message(format!("duplicate upstream \"{host}\"")));
            }
            if known.explicit && !wanted.no_port {
                return Err(Problem::Message(format!(
                    "upstream \"{host}\" may not have port {}",
                    wanted.port
                )));
            }
            if wanted.create && !known.no_port {
                return Err(Problem::Placed(ConfError::at(
                    format_args!("upstream \"{host}\" may not have port {}", known.port),
                    &known.place,
                )));
            }
            let any = !in_stream && (known.port == 0 || wanted.port == 0);
            if known.port != wanted.port && !any {
                continue;
            }
            if wanted.create {
                known.explicit = true;
                known.port = 0;
                known.addrs.clear();
            }
            return Ok(index);
        }
        let mut draft = UpstreamDraft::new(host, wanted.place.clone());
        draft.port = wanted.port;
        draft.no_port = wanted.no_port;
        draft.explicit = wanted.create;
        if let [addr] = wanted.addrs.as_slice()
            && (wanted.port != 0 || matches!(addr, Addr::Unix(_)))
        {
            draft.addrs = wanted.addrs;
        }
        self.realm.upstreams.push(draft);
        Ok(self.realm.upstreams.len() - 1)
    }
}

impl Reader {
    /// The groups of the block that ends.
    pub(super) fn build_upstreams(&mut self) -> Result<Vec<Arc<model::Upstream>>, ConfError> {
        std::mem::take(&mut self.realm.upstreams)
            .into_iter()
            .map(|draft| draft.build(self).map(Arc::new))
            .collect()
    }
}

impl UpstreamDraft {
    /// The group as it will be used.
    pub(super) fn build(self, reader: &Reader) -> Result<model::Upstream, ConfError> {
        let name: Arc<str> = self.name.as_str().into();
        let servers = if self.explicit {
            if self.servers.iter().all(|server| server.backup) {
                return Err(ConfError::at(
                    format_args!("no servers in upstream \"{name}\""),
                    &self.place,
                ));
            }
            self.servers
        } else {
            vec![self.implicit_server(&name, reader)?]
        };
        let keepalive = (self.explicit && !reader.in_stream()).then_some(model::Keepalive {
            connections: self.keepalive.map_or(DEFAULT_KEEPALIVE, |(n, _)| n),
            local: self.keepalive.is_none_or(|(_, local)| local),
            requests: self.keepalive_requests.unwrap_or(1000),
            time: self.keepalive_time.unwrap_or(Duration::from_hours(1)),
            timeout: self.keepalive_timeout.unwrap_or(Duration::from_mins(1)),
        });
        Ok(model::Upstream {
            name,
            port: self.port,
            explicit: self.explicit,
            servers,
            method: self.method.unwrap_or(model::Method::RoundRobin),
            zone: self.zone,
            keepalive: keepalive.filter(|keepalive| keepalive.connections > 0),
        })
    }

    fn implicit_server(
        &self,
        name: &Arc<str>,
        reader: &Reader,
    ) -> Result<model::UpstreamServer, ConfError> {
        let addrs = if self.addrs.is_empty() {
            if self.port == 0 {
                return Err(ConfError::at(
                    format_args!("no port in upstream \"{name}\""),
                    &self.place,
                ));
            }
            let options = UrlOptions {
                default_port: self.port,
                ..UrlOptions::default()
            };
            reader
                .url(name, options)
                .map_err(|error| {
                    ConfError::at(format_args!("{error} in upstream \"{name}\""), &self.place)
                })?
                .addrs
        } else {
            self.addrs.clone()
        };
        Ok(model::UpstreamServer::new(name.clone(), addrs))
    }
}

/// Idle connections of an `upstream { }` that does not say `keepalive`, since 1.29.7.
const DEFAULT_KEEPALIVE: usize = 32;
