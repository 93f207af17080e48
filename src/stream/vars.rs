//! Values of variables in a session.
//!
//! Mirrors `stream/ngx_stream_variables.c`, `stream/ngx_stream_upstream.c` and the variables of the modules.

use super::session::{Downstream, Session};
use crate::{
    common::{addr::Addr, clock, decimal},
    conf::model::Level,
    net::{
        client::{self, Client, Connected},
        proxy_protocol::{FactError, Header},
    },
    tls,
    vars::{
        Slot, Slots, Source, VarId,
        slots::{self, Scope},
    },
};

impl<D: Downstream> Source for Session<'_, D> {
    fn value(&mut self, id: &VarId, out: &mut Vec<u8>) -> bool {
        match id {
            VarId::Slot(slot) => return slots::value(self, *slot, out),
            VarId::Capture(n) => {
                let Some(text) = self.slots.capture((*n).into()) else {
                    return false;
                };
                out.extend_from_slice(text);
            }
            VarId::BytesReceived => decimal::push(out, self.bytes.from_client),
            VarId::BytesSent => decimal::push(out, self.bytes.to_client),
            VarId::Protocol => out.extend_from_slice(D::PROTOCOL.as_bytes()),
            VarId::ServerName => out.extend_from_slice(self.server.name.as_bytes()),
            VarId::SessionTime => {
                let time = clock::now().since(self.started).as_millis();
                decimal::push_seconds(out, time.try_into().unwrap_or(u64::MAX));
            }
            VarId::Status => out.extend_from_slice(format!("{:03}", self.status).as_bytes()),
            VarId::LimitConnStatus => match self.limit_status {
                Some(status) => out.extend_from_slice(status.text().as_bytes()),
                None => return false,
            },
            VarId::SslPrereadAlpnProtocols
            | VarId::SslPrereadProtocol
            | VarId::SslPrereadServerName => {
                let Some(hello) = &self.hello else {
                    return false;
                };
                out.extend_from_slice(match id {
                    VarId::SslPrereadServerName => hello.name(),
                    VarId::SslPrereadAlpnProtocols => hello.protocols(),
                    _ => hello.version().as_bytes(),
                });
            }
            id if id.is_tls() => {
                let facts = self.tls();
                return facts.is_some_and(|facts| tls::variable(&facts, id, out));
            }
            VarId::UpstreamAddr => return self.attempts.addr(out),
            VarId::UpstreamBytesReceived => return self.attempts.bytes_received(out),
            VarId::UpstreamBytesSent => return self.attempts.bytes_sent(out),
            VarId::UpstreamConnectTime => return self.attempts.connect_time(out),
            VarId::UpstreamFirstByteTime => return self.attempts.first_byte_time(out),
            VarId::UpstreamSessionTime => return self.attempts.response_time(out),
            _ => return client::variable(self, id, out).unwrap_or(false),
        }
        true
    }
}

impl<'g, D: Downstream> Scope<'g> for Session<'g, D> {
    fn definitions(&self) -> &'g [Slot] {
        &self.live.stream().slots
    }

    fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn client(&self) -> &Addr {
        &self.client.addr
    }

    fn report_cycle(&self) {
        self.log(
            Level::Error,
            format_args!("cycle while evaluating variable"),
        );
    }
}

impl<D: Downstream> Connected for Session<'_, D> {
    fn client(&self) -> &Client {
        &self.client
    }

    fn peer(&self) -> &Addr {
        &self.peer
    }

    fn local(&self) -> &Addr {
        self.local()
    }

    fn proxied(&self) -> Option<&Header> {
        self.proxied.as_deref()
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn hostname(&self) -> &str {
        &self.live.hostname
    }

    fn report_fact(&self, error: FactError<'_>) {
        self.log(Level::Error, format_args!("{error}"));
    }
}
