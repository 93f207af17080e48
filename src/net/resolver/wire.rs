//! The sockets of one look-up.
//!
//! DIFFERS(resolver-ports): each look-up has its own, connected to the server, so that its port is as hard to guess as the
//! number of its query and only the server can answer. In nginx all look-ups of a worker share one socket a server.

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};

use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadBuf},
    net::{TcpStream, UdpSocket},
};

use super::{Complain, message::Kind};
use crate::common::errno::Errno;

/// The longest message over UDP.
const UDP_SIZE: usize = 4096;

/// Sockets to the servers of a resolver.
pub(super) struct Wire<'a> {
    servers: &'a [SocketAddr],
    complain: &'a Complain,
    udp: Vec<Option<UdpSocket>>,
    /// Exchanges over TCP, one a kind.
    tcp: [Option<Exchange>; 2],
    buf: Vec<u8>,
}

/// A query and its response over TCP, with the index of the server.
struct Exchange {
    server: usize,
    run: Pin<Box<dyn Future<Output = io::Result<Vec<u8>>>>>,
}

/// A message.
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) over_tcp: bool,
}

impl<'a> Wire<'a> {
    pub(super) fn new(servers: &'a [SocketAddr], complain: &'a Complain) -> Self {
        Self {
            servers,
            complain,
            udp: servers.iter().map(|_| None).collect(),
            tcp: [None, None],
            buf: vec![0; UDP_SIZE],
        }
    }

    /// Sends a query over UDP; whether it could be sent.
    pub(super) fn send(&mut self, server: usize, query: &[u8]) -> bool {
        let socket = match self.udp[server].take() {
            Some(socket) => Ok(socket),
            None => udp(self.servers[server]),
        };
        let sent = socket.and_then(|socket| {
            SockRef::from(&socket).send(query)?;
            self.udp[server] = Some(socket);
            Ok(())
        });
        sent.map_err(|error| self.failed("send()", &error, server))
            .is_ok()
    }

    /// Sends a query over TCP, in place of an earlier one for the same kind.
    pub(super) fn send_over_tcp(&mut self, server: usize, kind: Kind, query: &[u8]) {
        let run = Box::pin(exchange(self.servers[server], query.to_vec()));
        self.tcp[kind as usize] = Some(Exchange { server, run });
    }

    /// Waits for the next message from any server.
    pub(super) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Packet> {
        for server in 0..self.udp.len() {
            let Some(socket) = &self.udp[server] else {
                continue;
            };
            let mut buf = ReadBuf::new(&mut self.buf);
            match socket.poll_recv(cx, &mut buf) {
                Poll::Ready(Ok(())) => {
                    return Poll::Ready(Packet {
                        bytes: buf.filled().to_vec(),
                        over_tcp: false,
                    });
                }
                Poll::Ready(Err(error)) => {
                    self.failed("recv()", &error, server);
                    self.udp[server] = None;
                }
                Poll::Pending => {}
            }
        }
        for kind in Kind::ALL {
            let Some(exchange) = &mut self.tcp[kind as usize] else {
                continue;
            };
            let Poll::Ready(result) = exchange.run.as_mut().poll(cx) else {
                continue;
            };
            let server = exchange.server;
            self.tcp[kind as usize] = None;
            match result {
                Ok(bytes) => {
                    return Poll::Ready(Packet {
                        bytes,
                        over_tcp: true,
                    });
                }
                // A server that closes without an answer is asked again later.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => self.failed("send()", &error, server),
            }
        }
        Poll::Pending
    }

    fn failed(&self, what: &str, error: &io::Error, server: usize) {
        let (error, server) = (Errno(error), self.servers[server]);
        (self.complain)(format_args!(
            "{what} failed ({error}) while resolving, resolver: {server}"
        ));
    }
}

/// A socket that hears `server` only.
fn udp(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if server.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

async fn exchange(server: SocketAddr, query: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let len = u16::try_from(query.len()).map_err(io::Error::other)?;
    let mut out = len.to_be_bytes().to_vec();
    out.extend_from_slice(&query);
    stream.write_all(&out).await?;
    let len = stream.read_u16().await?;
    let mut response = vec![0; len.into()];
    stream.read_exact(&mut response).await?;
    Ok(response)
}
