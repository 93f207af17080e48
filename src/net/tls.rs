//! TLS on a connected socket, on either side: rustls's state machine between the socket and the engine's reads and writes.
//!
//! A write is done when its records are the system's: until then it is pending, and the caller comes again with the same
//! bytes, as it does for a full socket. So nothing has to be flushed. Mirrors `ngx_ssl_recv` and `ngx_ssl_send`
//! (`event/ngx_event_openssl.c`).

use std::{
    io::{self, IoSlice, Read, Write},
    task::{Context, Poll, ready},
};

use rustls::{Connection, ProtocolVersion};
use tokio::io::ReadBuf;

use super::Io;
use crate::common::buffer::{Buf, LARGE};

/// A socket and the TLS that is spoken on it.
#[derive(Debug)]
pub struct TlsIo {
    /// The socket; never TLS itself.
    io: Io,
    tls: Connection,
    /// What was read and not decrypted: only while decrypted bytes wait in `tls`.
    input: Buf,
    /// How many bytes of the caller's are records that the socket has not taken yet.
    sealed: usize,
    /// Decrypted bytes that are out of `tls` and not read yet: those that came before the handshake was over, and those that
    /// were looked at.
    ahead: Buf,
    /// Decrypted bytes wait in `tls`.
    has_plain: bool,
    /// The socket has ended.
    has_ended: bool,
    has_failed: bool,
}

/// The socket for rustls; only the calls that it makes.
pub(super) struct Raw<'a>(pub(super) &'a Io);

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

/// What is said of a client that wants another handshake on its connection.
const RENEGOTIATION: &str = "client renegotiation disabled";

/// How much is encrypted at once, bytes: what a relay reads at once.
const MOST: usize = LARGE;
/// So many decrypted bytes are not added to: those of a record.
const ENOUGH: usize = 16 << 10;

impl TlsIo {
    /// TLS that has begun on `io`.
    pub fn new(io: Io, mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(MOST));
        Self {
            io,
            tls,
            input: Buf::default(),
            sealed: 0,
            ahead: Buf::default(),
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
        self.has_plain || self.has_ended || !self.ahead.is_empty() || !self.input.is_empty()
    }

    /// Whether the handshake goes on, while what has come already is answered.
    pub fn is_early(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Takes part in the handshake until it is over, or there is something to answer. The error of a handshake that failed is
    /// an [`rustls::Error`] inside.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.is_handshaking() && self.ahead.is_empty() {
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

    /// Takes in what was read already, with the greeting or behind it.
    pub(super) fn feed(&mut self, read: &mut Buf) -> io::Result<()> {
        while !read.is_empty() {
            let n = self.tls.read_tls(&mut read.filled())?;
            read.consume(n);
        }
        self.process().map(|_| ())
    }

    /// Takes what the client has sent early.
    fn take_early(&mut self) -> io::Result<()> {
        let Connection::Server(server) = &mut self.tls else {
            return Ok(());
        };
        let Some(mut reader) = server.early_data() else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        if !bytes.is_empty() {
            self.ahead.compact();
            self.ahead.grow(self.ahead.len() + bytes.len());
            self.ahead.extend(&bytes);
        }
        Ok(())
    }

    /// Reads decrypted bytes; nothing added means the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            if !self.ahead.is_empty() {
                let n = self.ahead.len().min(buf.remaining());
                buf.put_slice(&self.ahead.filled()[..n]);
                self.ahead.consume(n);
                if self.ahead.is_empty() {
                    self.ahead = Buf::default();
                }
                return Poll::Ready(Ok(()));
            }
            match self.tls.reader().read(buf.initialize_unfilled()) {
                Ok(n) => {
                    buf.advance(n);
                    // A short read has emptied it.
                    self.has_plain = buf.remaining() == 0;
                    if self.has_plain || n == 0 || self.input.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                }
                Err(_) if buf.filled().len() > before => return Poll::Ready(Ok(())),
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

    /// Looks at decrypted bytes, at most `limit`, once there are more than `seen`, or at the end, which is 0; they are still to
    /// be read.
    pub(super) fn poll_peek(
        &mut self,
        (seen, limit): (usize, usize),
        buf: &mut Buf,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let n = self.ahead.len().min(limit);
            if n > seen {
                *buf = Buf::with_capacity(limit);
                buf.extend(&self.ahead.filled()[..n]);
                return Poll::Ready(Ok(n));
            }
            self.ahead.compact();
            self.ahead.grow(limit.max(seen + 1));
            match self.tls.reader().read(self.ahead.spare()) {
                Ok(0) => return Poll::Ready(Ok(0)),
                Ok(n) => {
                    self.ahead.advance(n);
                    // A short read has emptied it.
                    self.has_plain = self.ahead.spare().is_empty();
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_plain = false,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(0));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.poll_receive(cx))?;
        }
    }

    /// Whether bytes are out of TLS that nobody has read.
    pub fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Writes bytes; ready when their records are written.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.sealed == 0 {
            ready!(self.poll_send(cx))?;
            self.sealed = self.tls.writer().write_vectored(bufs)?;
        }
        ready!(self.poll_send(cx))?;
        Poll::Ready(Ok(std::mem::take(&mut self.sealed)))
    }

    /// Says good-bye; the socket stays open for what still comes.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.tls.is_handshaking() || self.has_early() {
            self.tls.send_close_notify();
        }
        ready!(self.poll_send(cx))?;
        self.io.poll_shutdown(cx)
    }

    /// Takes in what has come, without waiting: whether a read has something at once. What is none of the engine's business,
    /// such as a ticket, is done with here.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        while !self.has_plain() {
            let mut input = Buf::large();
            match Raw(&self.io).read(input.spare()) {
                Ok(n) => self.receive(input, n)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads once, unless something was read before, and decrypts it; 0 is the end of the socket.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.input.is_empty() {
            let n = self.input.len();
            return Poll::Ready(self.decrypt().map(|()| n));
        }
        // A buffer is taken when there is something to read only.
        ready!(self.io.poll_read_ready(cx))?;
        let mut input = Buf::large();
        let mut read = ReadBuf::new(input.spare());
        ready!(self.io.poll_read(cx, &mut read))?;
        let n = read.filled().len();
        self.receive(input, n)?;
        Poll::Ready(Ok(n))
    }

    /// Decrypts `n` bytes that were read into `input`; none are the end of the socket.
    fn receive(&mut self, mut input: Buf, n: usize) -> io::Result<()> {
        self.has_ended |= n == 0;
        input.advance(n);
        self.input = input;
        self.decrypt()
    }

    /// Decrypts what was read, until nothing is left of it or a reader has enough.
    fn decrypt(&mut self) -> io::Result<()> {
        let mut input = std::mem::take(&mut self.input);
        loop {
            let n = self.tls.read_tls(&mut input.filled())?;
            input.consume(n);
            let plain = self.process()?;
            // Behind a good-bye nothing counts.
            if n == 0 || input.is_empty() {
                return Ok(());
            }
            if plain >= ENOUGH {
                self.input = input;
                return Ok(());
            }
        }
    }

    /// Decrypts what `tls` has; how many decrypted bytes wait then.
    fn process(&mut self) -> io::Result<usize> {
        let has_waited = self.tls.wants_write();
        let was_shaken = !self.tls.is_handshaking();
        match self.tls.process_new_packets() {
            Ok(state) => {
                let plain = state.plaintext_bytes_to_read();
                self.has_plain = plain > 0;
                self.has_ended |= state.peer_has_closed();
                self.take_early()?;
                if has_waited || !self.tls.wants_write() {
                    return Ok(plain);
                }
                // Nobody may be about to write. It can wait until somebody does, or come to nothing with the socket.
                self.send().ok();
                if was_shaken && self.is_renegotiation() {
                    self.has_failed = true;
                    let error = rustls::Error::General(RENEGOTIATION.to_owned());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
                Ok(plain)
            }
            Err(error) => {
                self.has_failed = true;
                // The alert says why; a socket that does not take it changes nothing.
                self.send().ok();
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }

    /// Whether an answer in the middle of a connection is a refusal to begin anew: TLS 1.2 has no other.
    fn is_renegotiation(&self) -> bool {
        let is_old = self.tls.protocol_version() == Some(ProtocolVersion::TLSv1_2);
        is_old && matches!(self.tls, Connection::Server(_)) && !self.has_ended
    }

    /// Whether the client has begun before the handshake is over.
    fn has_early(&mut self) -> bool {
        match &mut self.tls {
            Connection::Server(server) => server.is_handshaking() && server.early_data().is_some(),
            Connection::Client(_) => false,
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
        let is_open = !self.tls.is_handshaking() || self.has_early();
        if !self.has_failed && is_open && self.sealed == 0 {
            self.tls.send_close_notify();
            self.send().ok();
        }
    }
}
