//! TLS on a connected socket, on either side: rustls's state machine between the socket and the engine's reads and writes.
//!
//! A write is done when its records are the system's: until then it is pending, and the caller comes again with the same
//! bytes, as it does for a full socket. So nothing has to be flushed. Mirrors `ngx_ssl_recv` and `ngx_ssl_send`
//! (`event/ngx_event_openssl.c`).

use std::{
    fmt,
    future::poll_fn,
    io::{self, IoSlice, Read, Write},
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustls::{
    Connection, ServerConfig,
    server::{Accepted, AcceptedAlert, Acceptor, ClientHello},
};
use tokio::io::ReadBuf;

use super::{Io, Timer};
use crate::common::{buffer::Buf, clock::Now, errno::Errno};

/// A socket and the TLS that is spoken on it.
#[derive(Debug)]
pub struct TlsIo {
    /// The socket; never TLS itself.
    io: Io,
    tls: Connection,
    /// How many bytes of the caller's are records that the socket has not taken yet.
    sealed: usize,
    /// Decrypted bytes wait in `tls`.
    has_plain: bool,
    /// The socket has ended.
    has_ended: bool,
    has_failed: bool,
}

/// The socket for rustls; only the calls that it makes.
struct Raw<'a>(&'a Io);

impl Read for Raw<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0 {
            Io::Tcp(stream) => stream.try_read(buf),
            Io::Unix(stream) => stream.try_read(buf),
            Io::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0 {
            Io::Tcp(stream) => stream.try_write_vectored(bufs),
            Io::Unix(stream) => stream.try_write_vectored(bufs),
            Io::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What ended a handshake.
#[derive(Debug)]
pub enum Failure {
    /// It took too long.
    TimedOut,
    /// Nobody here has the name that was asked for, or wants to have it.
    Rejected,
    /// The socket failed or ended; or, with an [`rustls::Error`] inside, the client did not keep to the protocol.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Failure {
    /// As error logs say it, in front of `while SSL handshaking`.
    // DIFFERS(tls-words): OpenSSL's words are others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = match self {
            Self::TimedOut => return f.write_str("client timed out (110: Connection timed out)"),
            Self::Rejected => {
                return f.write_str(
                    "SSL_do_handshake() failed (SSL: error:0A0000EA:SSL routines::callback failed)",
                );
            }
            Self::Io(error) => error,
        };
        match error.get_ref() {
            Some(reason) if error.kind() == io::ErrorKind::InvalidData => {
                write!(f, "SSL_do_handshake() failed (SSL: {reason})")
            }
            _ if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("peer closed connection in SSL handshake")
            }
            _ => write!(f, "SSL_do_handshake() failed ({})", Errno(error)),
        }
    }
}

/// Goes through a client's handshake until `deadline`, with the settings that `choose` finds for its greeting. `early` is
/// what was read before. What comes back is TLS, or the connection as far as it has come and what ended it.
pub async fn accept(
    io: Io,
    early: &mut Buf,
    timer: &mut Timer,
    deadline: Now,
    choose: impl FnOnce(&ClientHello<'_>) -> Option<Arc<ServerConfig>>,
) -> (Io, Result<(), Failure>) {
    let mut acceptor = Acceptor::default();
    let greeting = bounded(timer, deadline, |cx| {
        poll_greeting(&io, &mut acceptor, early, cx)
    });
    let begun = greeting.await.and_then(|accepted| {
        let Some(config) = choose(&accepted.client_hello()) else {
            reject_name(&io);
            return Err(Failure::Rejected);
        };
        accepted.into_connection(config).map_err(|(error, alert)| {
            send_alert(&io, alert);
            Failure::from(io::Error::new(io::ErrorKind::InvalidData, error))
        })
    });
    match begun {
        Err(failure) => (io, Err(failure)),
        Ok(tls) => {
            let mut tls = Box::new(TlsIo::new(io, tls.into()));
            let done = bounded(timer, deadline, |cx| tls.poll_handshake(cx)).await;
            (Io::Tls(tls), done)
        }
    }
}

/// Waits for `poll` until `deadline`.
async fn bounded<T>(
    timer: &mut Timer,
    deadline: Now,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> Result<T, Failure> {
    poll_fn(|cx| {
        if let Poll::Ready(result) = poll(cx) {
            return Poll::Ready(result.map_err(Failure::from));
        }
        ready!(timer.poll(cx, Some(deadline)));
        Poll::Ready(Err(Failure::TimedOut))
    })
    .await
}

/// Waits for a client's greeting, by which the settings of the handshake are chosen. `early` is what was read before; it is
/// used up first. The error of a greeting that is none is an [`rustls::Error`] inside.
fn poll_greeting(
    io: &Io,
    acceptor: &mut Acceptor,
    early: &mut Buf,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Accepted>> {
    loop {
        let read = if early.is_empty() {
            match acceptor.read_tls(&mut Raw(io)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(io.poll_read_ready(cx))?;
                    continue;
                }
                read => read?,
            }
        } else {
            let n = acceptor.read_tls(&mut early.filled())?;
            early.consume(n);
            n
        };
        if read == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => return Poll::Ready(Ok(accepted)),
            Ok(None) => {}
            Err((error, alert)) => {
                send_alert(io, alert);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
    }
}

/// Tells a client why its greeting leads to nothing.
fn send_alert(io: &Io, mut alert: AcceptedAlert) {
    // A socket that does not take it is closed all the same.
    alert.write_all(&mut Raw(io)).ok();
}

/// Tells a client that nobody here has the name that it asked for (RFC 6066, section 3).
fn reject_name(io: &Io) {
    const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
    // It is closed anyway.
    Raw(io).write_all(&UNRECOGNIZED_NAME).ok();
}

/// How much is encrypted at once, bytes.
const MOST: usize = 64 << 10;

impl TlsIo {
    /// TLS that has begun on `io`.
    pub fn new(io: Io, tls: Connection) -> Self {
        Self {
            io,
            tls,
            sealed: 0,
            has_plain: false,
            has_ended: false,
            has_failed: false,
        }
    }

    /// The socket below.
    pub fn socket(&self) -> &Io {
        &self.io
    }

    /// What was agreed on.
    pub fn session(&self) -> &Connection {
        &self.tls
    }

    /// The name that the client has asked for.
    pub fn server_name(&self) -> Option<&str> {
        match &self.tls {
            Connection::Server(server) => server.server_name(),
            Connection::Client(_) => None,
        }
    }

    /// Whether a read has something at once.
    pub(super) fn has_plain(&self) -> bool {
        self.has_plain || self.has_ended
    }

    /// Takes part in the handshake until it is over. The error of a handshake that failed is an [`rustls::Error`] inside.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.is_handshaking() {
            ready!(self.poll_send(cx))?;
            if !self.tls.is_handshaking() {
                break;
            }
            if ready!(self.poll_receive(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        self.poll_send(cx)
    }

    /// Reads decrypted bytes; nothing added means the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.tls.reader().read(buf.initialize_unfilled()) {
                Ok(n) => {
                    buf.advance(n);
                    // A short read has emptied it.
                    self.has_plain = buf.remaining() == 0;
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_plain = false,
                // Who does not say good-bye has ended all the same; lengths and chunks tell what is missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.poll_receive(cx))?;
        }
    }

    /// Writes bytes; ready when their records are written.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.sealed == 0 {
            ready!(self.poll_send(cx))?;
            let mut room = MOST;
            for buf in bufs {
                let n = self.tls.writer().write(&buf[..buf.len().min(room)])?;
                self.sealed += n;
                room -= n;
                if n < buf.len() {
                    break;
                }
            }
        }
        ready!(self.poll_send(cx))?;
        Poll::Ready(Ok(std::mem::take(&mut self.sealed)))
    }

    /// Says good-bye; the socket stays open for what still comes.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.tls.is_handshaking() {
            self.tls.send_close_notify();
        }
        ready!(self.poll_send(cx))?;
        self.io.poll_shutdown(cx)
    }

    /// Takes in what has come, without waiting: whether a read has something at once. What is none of the engine's business,
    /// such as a ticket, is done with here.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        while !self.has_plain() {
            match self.receive() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            match self.receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.io.poll_read_ready(cx))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }

    /// Reads records once and decrypts them; 0 is the end of the socket.
    fn receive(&mut self) -> io::Result<usize> {
        let n = self.tls.read_tls(&mut Raw(&self.io))?;
        self.has_ended |= n == 0;
        match self.tls.process_new_packets() {
            Ok(state) => {
                self.has_plain = state.plaintext_bytes_to_read() > 0;
                self.has_ended |= state.peer_has_closed();
                Ok(n)
            }
            Err(error) => {
                self.has_failed = true;
                // The alert says why; a socket that does not take it changes nothing.
                self.send().ok();
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }

    /// Writes all records that wait.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.send() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.io.poll_write_ready(cx))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut Raw(&self.io))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

impl Drop for TlsIo {
    /// Says good-bye as far as that costs no time (`ngx_ssl_shutdown`).
    fn drop(&mut self) {
        if !self.has_failed && !self.tls.is_handshaking() && self.sealed == 0 {
            self.tls.send_close_notify();
            self.send().ok();
        }
    }
}
