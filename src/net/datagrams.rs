//! A socket that takes datagrams of many clients, and answers them from the address that they were sent to.
//!
//! Datagrams are taken in many at once. Mirrors the reading part of `ngx_event_recvmsg` (`event/ngx_event_udp.c`) and
//! `ngx_sendmsg_vec` (`os/unix/ngx_udp_sendmsg_chain.c`).

use std::{
    array,
    cell::RefCell,
    fmt,
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd, OwnedFd},
    task::{Context, Poll, ready},
};

use nix::{
    cmsg_space, libc,
    sys::socket::{
        ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg,
    },
};
use smallvec::SmallVec;
use socket2::{MsgHdr, SockAddr, SockRef, Socket};
use tokio::{io::Interest, net::UdpSocket};

/// How many datagrams are taken at once.
const BATCH: usize = 32;
/// How many datagrams of one upstream are taken at once.
const AT_ONCE: usize = 8;
/// Room for a datagram of any size, bytes.
const LARGEST: usize = 65536;

/// The socket.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    addr: SocketAddr,
}

/// Room for datagrams, of one thread. Memory that is never written to costs nothing.
pub struct Room {
    bytes: Box<[u8]>,
    headers: MultiHeaders<()>,
    lens: SmallVec<[usize; BATCH]>,
}

/// Takes datagrams from one socket.
pub struct Inbox {
    headers: MultiHeaders<SockaddrStorage>,
    arrived: Vec<Arrived>,
}

/// A datagram in a [`Room`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    place: usize,
    /// Its length, bytes.
    pub len: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// The address that it was sent to, where that is not the socket's own.
    pub to: Option<IpAddr>,
}

impl Datagrams {
    /// A socket that is bound to `addr`. Needs tokio's context.
    pub fn new(fd: OwnedFd, addr: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            socket: UdpSocket::from_std(fd.into())?,
            addr,
        })
    }

    /// The address that a datagram was sent to.
    pub fn local(&self, to: Option<IpAddr>) -> SocketAddr {
        match to {
            Some(ip) => SocketAddr::new(ip, self.addr.port()),
            None => self.addr,
        }
    }

    /// Sends a datagram to a client, from the address that the client sent to.
    pub fn send(&self, bytes: &[u8], client: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
        let client = SockAddr::from(client);
        let buffers = [io::IoSlice::new(bytes)];
        let mut control = [0; CONTROL];
        let header = MsgHdr::new().with_addr(&client).with_buffers(&buffers);
        let control = from.map(|ip| source(ip, &mut control));
        let header = match control {
            Some(control) => header.with_control(control),
            None => header,
        };
        SockRef::from(&self.socket).sendmsg(&header, 0).map(drop)
    }
}

impl Room {
    /// Room for a few dozen datagrams.
    pub fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * LARGEST].into(),
            headers: MultiHeaders::preallocate(AT_ONCE, None),
            lens: SmallVec::new(),
        }
    }

    /// The bytes of a datagram that an [`Inbox`] has taken.
    pub fn bytes(&self, arrived: &Arrived) -> &[u8] {
        self.at(arrived.place, arrived.len)
    }

    fn at(&self, place: usize, len: usize) -> &[u8] {
        let start = place * LARGEST;
        &self.bytes[start..start + len]
    }

    /// Takes datagrams from a socket with one peer, at most `most`; how many, and whether those were all. What an inbox
    /// has taken is lost.
    pub fn take(&mut self, socket: &Socket, most: usize) -> io::Result<(usize, bool)> {
        let most = most.clamp(1, AT_ONCE);
        let mut places = self.bytes.chunks_exact_mut(LARGEST);
        let mut slices: [_; AT_ONCE] =
            array::from_fn(|_| [IoSliceMut::new(places.next().unwrap_or_default())]);
        let (fd, slices) = (socket.as_raw_fd(), &mut slices[..most]);
        let taken = recvmmsg(fd, &mut self.headers, slices, MsgFlags::MSG_DONTWAIT, None)?;
        self.lens.clear();
        self.lens.extend(taken.map(|message| message.bytes));
        Ok((self.lens.len(), self.lens.len() < most))
    }

    /// Datagram number `index` of those that were taken last.
    pub fn taken(&self, index: usize) -> &[u8] {
        self.at(index, self.lens[index])
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("arrived", &self.arrived)
            .finish_non_exhaustive()
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            headers: headers(),
            arrived: Vec::with_capacity(BATCH),
        }
    }
}

impl Inbox {
    /// Takes what has come, at most a few dozen datagrams, into `room`.
    pub fn poll<'a>(
        &'a mut self,
        socket: &Datagrams,
        room: &RefCell<Room>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<&'a [Arrived]>> {
        loop {
            ready!(socket.socket.poll_recv_ready(cx))?;
            self.arrived.clear();
            let taken = socket.socket.try_io(Interest::READABLE, || {
                match self.take(socket, &mut room.borrow_mut().bytes)? {
                    BATCH => Ok(()),
                    // Those were all. To say so here spares a call that finds nothing; what comes later is an event.
                    _ => Err(io::ErrorKind::WouldBlock.into()),
                }
            });
            match taken {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ if self.arrived.is_empty() => {}
                _ => return Poll::Ready(Ok(&self.arrived)),
            }
        }
    }

    /// Takes a batch; how many datagrams were in it.
    fn take(&mut self, socket: &Datagrams, room: &mut [u8]) -> io::Result<usize> {
        let mut places = room.chunks_exact_mut(LARGEST);
        let mut slices: [_; BATCH] =
            array::from_fn(|_| [IoSliceMut::new(places.next().unwrap_or_default())]);
        let fd = socket.socket.as_raw_fd();
        let taken = recvmmsg(
            fd,
            &mut self.headers,
            &mut slices,
            MsgFlags::MSG_DONTWAIT,
            None,
        )?;
        let wildcard = socket.addr.ip().is_unspecified();
        let mut is_cut = false;
        let mut count = 0;
        for (place, message) in taken.enumerate() {
            count += 1;
            let to = destination(&message).filter(|_| wildcard);
            is_cut |= wildcard && to.is_none();
            if let Some(from) = message.address.as_ref().and_then(inet) {
                self.arrived.push(Arrived {
                    place,
                    len: message.bytes,
                    from,
                    to,
                });
            }
        }
        if is_cut {
            // The headers remember how much room the last message took for its address.
            self.headers = headers();
        }
        Ok(count)
    }
}

fn headers() -> MultiHeaders<SockaddrStorage> {
    MultiHeaders::preallocate(
        BATCH,
        Some(cmsg_space!(libc::in_pktinfo, libc::in6_pktinfo)),
    )
}

fn inet(addr: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = addr.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| {
        addr.as_sockaddr_in6()
            .map(|v6| SocketAddr::V6((*v6).into()))
    })
}

fn destination(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<IpAddr> {
    message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into())
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into())
        }
        _ => None,
    })
}

/// Length of a control message's head: its length, its level, its type.
const HEAD: usize = size_of::<usize>() + 8;
/// Room for a control message with an address, bytes.
const CONTROL: usize = HEAD + 24;

/// A control message that names the address to send from: `in_pktinfo` or `in6_pktinfo`. To have it written by nix costs
/// an allocation for each datagram.
fn source(from: IpAddr, out: &mut [u8; CONTROL]) -> &[u8] {
    let (level, kind, start, data): (_, _, _, &[u8]) = match &from {
        // The interface, the address, the address in the header.
        IpAddr::V4(ip) => (libc::IPPROTO_IP, libc::IP_PKTINFO, 4, &ip.octets()),
        // The address, the interface.
        IpAddr::V6(ip) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 0, &ip.octets()),
    };
    let len = HEAD + if from.is_ipv4() { 12 } else { 20 };
    let (head, body) = out.split_at_mut(HEAD);
    let words = [level.to_ne_bytes(), kind.to_ne_bytes()];
    head[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
    head[size_of::<usize>()..].copy_from_slice(words.as_flattened());
    body[start..start + data.len()].copy_from_slice(data);
    let word = size_of::<usize>();
    &out[..len.next_multiple_of(word)]
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, net::UdpSocket as Client};

    use nix::sys::socket::{setsockopt, sockopt};
    use socket2::{Domain, Type};

    use super::*;

    /// Asks a socket at every address, of both families, as each of these addresses; each answer comes from there.
    fn answers_come_back(domain: Domain, any: &str, asked: &[&str]) {
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), None).unwrap();
        if domain == Domain::IPV6 {
            socket.set_only_v6(false).unwrap();
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true).unwrap();
        } else {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true).unwrap();
        }
        let any: SocketAddr = any.parse().unwrap();
        socket.bind(&any.into()).unwrap();
        let addr = socket.local_addr().unwrap().as_socket().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(async {
            let socket = Datagrams::new(socket.into(), addr).unwrap();
            let room = RefCell::default();
            let mut inbox = Inbox::default();
            for ip in asked {
                let server = SocketAddr::new(ip.parse().unwrap(), addr.port());
                let client = if server.is_ipv4() {
                    "127.0.0.1:0"
                } else {
                    "[::1]:0"
                };
                let client = Client::bind(client).unwrap();
                for text in [&b"hello"[..], b"", b"you"] {
                    client.send_to(text, server).unwrap();
                    let arrived =
                        poll_fn(|cx| inbox.poll(&socket, &room, cx).map_ok(<[_]>::to_vec));
                    let [datagram] = arrived.await.unwrap()[..] else {
                        panic!("there is one");
                    };
                    assert_eq!(room.borrow().bytes(&datagram), text);
                    assert_eq!(socket.local(datagram.to).ip().to_canonical(), server.ip());
                    socket.send(text, datagram.from, datagram.to).unwrap();
                    let mut answer = [0; 9];
                    assert_eq!(client.recv_from(&mut answer).unwrap(), (text.len(), server));
                }
            }
        });
    }

    #[test]
    fn answers_come_from_the_address_that_was_asked() {
        answers_come_back(Domain::IPV4, "0.0.0.0:0", &["127.0.0.1", "127.0.0.2"]);
        if Client::bind("[::1]:0").is_ok() {
            answers_come_back(Domain::IPV6, "[::]:0", &["::1", "127.0.0.3"]);
        }
    }
}
