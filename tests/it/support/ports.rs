//! Addresses that nobody else uses: the system chooses them (bind to port 0).

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, TcpListener},
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
    /// Everything else: a backend, which listens already.
    Backend(SocketAddr, TcpListener),
}

impl Place {
    fn new(name: &str) -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // A socket that is bound and does not listen keeps others from getting the port, but not a program that asks
        // for this very port and allows addresses to be used again, as servers do.
        socket.set_reuse_address(true).unwrap();
        socket.bind(&any.into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        if name.starts_with("refused") {
            return Self::Refused(address, socket);
        }
        if name.starts_with("listen") {
            return Self::Listen(address, socket);
        }
        socket.listen(64).unwrap();
        Self::Backend(address, socket.into())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Listen(address, _) | Self::Refused(address, _) | Self::Backend(address, _) => {
                *address
            }
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
