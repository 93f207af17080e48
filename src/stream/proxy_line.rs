//! The PROXY protocol's header in front of a session.
//!
//! Mirrors `ngx_stream_proxy_protocol_handler` (`stream/ngx_stream_handler.c`): it is looked at before it is taken, so that
//! what comes behind it stays where it is.

use std::{
    future::poll_fn,
    task::{Poll, ready},
};

use super::session::{Action, Session};
use crate::{
    common::{buffer::Buf, clock, errno::Errno},
    conf::model::Level,
    net::{
        Io,
        proxy_protocol::{self, HeaderError},
    },
};

/// Takes the header off the connection, or says with which status the session ends.
pub(super) async fn read(s: &mut Session<'_, Io>) -> Result<(), u16> {
    s.action = Action::ReadingProxyProtocol;
    let deadline = clock::now().after(s.server.core.proxy_protocol_timeout);
    let mut buf = Buf::default();
    let peeked = poll_fn(|cx| {
        if let Poll::Ready(result) = s.downstream.poll_peek(&mut buf, MAX_HEADER, cx) {
            return Poll::Ready(Some(result));
        }
        if s.thread.is_ending() {
            return Poll::Ready(None);
        }
        s.timer.poll(cx, Some(deadline)).map(|()| None)
    })
    .await;
    match peeked {
        Some(Ok(_)) => {}
        Some(Err(error)) => {
            s.log(
                Level::Info,
                format_args!("recv() failed ({})", Errno(&error)),
            );
            return Err(200);
        }
        None => {
            s.log(
                Level::Info,
                format_args!("client timed out (110: Connection timed out)"),
            );
            return Err(200);
        }
    }
    match proxy_protocol::read(buf.filled()) {
        Ok((length, header)) => {
            take(s, buf, length).await?;
            s.proxied = header.map(Box::new);
        }
        Err(error) => {
            if error != HeaderError::Silent {
                s.log(Level::Error, format_args!("{error}"));
            }
            return Err(400);
        }
    }
    s.action = Action::Initializing;
    Ok(())
}

/// Takes what was only looked at.
async fn take(s: &mut Session<'_, Io>, mut buf: Buf, length: usize) -> Result<(), u16> {
    buf.truncate(0);
    let taken = poll_fn(|cx| {
        let result = ready!(s.downstream.poll_fill(&mut buf, length, cx));
        Poll::Ready(result)
    });
    match taken.await {
        Ok(n) if n == length => Ok(()),
        _ => Err(500),
    }
}

/// `NGX_PROXY_PROTOCOL_MAX_HEADER`
const MAX_HEADER: usize = 4096;
