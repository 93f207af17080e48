//! Who is at the other end of a connection, and the variables that say so.
//!
//! Mirrors the variables of a connection, of the worker and of the clock that `http/ngx_http_variables.c` and
//! `stream/ngx_stream_variables.c` both have.

use std::{net::IpAddr, rc::Rc};

use super::proxy_protocol::{FactError, Header};
use crate::{
    common::{addr::Addr, clock, decimal},
    vars::VarId,
};

/// Who connected.
#[derive(Clone, Debug)]
pub struct Client {
    /// Address of the client: the connection's, or the one that realip put in its place.
    pub addr: Addr,
    /// Its text, without the port (`$remote_addr`).
    pub text: Rc<str>,
}

/// A connection as its variables see it.
pub trait Connected {
    /// Who the client is, after realip.
    fn client(&self) -> &Client;

    /// Who connected.
    fn peer(&self) -> &Addr;

    /// The address that the client connected to.
    fn local(&self) -> &Addr;

    /// Who connected, as a proxy said.
    fn proxied(&self) -> Option<&Header>;

    /// `$connection`
    fn number(&self) -> u64;

    /// `$hostname`
    fn hostname(&self) -> &str;

    /// A fact of the PROXY protocol cannot be told.
    fn report_fact(&self, error: FactError<'_>);
}

/// The name of this host for `$hostname`; empty when it has none that is text.
pub fn hostname() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok())
        .unwrap_or_default()
}

impl Client {
    /// The client at the other end of a connection.
    pub fn of(addr: &Addr) -> Self {
        let text = match addr.ip() {
            Some(IpAddr::V4(ip)) => decimal::ipv4(ip),
            Some(IpAddr::V6(ip)) => ip.to_string().into(),
            None => "unix:".into(),
        };
        Self {
            addr: addr.clone(),
            text,
        }
    }
}

/// Appends the value of a variable; None when `id` is none of these.
pub fn variable<C: Connected + ?Sized>(conn: &C, id: &VarId, out: &mut Vec<u8>) -> Option<bool> {
    match id {
        VarId::BinaryRemoteAddr => match conn.client().addr.ip() {
            Some(IpAddr::V4(ip)) => out.extend_from_slice(&ip.octets()),
            Some(IpAddr::V6(ip)) => out.extend_from_slice(&ip.octets()),
            None => out.extend_from_slice(b"unix:"),
        },
        VarId::RemoteAddr => out.extend_from_slice(conn.client().text.as_bytes()),
        VarId::RemotePort => push_port(out, conn.client().addr.port()),
        VarId::RealipRemoteAddr => push_addr(out, conn.peer()),
        VarId::RealipRemotePort => push_port(out, conn.peer().port()),
        VarId::ServerAddr => push_addr(out, conn.local()),
        VarId::ServerPort => push_port(out, conn.local().port()),
        VarId::Connection => decimal::push(out, conn.number()),
        VarId::Hostname => out.extend_from_slice(conn.hostname().as_bytes()),
        // Scripts and configurations compare it: it is the version whose behaviour we have.
        VarId::NginxVersion => out.extend_from_slice(b"1.31.5"),
        VarId::Pid => decimal::push(out, std::process::id().into()),
        VarId::Msec => clock::msec(out),
        VarId::TimeIso8601 => out.extend_from_slice(&clock::time_iso8601()),
        VarId::TimeLocal => out.extend_from_slice(&clock::time_local()),
        _ => return proxy_protocol(conn, id, out),
    }
    Some(true)
}

/// `$proxy_protocol_*`
fn proxy_protocol<C: Connected + ?Sized>(conn: &C, id: &VarId, out: &mut Vec<u8>) -> Option<bool> {
    let is_one = matches!(
        id,
        VarId::ProxyProtocolAddr
            | VarId::ProxyProtocolPort
            | VarId::ProxyProtocolServerAddr
            | VarId::ProxyProtocolServerPort
            | VarId::ProxyProtocolTlv(_)
    );
    let Some(header) = conn.proxied().filter(|_| is_one) else {
        return is_one.then_some(false);
    };
    match id {
        VarId::ProxyProtocolAddr => out.extend_from_slice(header.source.as_bytes()),
        VarId::ProxyProtocolPort => push_port(out, Some(header.source_port)),
        VarId::ProxyProtocolServerAddr => out.extend_from_slice(header.server.as_bytes()),
        VarId::ProxyProtocolServerPort => push_port(out, Some(header.server_port)),
        VarId::ProxyProtocolTlv(name) => match header.fact(name) {
            Ok(Some(value)) => out.extend_from_slice(&value),
            Ok(None) | Err(FactError::Silent) => return Some(false),
            Err(error) => {
                conn.report_fact(error);
                return Some(false);
            }
        },
        _ => return None,
    }
    Some(true)
}

/// An address as `$remote_addr` shows it.
pub fn push_addr(out: &mut Vec<u8>, addr: &Addr) {
    match addr {
        Addr::Inet(addr) => out.extend_from_slice(addr.ip().to_string().as_bytes()),
        Addr::Unix(path) => {
            out.extend_from_slice(b"unix:");
            out.extend_from_slice(path.as_os_str().as_encoded_bytes());
        }
    }
}

fn push_port(out: &mut Vec<u8>, port: Option<u16>) {
    if let Some(port) = port.filter(|port| *port > 0) {
        decimal::push(out, port.into());
    }
}
