//! syslog: one datagram a line, as RFC 3164 has it.
//!
//! Mirrors `core/ngx_syslog.c`: a line that does not get through is gone, and the next one opens the socket anew.

use std::{
    io::{self, Write as _},
    net::UdpSocket,
    os::unix::net::UnixDatagram,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    common::{addr::Addr, clock},
    conf::model::{self, Level},
};

/// One `syslog:` target and its socket.
#[derive(Debug)]
pub(super) struct SyslogPeer {
    settings: Arc<model::Syslog>,
    hostname: String,
    socket: Mutex<Option<Datagrams>>,
}

#[derive(Debug)]
enum Datagrams {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Datagrams {
    fn connect(addr: &Addr) -> io::Result<Self> {
        match addr {
            Addr::Inet(addr) => {
                let any: &str = if addr.is_ipv4() {
                    "0.0.0.0:0"
                } else {
                    "[::]:0"
                };
                let socket = UdpSocket::bind(any)?;
                socket.set_nonblocking(true)?;
                socket.connect(addr)?;
                Ok(Self::Udp(socket))
            }
            Addr::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                socket.connect(path)?;
                Ok(Self::Unix(socket))
            }
        }
    }

    fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.send(datagram),
            Self::Unix(socket) => socket.send(datagram),
        }
    }
}

impl SyslogPeer {
    pub(super) fn new(settings: Arc<model::Syslog>) -> Self {
        let hostname = nix::unistd::gethostname().unwrap_or_default();
        Self {
            settings,
            hostname: hostname.to_string_lossy().to_lowercase(),
            socket: Mutex::new(None),
        }
    }

    /// Sends a line of the error log; it has a newline at its end that is left out.
    pub(super) fn send_error(&self, level: Level, line: &[u8]) {
        let mut datagram = Vec::with_capacity(line.len() + 80);
        self.head(level as u8 - 1, &mut datagram);
        datagram.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        // Nowhere to report it to: this is the error log.
        self.send(&datagram).ok();
    }

    /// Appends what comes before the line of an access log.
    pub(super) fn access_head(&self, out: &mut Vec<u8>) {
        self.head(self.settings.severity, out);
    }

    /// `<190>Nov 29 19:00:00 host nginx: `
    fn head(&self, severity: u8, out: &mut Vec<u8>) {
        let priority = u32::from(self.settings.facility) * 8 + u32::from(severity);
        write!(out, "<{priority}>").expect("a vector takes any text");
        out.extend_from_slice(&clock::syslog_date());
        out.push(b' ');
        if !self.settings.nohostname {
            out.extend_from_slice(self.hostname.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(self.settings.tag.as_bytes());
        out.extend_from_slice(b": ");
    }

    /// Sends one datagram; a failure closes the socket, so that the next one tries again.
    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if socket.is_none() {
            *socket = Some(Datagrams::connect(&self.settings.server)?);
        }
        let sent = socket
            .as_ref()
            .map_or(Ok(0), |socket| socket.send(datagram));
        if sent
            .as_ref()
            .is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock)
        {
            *socket = None;
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_both_logs() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = SyslogPeer::new(Arc::new(model::Syslog {
            server: server.local_addr().unwrap().into(),
            facility: 23,
            severity: 6,
            tag: "nginx".into(),
            nohostname: true,
        }));
        peer.send_error(Level::Error, b"oops\n");
        let mut datagram = Vec::new();
        peer.access_head(&mut datagram);
        datagram.extend_from_slice(b"GET /");
        peer.send(&datagram).unwrap();
        let receive = || {
            let mut buf = [0; 200];
            let len = server.recv(&mut buf).unwrap();
            String::from_utf8(buf[..len].to_vec()).unwrap()
        };
        let error = receive();
        assert!(
            error.starts_with("<187>") && error.ends_with(" nginx: oops"),
            "{error}"
        );
        let access = receive();
        assert!(
            access.starts_with("<190>") && access.ends_with(" nginx: GET /"),
            "{access}"
        );
    }
}
