//! Listening sockets.

use crate::conf::model::{Listen, ListenOptions};

/// The sockets that `listens` need, each once, in order of appearance. The position in this list is the number by
/// which a connection's socket is known.
pub fn sockets(listens: &[Listen]) -> Vec<&ListenOptions> {
    let mut sockets: Vec<&ListenOptions> = Vec::new();
    for listen in listens {
        let owner = listens
            .iter()
            .find(|other| other.options.addr == listen.bind_addr)
            .unwrap_or(listen);
        if !sockets
            .iter()
            .any(|socket| socket.addr == owner.options.addr)
        {
            sockets.push(&owner.options);
        }
    }
    sockets
}
