//! Clients and backends that speak in datagrams.

use std::{
    fs,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

/// How long a client waits for a datagram.
const PATIENCE: Duration = Duration::from_secs(5);
/// Room for any datagram.
const LARGEST: usize = 65536;

/// A client's socket.
pub(crate) struct Datagrams {
    socket: UdpSocket,
}

impl Datagrams {
    /// A socket for one server.
    pub(crate) fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }

    /// A socket for servers at several addresses; see [`Self::ask_at`].
    pub(crate) fn open() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }

    /// Sends a datagram.
    pub(crate) fn send(&self, bytes: impl AsRef<[u8]>) -> &Self {
        self.socket.send(bytes.as_ref()).unwrap();
        self
    }

    /// The next datagram.
    ///
    /// # Panics
    /// When none comes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut buffer = vec![0; LARGEST];
        let n = self.socket.recv(&mut buffer).expect("a datagram comes");
        buffer.truncate(n);
        buffer
    }

    /// The next datagram as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    /// Sends a datagram and waits for another.
    pub(crate) fn ask(&self, bytes: impl AsRef<[u8]>) -> String {
        self.send(bytes).text()
    }

    /// Sends a datagram to an address and waits for another: its text, and where it comes from.
    pub(crate) fn ask_at(&self, server: SocketAddr, bytes: &str) -> (String, SocketAddr) {
        self.socket.send_to(bytes.as_bytes(), server).unwrap();
        let mut buffer = [0; 2048];
        let (n, from) = self.socket.recv_from(&mut buffer).unwrap();
        (String::from_utf8_lossy(&buffer[..n]).into_owned(), from)
    }

    /// Whether nothing has come.
    pub(crate) fn is_silent(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let got = self.socket.recv(&mut [0; 1]);
        self.socket.set_nonblocking(false).unwrap();
        got.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Waits until the server has taken what was sent to it off its sockets, so that nothing is lost for want of room.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) fn wait_taken(&self) {
        let port = self.socket.peer_addr().unwrap().port();
        let deadline = Instant::now() + PATIENCE;
        // proc(5): the local address and, three fields on, the queues, in hexadecimal.
        let waits = |line: &str| {
            let mut fields = line.split_whitespace();
            let is_server = fields
                .nth(1)
                .is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
            is_server
                && !fields
                    .nth(2)
                    .is_some_and(|queues| queues.ends_with(":00000000"))
        };
        while fs::read_to_string("/proc/net/udp")
            .unwrap()
            .lines()
            .any(waits)
        {
            assert!(Instant::now() < deadline, "it is not taken");
            thread::yield_now();
        }
    }

    /// The port that the socket is bound to.
    pub(crate) fn port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }
}

/// Serves a backend's socket for as long as the test runs.
pub(crate) fn serve(
    socket: UdpSocket,
    mut script: impl FnMut(&UdpSocket, &[u8], SocketAddr) + Send + 'static,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; LARGEST];
        loop {
            // A client that is gone is no reason to stop.
            if let Ok((n, from)) = socket.recv_from(&mut buffer) {
                script(&socket, &buffer[..n], from);
            }
        }
    });
}
