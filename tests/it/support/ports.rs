//! Addresses that nobody else uses: the system chooses them (bind to port 0).

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

use socket2::{Domain, Socket, Type};

/// What a name in a configuration text stands for, by its beginning.
#[derive(Debug)]
pub(crate) enum Place {
    /// `{{listen…}}`: an address that the program listens on.
    Listen(
        SocketAddr,
        #[expect(dead_code, reason = "it keeps the port")] Socket,
    ),
    /// `{{refused…}}`: an address that refuses connections as long as this lives.
    Refused(
        SocketAddr,
        #[expect(dead_code, reason = "it keeps the port")] Socket,
    ),
    /// `{{udp_listen…}}`: an address at which the program takes datagrams; `{{udp_wildcard…}}`: any address and a port.
    UdpListen(
        SocketAddr,
        #[expect(dead_code, reason = "it keeps the port")] Socket,
    ),
    /// `{{udp_refused…}}`: an address that refuses datagrams as long as this lives.
    UdpRefused(
        SocketAddr,
        #[expect(dead_code, reason = "it keeps the port")] Socket,
    ),
    /// `{{udp_…}}`: a backend for datagrams.
    UdpBackend(SocketAddr, UdpSocket),
    /// Everything else: a backend, which listens already.
    Backend(SocketAddr, TcpListener),
}

impl Place {
    fn new(name: &str) -> Self {
        let host = if name.starts_with("udp_wildcard") {
            Ipv4Addr::UNSPECIFIED
        } else {
            Ipv4Addr::LOCALHOST
        };
        let any = SocketAddr::from((host, 0));
        let udp = name.strip_prefix("udp_");
        let kind = udp.map_or(Type::STREAM, |_| Type::DGRAM);
        let socket = Socket::new(Domain::IPV4, kind, None).unwrap();
        // A socket that is bound and does not listen keeps others from getting the port, but not a program that asks
        // for this very port and allows addresses to be used again, as servers do.
        // For datagrams the system would give one port to two such sockets: there it is allowed once the port is chosen.
        socket.set_reuse_address(udp.is_none()).unwrap();
        socket.bind(&any.into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        if let Some(name) = udp {
            return Self::datagrams(name, address, socket);
        }
        if name.starts_with("refused") {
            return Self::Refused(address, socket);
        }
        if name.starts_with("listen") {
            return Self::Listen(address, socket);
        }
        socket.listen(64).unwrap();
        Self::Backend(address, socket.into())
    }

    fn datagrams(name: &str, address: SocketAddr, socket: Socket) -> Self {
        if name.starts_with("listen") || name.starts_with("wildcard") {
            socket.set_reuse_address(true).unwrap();
            return Self::UdpListen(address, socket);
        }
        if name.starts_with("refused") {
            // A socket that has a peer takes nothing from others.
            socket.connect(&address.into()).unwrap();
            return Self::UdpRefused(address, socket);
        }
        Self::UdpBackend(address, socket.into())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Listen(address, _)
            | Self::Refused(address, _)
            | Self::UdpListen(address, _)
            | Self::UdpRefused(address, _)
            | Self::UdpBackend(address, _)
            | Self::Backend(address, _) => *address,
        }
    }
}

/// Gives every `{{name}}` of `text` but `{{dir}}` an address, and puts it in.
pub(crate) fn fill(text: &str) -> (String, BTreeMap<String, Place>) {
    let mut places = BTreeMap::new();
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("a name ends with }}");
        filled.push_str(before);
        if name == "dir" {
            filled.push_str("{{dir}}");
        } else {
            let place = places
                .entry(name.to_owned())
                .or_insert_with(|| Place::new(name));
            filled.push_str(&place.address().to_string());
        }
        rest = after;
    }
    filled.push_str(rest);
    (filled, places)
}
