//! Handshakes with clients: the greeting first, by which the settings are chosen, then the rest with these.
//!
//! Mirrors `ngx_ssl_handshake` and `ngx_ssl_try_early_data` (`event/ngx_event_openssl.c`).

use std::{
    fmt,
    future::poll_fn,
    io::{self, Read, Write},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustls::{
    ServerConfig,
    server::{Accepted, AcceptedAlert, Acceptor, ClientHello},
};

use super::{Io, Timer, TlsIo, tls::Raw};
use crate::common::{buffer::Buf, clock::Now, errno::Errno};

/// What ended a handshake.
#[derive(Debug)]
pub enum Failure {
    /// It took too long.
    TimedOut,
    /// Nobody here has the name that was asked for, or wants to have it.
    Rejected,
    /// There is no certificate for this connection.
    NoCertificate,
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
            Self::NoCertificate => {
                return f.write_str(
                    "SSL_do_handshake() failed (SSL: error:0A000179:SSL routines::cert cb error)",
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

/// A client's greeting, which begins its handshake.
pub struct Greeted {
    accepted: Accepted,
    /// Its first bytes, in their record.
    pub start: [u8; START],
}

/// How much of a greeting is kept as it came: up to the number of an older session.
const START: usize = 76;

impl Greeted {
    /// What it says.
    pub fn hello(&self) -> ClientHello<'_> {
        self.accepted.client_hello()
    }
}

/// Waits for a client's greeting, by which the settings of the handshake are chosen, until `deadline`. `early` is what was
/// read before.
pub async fn greet(
    io: &Io,
    early: &mut Buf,
    timer: &mut Timer,
    deadline: Now,
) -> Result<Greeted, Failure> {
    let mut acceptor = Acceptor::default();
    let mut first = First::default();
    let accepted = bounded(timer, deadline, |cx| {
        poll_greeting(io, &mut acceptor, (early, &mut first), cx)
    });
    Ok(Greeted {
        accepted: accepted.await?,
        start: first.bytes,
    })
}

/// Goes through a client's handshake until `deadline`, or as far as it can be answered; `early` is what was read before and
/// not used up. What comes back is TLS, or the connection as far as it has come and what ended it.
pub async fn shake(
    io: Io,
    (greeted, early): (Greeted, &mut Buf),
    config: Arc<ServerConfig>,
    timer: &mut Timer,
    deadline: Now,
) -> (Io, Result<(), Failure>) {
    match greeted.accepted.into_connection(config) {
        Err((error, alert)) => {
            send_alert(&io, alert);
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            (io, Err(error.into()))
        }
        Ok(tls) => {
            let mut tls = Box::new(TlsIo::new(io, tls.into()));
            let done = match tls.feed(early) {
                Ok(()) => bounded(timer, deadline, |cx| tls.poll_handshake(cx)).await,
                Err(error) => Err(error.into()),
            };
            (Io::Tls(tls), done)
        }
    }
}

/// Goes on with a handshake in what is behind it: waits for `rest` until `deadline`.
pub async fn finish<T>(
    timer: &mut Timer,
    deadline: Now,
    rest: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut rest = pin!(rest);
    bounded(timer, deadline, |cx| rest.as_mut().poll(cx).map(Ok)).await
}

/// Ends a handshake that leads to nothing, with the alert that says why.
pub fn refuse(io: &Io, failure: &Failure) {
    /// RFC 6066, section 3.
    const UNRECOGNIZED_NAME: u8 = 112;
    const INTERNAL_ERROR: u8 = 80;
    let number = match failure {
        Failure::Rejected => UNRECOGNIZED_NAME,
        Failure::NoCertificate => INTERNAL_ERROR,
        Failure::TimedOut | Failure::Io(_) => return,
    };
    // It is closed anyway.
    Raw(io).write_all(&[21, 3, 3, 0, 2, 2, number]).ok();
}

/// Keeps the first bytes that go to rustls.
struct First {
    bytes: [u8; START],
    length: usize,
}

impl Default for First {
    fn default() -> Self {
        Self {
            bytes: [0; START],
            length: 0,
        }
    }
}

/// A socket whose first bytes are kept.
struct Tee<'a, R> {
    from: R,
    first: &'a mut First,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buf)?;
        let First { bytes, length } = &mut *self.first;
        let kept = n.min(START - *length);
        bytes[*length..*length + kept].copy_from_slice(&buf[..kept]);
        *length += kept;
        Ok(n)
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

/// Waits for a client's greeting. `early` is what was read before; it is used up first. The error of a greeting that is none
/// is an [`rustls::Error`] inside.
fn poll_greeting(
    io: &Io,
    acceptor: &mut Acceptor,
    (early, first): (&mut Buf, &mut First),
    cx: &mut Context<'_>,
) -> Poll<io::Result<Accepted>> {
    loop {
        let read = if early.is_empty() {
            let from = Raw(io);
            match acceptor.read_tls(&mut Tee { from, first }) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(io.poll_read_ready(cx))?;
                    continue;
                }
                read => read?,
            }
        } else {
            let from = early.filled();
            let n = acceptor.read_tls(&mut Tee { from, first })?;
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
