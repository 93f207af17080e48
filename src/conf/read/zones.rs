//! Shared memory zones: one name, one size, one use.
//!
//! Mirrors `ngx_shared_memory_add` (`core/ngx_cycle.c`).

use super::{Problem, Reader};

/// What a zone is for (the `tag` in nginx).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneUse {
    /// `zone` of an `upstream` in `http`.
    Upstream,
    /// `zone` of an `upstream` in `stream`.
    StreamUpstream,
    /// `limit_conn_zone` in `http`.
    LimitConn,
    /// `limit_req_zone`
    LimitReq,
    /// `limit_conn_zone` in `stream`.
    StreamLimitConn,
    /// `ssl_session_cache` in `http`.
    SslSessions,
    /// `ssl_session_cache` in `stream`.
    StreamSslSessions,
    /// `ssl_ocsp_cache` in `http`.
    Ocsp,
    /// `ssl_ocsp_cache` in `stream`.
    StreamOcsp,
}

/// A zone that was named somewhere.
#[derive(Debug)]
pub(crate) struct ZoneDraft {
    pub(crate) name: String,
    /// Bytes; 0 until a size is given.
    pub(crate) size: u64,
    usage: ZoneUse,
}

impl Reader {
    /// Names a zone; `size` is 0 where it is only referred to.
    pub(crate) fn add_zone(
        &mut self,
        name: &str,
        size: u64,
        usage: ZoneUse,
    ) -> Result<(), Problem> {
        let Some(known) = self.zones.iter_mut().find(|zone| zone.name == name) else {
            let name = name.to_owned();
            self.zones.push(ZoneDraft { name, size, usage });
            return Ok(());
        };
        if known.usage != usage {
            return Err(Problem::message(format!(
                "the shared memory zone \"{name}\" is already declared for a different use"
            )));
        }
        if known.size == 0 {
            known.size = size;
        }
        if size != 0 && known.size != size {
            return Err(Problem::message(format!(
                "the size {size} of shared memory zone \"{name}\" \
                 conflicts with already declared size {}",
                known.size
            )));
        }
        Ok(())
    }
}

/// A page of memory, for nginx's limits.
pub(crate) const PAGE: u64 = 4096;
