//! The phase that looks at a client's first bytes before anything is decided by them, and leaves them where they are.
//!
//! Mirrors `ngx_stream_core_preread_phase` (`stream/ngx_stream_core_module.c`) where it peeks.

pub(crate) mod client_hello;

use std::{future::poll_fn, task::Poll};

use client_hello::{ClientHello, Seen};

use super::session::{Action, Downstream, Session};
use crate::{
    common::{buffer::Buf, clock, errno::Errno, host},
    conf::model::Level,
    net::Io,
};

/// What understands the first bytes.
pub(super) trait Reader<'g, D> {
    /// Looks at all bytes that have come so far.
    fn read(&mut self, s: &mut Session<'g, D>, bytes: &[u8]) -> Progress;
}

/// What a look at the first bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More bytes are needed.
    More,
    /// The session goes on: everything is known, or it will never be.
    Done,
}

/// What has to read the first bytes of this session; None when nothing has.
pub(super) fn reader<'g>(s: &Session<'g, Io>) -> Option<Box<dyn Reader<'g, Io>>> {
    s.server.core.ssl_preread.then(|| Box::new(Greeting) as _)
}

/// `ssl_preread`: the session gets to know what TLS's greeting asks for, and goes to the server of that name.
struct Greeting;

impl<'g, D: Downstream> Reader<'g, D> for Greeting {
    fn read(&mut self, s: &mut Session<'g, D>, bytes: &[u8]) -> Progress {
        match s.hello.get_or_insert_default().read(bytes) {
            Seen::More => return Progress::More,
            Seen::Version2 => {}
            Seen::Other => s.hello = None,
            Seen::Whole => {
                let name = s.hello.as_deref().map_or(&b""[..], ClientHello::name);
                let host = host::validate(name).map(|host| host.name.into_owned());
                if let Some(host) = host {
                    s.set_server(&host);
                }
            }
        }
        Progress::Done
    }
}

/// Lets `reader` look until it is through, or says with which status the session ends.
pub(super) async fn run<'g>(
    s: &mut Session<'g, Io>,
    mut reader: Box<dyn Reader<'g, Io>>,
) -> Result<(), u16> {
    s.action = Action::Prereading;
    let size = s.server.core.preread_buffer_size;
    let deadline = clock::now().after(s.server.core.preread_timeout);
    let mut seen = 0;
    loop {
        let mut buf = Buf::default();
        let peeked = poll_fn(|cx| {
            match s.downstream.poll_peek_beyond(seen, &mut buf, size, cx) {
                Poll::Ready(result) => return Poll::Ready(Some(result)),
                Poll::Pending if s.thread.is_ending() => return Poll::Ready(None),
                Poll::Pending => {}
            }
            s.timer.poll(cx, Some(deadline)).map(|()| None)
        })
        .await;
        match peeked {
            // Nothing is said when the client is late.
            None | Some(Ok(0)) => return Err(200),
            Some(Ok(n)) => seen = n,
            Some(Err(error)) => {
                s.log(
                    Level::Info,
                    format_args!("recv() failed ({})", Errno(&error)),
                );
                return Err(200);
            }
        }
        match reader.read(s, buf.filled()) {
            Progress::Done => return Ok(()),
            Progress::More if seen >= size => {
                s.log(Level::Error, format_args!("preread buffer full"));
                return Err(400);
            }
            Progress::More => {}
        }
    }
}
