//! `stream` and its servers.
//!
//! Mirrors `ngx_stream_block` (`stream/ngx_stream.c`) and `ngx_stream_core_server`
//! (`stream/ngx_stream_core_module.c`). A directive that `http` has too is read by the same function; its row is here
//! because nginx has it twice.

pub(super) mod handlers;
pub(super) mod limits;
pub(super) mod logs;
pub(super) mod maps;
pub(super) mod proxy;
pub(super) mod settings;
pub(super) mod upstream;

use super::{BLOCK, NONE, ONE_MORE, Row, STREAM, STREAM_SERVER, listen};
use crate::conf::{
    error::{ConfError, Problem},
    parser::Statement,
    read::{Reader, Realm, SessionDraft},
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "server",
        STREAM,
        BLOCK | NONE,
        server,
        "Defines a server of streams.",
    ),
    Row::new(
        "listen",
        STREAM_SERVER,
        ONE_MORE,
        listen::listen,
        "Sets an address and port, or a Unix socket, where the server accepts; `udp` is for datagrams.",
    ).takes("<address>:<port> | <port> | unix:<path> [udp] [default_server] \
             [proxy_protocol] [reuseport] [backlog=<number>] [rcvbuf=<size>] \
             [sndbuf=<size>] [deferred] [bind] [ipv6only=on|off] [fastopen=<number>] \
             [multipath] [so_keepalive=on|off|<idle>:<interval>:<count>]", "").differs(&["unsupported", "udp-threads", "udp-busy", "udp-reload"]),
    Row::new(
        "server_name",
        STREAM_SERVER,
        ONE_MORE,
        listen::server_name,
        "Sets the names of the server, for clients that ask for one in TLS.",
    ).takes("<name> ...", "\"\""),
];

/// Both levels.
const BOTH: super::Contexts = STREAM | STREAM_SERVER;

pub(super) fn stream(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if std::mem::replace(&mut reader.stream.seen, true) {
        return Err(Problem::duplicate());
    }
    reader.enter(Realm::Stream, statement);
    reader.session = SessionDraft::new(statement.place.clone());
    reader.block(statement, STREAM)?;
    reader.done_stream = Some(reader.assemble_stream()?);
    Ok(())
}

fn server(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let draft = SessionDraft::new(statement.place.clone());
    let outer = std::mem::replace(&mut reader.session, draft);
    let result = reader.block(statement, STREAM_SERVER);
    let server = std::mem::replace(&mut reader.session, outer);
    result?;
    if !server.listen {
        let text = "no \"listen\" is defined for server";
        return Err(ConfError::at(text, &statement.place).into());
    }
    reader.stream.servers.push(server);
    Ok(())
}
