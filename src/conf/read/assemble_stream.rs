//! Merges the servers of a `stream` block with the block itself and makes the model of them.
//!
//! Mirrors the end of `ngx_stream_block` and the modules' `merge_srv_conf`.

use std::{mem, path::Path, sync::Arc};

use super::{
    LimitZoneDraft, Problem, Reader, SessionDraft,
    names::{first_name, listens},
    tls,
};
use crate::conf::{
    error::{ConfError, Place},
    model,
};

impl Reader {
    /// Ends the `stream` block.
    pub(crate) fn assemble_stream(&mut self) -> Result<model::Stream, Problem> {
        let nowhere = Place {
            file: None,
            line: 0,
        };
        let mut outer = mem::replace(&mut self.session, SessionDraft::new(nowhere));
        let upstreams = self.build_upstreams()?;
        let mut drafts = mem::take(&mut self.stream.servers);
        let ssl = drafts.iter_mut().map(|draft| &mut draft.ssl);
        let ssl = self.merge_ssl(ssl, &mut outer.ssl)?;
        outer.proxy_ssl.directory = Some(self.directory());
        outer.proxy.ssl = Some(Arc::new(tls::upstream(&outer.proxy_ssl)));
        let servers = drafts
            .into_iter()
            .zip(ssl)
            .map(|(draft, ssl)| server(draft, ssl, &outer).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let addresses = mem::take(&mut self.realm.listens);
        tls::check_listens(&addresses, &servers)?;
        let slots = self.vars.finish()?;
        let listens = listens(addresses, &servers, &mut self.warnings)?;
        Ok(model::Stream {
            servers,
            listens,
            upstreams,
            slots,
            limit_zones: mem::take(&mut self.stream.limit_zones)
                .into_iter()
                .map(LimitZoneDraft::build)
                .collect(),
            core: outer.core.build(),
            access_log: outer.access_log.unwrap_or_default().into(),
        })
    }
}

fn server(
    mut draft: SessionDraft,
    ssl: Arc<model::Ssl>,
    outer: &SessionDraft,
) -> Result<model::StreamServer, ConfError> {
    draft.core.inherit(&outer.core);
    draft.realip.inherit(&outer.realip);
    let proxy = proxy(&mut draft, outer)?;
    let access = draft.access.as_ref().or(outer.access.as_ref());
    let access_log = match (&draft.access_log, &outer.access_log) {
        (Some(_), _) if draft.access_log_off => None,
        (None, _) if outer.access_log_off => None,
        (own, outer) => own.as_ref().or(outer.as_ref()),
    };
    if draft.names.is_empty() {
        draft.names.push(model::ServerName::Name("".into()));
    }
    Ok(model::StreamServer {
        name: first_name(&draft.names),
        origin: (
            draft.place.file.unwrap_or_else(|| Path::new("").into()),
            draft.place.line,
        ),
        core: draft.core.build(),
        ssl,
        realip: Arc::new(draft.realip.build()),
        access: access.map_or_else(|| Arc::from([]), |rules| rules.as_slice().into()),
        access_log: access_log.map_or_else(|| Arc::from([]), |logs| logs.as_slice().into()),
        assignments: draft.assignments,
        handler: draft.handler,
        proxy: Arc::new(proxy),
        names: draft.names,
    })
}

fn proxy(draft: &mut SessionDraft, outer: &SessionDraft) -> Result<model::StreamProxy, ConfError> {
    let own_ssl = !draft.proxy_ssl.is_unset();
    draft.proxy_ssl.inherit(&outer.proxy_ssl);
    draft.proxy.ssl = own_ssl.then(|| Arc::new(tls::upstream(&draft.proxy_ssl)));
    draft.proxy.inherit(&outer.proxy);
    let proxy = draft.proxy.build();
    if proxy.ssl.enabled {
        tls::check_upstream(&proxy.ssl, "proxy")?;
    }
    Ok(proxy)
}
