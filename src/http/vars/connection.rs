//! Variables of the client's connection and of the worker's connections.

use super::{put, put_number, put_seconds, tls};
use crate::{
    common::{addr::Addr, clock},
    conf::model::Level,
    http::exchange::Exchange,
    net::{
        client::{self, Client, Connected},
        proxy_protocol::{FactError, Header},
    },
    vars::VarId,
};

impl Connected for Exchange<'_> {
    fn client(&self) -> &Client {
        &self.client
    }

    fn peer(&self) -> &Addr {
        &self.conn.peer
    }

    fn local(&self) -> &Addr {
        self.conn.local()
    }

    fn proxied(&self) -> Option<&Header> {
        self.conn.proxied.as_deref()
    }

    fn number(&self) -> u64 {
        self.conn.id
    }

    fn hostname(&self) -> &str {
        &self.live.hostname
    }

    fn report_fact(&self, error: FactError<'_>) {
        self.log(Level::Error, format_args!("{error}"));
    }
}

/// Their values; None when `id` is none of them.
pub(super) fn connection(x: &mut Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> Option<bool> {
    Some(match id {
        VarId::ServerName => put(out, x.server.name.as_bytes()),
        VarId::Scheme => put(
            out,
            if x.conn.io.is_plain() {
                b"http"
            } else {
                b"https"
            },
        ),
        VarId::Https => put(out, if x.conn.io.is_plain() { b"" } else { b"on" }),
        VarId::Http2 => put(
            out,
            match (x.conn.io.is_stream(), x.conn.io.is_plain()) {
                (false, _) => b"",
                (true, true) => b"h2c",
                (true, false) => b"h2",
            },
        ),
        VarId::ConnectionRequests => put_number(out, x.conn.requests),
        VarId::ConnectionTime => put_seconds(
            out,
            u64::try_from(clock::now().since(x.conn.started).as_millis()).unwrap_or(0),
        ),
        VarId::Pipe => put(out, if x.pipelined { b"p" } else { b"." }),
        VarId::TcpinfoRtt
        | VarId::TcpinfoRttvar
        | VarId::TcpinfoSndCwnd
        | VarId::TcpinfoRcvSpace => tcp_info(x, id, out),
        VarId::ConnectionsActive
        | VarId::ConnectionsReading
        | VarId::ConnectionsWriting
        | VarId::ConnectionsWaiting => {
            let counts = x.live.counts.read();
            put_number(
                out,
                match id {
                    VarId::ConnectionsActive => counts.active,
                    VarId::ConnectionsReading => counts.reading,
                    VarId::ConnectionsWriting => counts.writing,
                    _ => counts.waiting(),
                },
            )
        }
        VarId::InvalidReferer => false,
        id if id.is_tls() => tls::variable(x, id, out),
        _ => return client::variable(x, id, out),
    })
}

/// `$tcpinfo_*`: the system's own account of the connection; not found where it has none.
fn tcp_info(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    x.conn.io.tcp_info().is_some_and(|info| {
        let number = match id {
            VarId::TcpinfoRtt => info.rtt,
            VarId::TcpinfoRttvar => info.rttvar,
            VarId::TcpinfoSndCwnd => info.snd_cwnd,
            _ => info.rcv_space,
        };
        put_number(out, number.into())
    })
}
