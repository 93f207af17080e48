//! Variables of the client's connection, the worker and the clock.

use std::net::IpAddr;

use super::{addr_without_port, put, put_number, put_seconds, put_some};
use crate::{
    common::clock, conf::model::Level, http::exchange::Exchange, net::proxy_protocol::FactError,
    vars::VarId,
};

/// Their values; None when `id` is none of them.
pub(super) fn connection(x: &mut Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> Option<bool> {
    Some(match id {
        VarId::BinaryRemoteAddr => match x.client.addr.ip() {
            Some(IpAddr::V4(ip)) => put(out, &ip.octets()),
            Some(IpAddr::V6(ip)) => put(out, &ip.octets()),
            None => put(out, b"unix:"),
        },
        VarId::RemoteAddr => put(out, x.client.text.as_bytes()),
        VarId::RemotePort => put_port(out, x.client.addr.port()),
        VarId::RealipRemoteAddr => put(out, addr_without_port(&x.conn.peer).as_bytes()),
        VarId::RealipRemotePort => put_port(out, x.conn.peer.port()),
        VarId::ServerAddr => put(out, addr_without_port(x.conn.local()).as_bytes()),
        VarId::ServerPort => put_port(out, x.conn.local().port()),
        VarId::ServerName => put(out, x.server.name.as_bytes()),
        VarId::Scheme => put(out, b"http"),
        VarId::Https => put(out, b""),
        VarId::Connection => put_number(out, x.conn.id),
        VarId::ConnectionRequests => put_number(out, x.conn.requests),
        VarId::ConnectionTime => put_seconds(
            out,
            u64::try_from(clock::now().since(x.conn.started).as_millis()).unwrap_or(0),
        ),
        VarId::Pipe => put(out, if x.pipelined { b"p" } else { b"." }),
        VarId::Hostname => put(out, x.live.hostname.as_bytes()),
        // Scripts and configurations compare it: it is the version whose behaviour we have.
        VarId::NginxVersion => put(out, b"1.31.5"),
        VarId::Pid => put_number(out, std::process::id().into()),
        VarId::Msec => {
            clock::msec(out);
            true
        }
        VarId::TimeIso8601 => put(out, &clock::time_iso8601()),
        VarId::TimeLocal => put(out, &clock::time_local()),
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
        VarId::ProxyProtocolAddr
        | VarId::ProxyProtocolPort
        | VarId::ProxyProtocolServerAddr
        | VarId::ProxyProtocolServerPort
        | VarId::ProxyProtocolTlv(_) => proxy_protocol(x, id, out),
        VarId::InvalidReferer => false,
        _ => return None,
    })
}

/// `$proxy_protocol_*`
fn proxy_protocol(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    let Some(header) = &x.conn.proxied else {
        return false;
    };
    match id {
        VarId::ProxyProtocolAddr => put(out, header.source.as_bytes()),
        VarId::ProxyProtocolPort => put_port(out, Some(header.source_port)),
        VarId::ProxyProtocolServerAddr => put(out, header.server.as_bytes()),
        VarId::ProxyProtocolServerPort => put_port(out, Some(header.server_port)),
        VarId::ProxyProtocolTlv(name) => match header.fact(name) {
            Ok(value) => put_some(out, value.as_deref()),
            Err(FactError::Silent) => false,
            Err(error) => {
                x.log(Level::Error, format_args!("{error}"));
                false
            }
        },
        _ => false,
    }
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

fn put_port(out: &mut Vec<u8>, port: Option<u16>) -> bool {
    match port {
        Some(port) if port > 0 => put_number(out, port.into()),
        _ => put(out, b""),
    }
}
