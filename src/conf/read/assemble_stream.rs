//! Merges the servers of a `stream` block with the block itself and makes the model of them.
//!
//! Mirrors the end of `ngx_stream_block` and the modules' `merge_srv_conf`.

use std::{mem, path::Path, sync::Arc};

use super::{
    LimitZoneDraft, Problem, Reader, SessionDraft,
    names::{first_name, listens},
};
use crate::conf::{error::Place, model};

impl Reader {
    /// Ends the `stream` block.
    pub(crate) fn assemble_stream(&mut self) -> Result<model::Stream, Problem> {
        let nowhere = Place {
            file: None,
            line: 0,
        };
        let outer = mem::replace(&mut self.session, SessionDraft::new(nowhere));
        let upstreams = self.build_upstreams()?;
        let servers: Vec<_> = mem::take(&mut self.stream.servers)
            .into_iter()
            .map(|draft| Arc::new(server(draft, &outer)))
            .collect();
        let slots = self.vars.finish()?;
        let addresses = mem::take(&mut self.realm.listens);
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

fn server(mut draft: SessionDraft, outer: &SessionDraft) -> model::StreamServer {
    draft.core.inherit(&outer.core);
    draft.realip.inherit(&outer.realip);
    draft.proxy.inherit(&outer.proxy);
    let access = draft.access.as_ref().or(outer.access.as_ref());
    let access_log = match (&draft.access_log, &outer.access_log) {
        (Some(_), _) if draft.access_log_off => None,
        (None, _) if outer.access_log_off => None,
        (own, outer) => own.as_ref().or(outer.as_ref()),
    };
    if draft.names.is_empty() {
        draft.names.push(model::ServerName::Name("".into()));
    }
    model::StreamServer {
        name: first_name(&draft.names),
        origin: (
            draft.place.file.unwrap_or_else(|| Path::new("").into()),
            draft.place.line,
        ),
        core: draft.core.build(),
        ssl: Arc::new(model::SslDraft::default().build()),
        realip: Arc::new(draft.realip.build()),
        access: access.map_or_else(|| Arc::from([]), |rules| rules.as_slice().into()),
        access_log: access_log.map_or_else(|| Arc::from([]), |logs| logs.as_slice().into()),
        assignments: draft.assignments,
        handler: draft.handler,
        proxy: Arc::new(draft.proxy.build()),
        names: draft.names,
    }
}
