//! Merges the drafts of an `http` block from the outside in and makes the model of them.
//!
//! Mirrors `ngx_http_block` and the modules' `merge_srv_conf` and `merge_loc_conf`.

use std::{mem, sync::Arc};

use super::{
    IfDraft, LimitZoneDraft, LocationDraft, OpDraft, Problem, RateZoneDraft, Reader, Role,
    ServerDraft, Statement,
    arrange::arrange,
    draft::Inherit,
    names::{first_name, listens},
    tls,
};
use crate::{
    conf::{
        error::{ConfError, Place},
        model::{self, Handler, LocationKind, Redirects},
    },
    vars::Template,
};

impl Reader {
    /// Ends the `http` block that `statement` began.
    pub(crate) fn assemble(&mut self, statement: &Statement) -> Result<model::Http, Problem> {
        let place = statement.end();
        let defaults = self.default_log();
        let mut servers = mem::take(&mut self.http.servers);
        let mut outer = LocationDraft::new(Role::Http, place.clone());
        mem::swap(&mut outer, &mut self.loc);
        let mut around = mem::replace(&mut self.srv, ServerDraft::new(place.clone()));
        let mut builder = Builder {
            place,
            next_id: 0,
            defaults,
        };
        for server in &mut servers {
            server.core.inherit(&around.core);
            server.http2.inherit(&around.http2);
            builder.check_buffers(&server.core.build())?;
        }
        let upstreams = self.build_upstreams()?;
        let drafts = servers.iter_mut().map(|server| &mut server.ssl);
        let ssl = self.merge_ssl(drafts, &mut around.ssl)?;
        for (proxy, ssl) in [
            (&mut outer.proxy, &mut outer.proxy_ssl),
            (&mut outer.grpc, &mut outer.grpc_ssl),
        ] {
            ssl.directory = Some(self.directory());
            proxy.ssl = Some(Arc::new(tls::upstream(ssl)));
        }
        let servers = servers
            .into_iter()
            .zip(ssl)
            .map(|(server, ssl)| builder.server(server, ssl, &outer).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let location = builder.settings(outer);
        let addresses = mem::take(&mut self.realm.listens);
        tls::check_listens(&addresses, &servers)?;
        let slots = self.vars.finish()?;
        let listens = listens(addresses, &servers, &mut self.warnings)?;
        Ok(model::Http {
            servers,
            listens,
            upstreams,
            slots,
            limit_zones: mem::take(&mut self.http.limit_zones)
                .into_iter()
                .map(LimitZoneDraft::build)
                .collect(),
            rate_zones: mem::take(&mut self.http.rate_zones)
                .into_iter()
                .map(RateZoneDraft::build)
                .collect(),
            location: Arc::new(location),
        })
    }
}

/// Makes locations of drafts.
struct Builder {
    /// The end of the `http` block, where nginx reports what merging finds.
    place: Place,
    next_id: u32,
    /// The log where there is no `access_log`.
    defaults: Arc<[model::AccessLog]>,
}

impl Builder {
    fn error(&self, text: &str) -> ConfError {
        ConfError::at(text, &self.place)
    }

    fn check_buffers(&self, core: &model::ServerCore) -> Result<(), ConfError> {
        if core.large_client_header_buffers.1 < core.connection_pool_size {
            return Err(self.error(
                "the \"large_client_header_buffers\" size must be \
                 equal to or greater than \"connection_pool_size\"",
            ));
        }
        Ok(())
    }

    fn server(
        &mut self,
        draft: ServerDraft,
        ssl: Arc<model::Ssl>,
        outer: &LocationDraft,
    ) -> Result<model::Server, ConfError> {
        let place = draft.place.clone();
        let mut location = draft
            .location
            .unwrap_or_else(|| LocationDraft::new(Role::Server, place.clone()));
        inherit(&mut location, outer);
        self.check(&location)?;
        let ops = mem::take(&mut location.rewrite);
        let rewrite = self.ops(ops, &location)?;
        let (named, children): (Vec<_>, Vec<_>) = mem::take(&mut location.children)
            .into_iter()
            .partition(|child| matches!(child.kind, LocationKind::Named));
        let mut named = named
            .into_iter()
            .map(|child| {
                let name = child.name.clone().into_boxed_slice();
                Ok((name, Arc::new(self.location(child, &location)?)))
            })
            .collect::<Result<Vec<_>, ConfError>>()?;
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let children = self.children(children, &location)?;
        let mut settings = self.settings(location);
        settings.children = children;
        let names = if draft.names.is_empty() {
            vec![model::ServerName::Name("".into())]
        } else {
            draft.names
        };
        Ok(model::Server {
            name: first_name(&names),
            names,
            core: draft.core.build(),
            ssl,
            http2: draft.http2.build(),
            location: Arc::new(settings),
            rewrite,
            named,
            origin: (
                place
                    .file
                    .unwrap_or_else(|| std::path::Path::new("").into()),
                place.line,
            ),
        })
    }

    /// A location with what is inside it.
    fn location(
        &mut self,
        mut draft: LocationDraft,
        outer: &LocationDraft,
    ) -> Result<model::Location, ConfError> {
        inherit(&mut draft, outer);
        self.check(&draft)?;
        let ops = mem::take(&mut draft.rewrite);
        let rewrite = self.ops(ops, &draft)?;
        let limit_except = match draft.limit_except.take() {
            Some((methods, inner)) => {
                let inner = self.location(*inner, &draft)?;
                Some((methods, Arc::new(inner)))
            }
            None => None,
        };
        let children = mem::take(&mut draft.children);
        let children = self.children(children, &draft)?;
        let mut location = self.settings(draft);
        location.rewrite = rewrite;
        location.limit_except = limit_except;
        location.children = children;
        Ok(location)
    }

    fn children(
        &mut self,
        drafts: Vec<LocationDraft>,
        outer: &LocationDraft,
    ) -> Result<model::Locations, ConfError> {
        let mut locations = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let place = draft.place.clone();
            locations.push((Arc::new(self.location(draft, outer)?), place));
        }
        arrange(locations)
    }

    fn ops(
        &mut self,
        drafts: Vec<OpDraft>,
        outer: &LocationDraft,
    ) -> Result<Vec<model::Op>, ConfError> {
        drafts
            .into_iter()
            .map(|draft| match draft {
                OpDraft::Plain(op) => Ok(op),
                OpDraft::If(draft) => {
                    let IfDraft {
                        condition,
                        mut location,
                    } = *draft;
                    let inner = mem::take(&mut location.rewrite);
                    let ops = self.ops(inner, outer)?;
                    let location = Arc::new(self.location(location, outer)?);
                    Ok(model::Op::If(Box::new(model::If {
                        condition,
                        ops,
                        location,
                    })))
                }
            })
            .collect()
    }

    /// What merging may find wrong with merged settings.
    fn check(&self, draft: &LocationDraft) -> Result<(), ConfError> {
        let proxy = draft.proxy.build();
        let (number, each) = proxy.buffers;
        let size = proxy.buffer_size.max(each);
        let busy = proxy.busy_buffers_size.unwrap_or(2 * size);
        let problem = if number < 2 {
            "there must be at least 2 \"proxy_buffers\""
        } else if busy < size {
            "\"proxy_busy_buffers_size\" must be equal to or greater than \
             the maximum of the value of \"proxy_buffer_size\" and one of the \"proxy_buffers\""
        } else if busy > (number - 1) * each {
            "\"proxy_busy_buffers_size\" must be less than \
             the size of all \"proxy_buffers\" minus one buffer"
        } else if proxy.temp_file_write_size.is_some_and(|n| n < size) {
            "\"proxy_temp_file_write_size\" must be equal to or greater \
             than the maximum of the value of \"proxy_buffer_size\" and one of the \"proxy_buffers\""
        } else if proxy.max_temp_file_size != 0 && proxy.max_temp_file_size < size as u64 {
            "\"proxy_max_temp_file_size\" must be equal to zero to disable \
             temporary files usage or must be equal to or greater than \
             the maximum of the value of \"proxy_buffer_size\" and one of the \"proxy_buffers\""
        } else {
            tls::check_proxy(&draft.proxy, "proxy")?;
            return tls::check_proxy(&draft.grpc, "grpc");
        };
        Err(self.error(problem))
    }

    /// The settings of a merged draft, without what is inside it.
    fn settings(&mut self, draft: LocationDraft) -> model::Location {
        let id = self.next_id;
        self.next_id += 1;
        model::Location {
            id,
            kind: draft.kind,
            name: draft.name.into(),
            auto_redirect: draft.auto_redirect,
            internal: draft.internal.unwrap_or(false),
            grpc: matches!(draft.handler, Some(Handler::Grpc)).then(|| grpc(&draft.grpc)),
            handler: draft.handler.unwrap_or(Handler::Static),
            inherits_handler: draft.inherits_handler,
            core: draft.core.build(),
            proxy: Arc::new(draft.proxy.build()),
            headers: Arc::new(draft.headers.build()),
            gzip: Arc::new(draft.gzip.build()),
            realip: Arc::new(draft.realip.build()),
            limits: Arc::new(draft.limits.build()),
            access: draft.access.unwrap_or_default().into(),
            access_log: match draft.access_log {
                _ if draft.access_log_off => Arc::from([]),
                Some(logs) => logs.into(),
                None => self.defaults.clone(),
            },
            rewrite_log: draft.rewrite_log.unwrap_or(false),
            uninitialized_variable_warn: draft.uninitialized_variable_warn.unwrap_or(true),
            rewrite: Vec::new(),
            try_files: draft.try_files,
            limit_except: None,
            index: draft
                .index
                .unwrap_or_else(|| vec![Template::literal(b"index.html")])
                .into(),
            children: model::Locations::default(),
        }
    }
}

/// Settings of gRPC, with what nginx has fixed.
fn grpc(draft: &model::ProxyDraft) -> Arc<model::Proxy> {
    Arc::new(model::Proxy {
        http_version: model::ProxyVersion::Http2,
        buffering: false,
        request_buffering: false,
        max_temp_file_size: 0,
        pass_trailers: true,
        ..draft.build()
    })
}

/// Takes from the block around what `draft` does not say.
fn inherit(draft: &mut LocationDraft, outer: &LocationDraft) {
    draft.core.inherit(&outer.core);
    inherit_proxy(draft, outer);
    inherit_headers(draft, outer);
    draft.gzip.inherit(&outer.gzip);
    draft.realip.inherit(&outer.realip);
    draft.limits.inherit(&outer.limits);
    take(&mut draft.internal, outer.internal.as_ref());
    take(&mut draft.access, outer.access.as_ref());
    if draft.access_log.is_none() {
        draft.access_log.clone_from(&outer.access_log);
        draft.access_log_off = outer.access_log_off;
    }
    take(&mut draft.rewrite_log, outer.rewrite_log.as_ref());
    take(
        &mut draft.uninitialized_variable_warn,
        outer.uninitialized_variable_warn.as_ref(),
    );
    take(&mut draft.index, outer.index.as_ref());
}

fn take<T: Clone>(slot: &mut Option<T>, outer: Option<&T>) {
    if slot.is_none() {
        *slot = outer.cloned();
    }
}

fn inherit_proxy(draft: &mut LocationDraft, outer: &LocationDraft) {
    let nested = matches!(draft.role, Role::If | Role::LimitExcept);
    let own = draft.proxy.pass.clone().flatten();
    let ssl = (&mut draft.proxy_ssl, &outer.proxy_ssl);
    inherit_upstream((&mut draft.proxy, &outer.proxy), ssl, nested);
    let ssl = (&mut draft.grpc_ssl, &outer.grpc_ssl);
    inherit_upstream((&mut draft.grpc, &outer.grpc), ssl, nested);
    if let Some(pass) = own.filter(|_| draft.proxy.redirect.is_none()) {
        draft.proxy.redirect = default_redirect(&pass, &draft.name);
    }
    if draft.handler.is_none() {
        draft.inherits_handler = matches!(draft.role, Role::If);
        draft.handler = match draft.role {
            // An `if` without a handler leaves the location's as it is.
            Role::If => outer.handler.clone(),
            Role::LimitExcept if draft.proxy.pass.is_some() => Some(Handler::Proxy),
            Role::LimitExcept if draft.grpc.pass.is_some() => Some(Handler::Grpc),
            _ => None,
        };
    }
}

/// Settings of a protocol's proxy: where it passes requests to is inherited by nested blocks alone.
fn inherit_upstream(
    (proxy, outer): (&mut model::ProxyDraft, &model::ProxyDraft),
    (ssl, outer_ssl): (&mut model::UpstreamSslDraft, &model::UpstreamSslDraft),
    nested: bool,
) {
    let own_ssl = !ssl.is_unset();
    ssl.inherit(outer_ssl);
    proxy.ssl = own_ssl.then(|| Arc::new(tls::upstream(ssl)));
    let own = proxy.pass.take();
    proxy.inherit(outer);
    proxy.pass = if nested {
        own.or_else(|| outer.pass.clone())
    } else {
        own
    };
}

/// `proxy_redirect default`: None when `proxy_pass` has variables.
pub(crate) fn default_redirect(pass: &model::ProxyPass, location: &[u8]) -> Option<Redirects> {
    let url = pass.url.as_literal()?;
    let (from, to) = if pass.uri.is_some() {
        let to = if pass.location_len == 0 {
            &[]
        } else {
            location
        };
        (url.to_vec(), to)
    } else {
        ([url, b"/"].concat(), &b"/"[..])
    };
    let rewriting = model::Rewriting {
        from: model::RewritingFrom::Text(Template::literal(&from)),
        to: Template::literal(to),
    };
    Some(Redirects::List(Arc::from([rewriting])))
}

/// `add_header` and `add_trailer` are inherited as whole lists, unless `*_inherit` says otherwise.
fn inherit_headers(draft: &mut LocationDraft, outer: &LocationDraft) {
    take(&mut draft.headers_inherit, outer.headers_inherit.as_ref());
    take(&mut draft.trailers_inherit, outer.trailers_inherit.as_ref());
    take(&mut draft.headers.expires, outer.headers.expires.as_ref());
    let add = draft.headers.add.take();
    draft.headers.add = list(draft.headers_inherit, add, outer.headers.add.as_ref());
    let trailers = draft.headers.trailers.take();
    draft.headers.trailers = list(
        draft.trailers_inherit,
        trailers,
        outer.headers.trailers.as_ref(),
    );
}

fn list(
    how: Option<Inherit>,
    own: Option<Vec<model::AddHeader>>,
    outer: Option<&Vec<model::AddHeader>>,
) -> Option<Vec<model::AddHeader>> {
    match (how.unwrap_or(Inherit::On), own, outer) {
        (Inherit::Off, own, _) | (_, own, None) => own,
        (_, None, Some(outer)) => Some(outer.clone()),
        (Inherit::On, Some(own), Some(_)) => Some(own),
        (Inherit::Merge, Some(own), Some(outer)) => {
            Some(own.iter().chain(outer).cloned().collect())
        }
    }
}
