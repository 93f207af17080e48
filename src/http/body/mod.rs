//! The body of a client's request: taken off the connection, kept in memory or in a temporary file, or discarded.
//!
//! Mirrors `http/ngx_http_request_body.c`.

mod framing;

use std::{
    future::poll_fn,
    io::{self, Write},
    rc::Rc,
    task::Poll,
};

pub(super) use self::framing::{BodyError, BodyFile, RequestBody};
use super::{
    exchange::{Action, Exchange},
    h1::known::Known,
    out::Piece,
    phases::CLIENT_CLOSED,
    temp_file,
};
use crate::{
    common::{
        buffer::{self, Buf},
        clock,
    },
    conf::model::{BodyInFile, Level},
    http::conn::{Conn, ConnError},
};

/// Reads the whole body (`ngx_http_read_client_request_body`). Err is the status that ends the request; 0 means that the
/// client is gone.
pub(super) async fn read(x: &mut Exchange<'_>) -> Result<(), u16> {
    if x.request.body.complete || x.request.body.discarded {
        return Ok(());
    }
    test_expect(x).await?;
    let core = &x.location.core;
    let limit = core.client_body_buffer_size;
    let only_file = core.client_body_in_file_only != BodyInFile::Off;
    // A body that cannot fit goes to its file from the beginning.
    if let Some(n) = x.request.body.remaining()
        && n <= limit as u64
    {
        x.request
            .body
            .memory
            .reserve_exact(usize::try_from(n).unwrap_or(limit));
    }
    loop {
        let mut buf = std::mem::take(&mut x.conn.buf);
        let taken = take(x, &mut buf);
        x.conn.buf = buf;
        taken?;
        let done = x.request.body.is_read();
        if x.request.body.memory.len() > limit
            || (only_file && done && x.request.body.file.is_none())
        {
            spill(x)?;
        }
        if done {
            break;
        }
        fill(x).await?;
    }
    if only_file && !x.request.body.memory.is_empty() {
        spill(x)?;
    }
    finish(x);
    Ok(())
}

/// Reads what has come of a body that is to be passed on while it comes; one that has come whole is like any other.
pub(super) async fn read_ahead(x: &mut Exchange<'_>) -> Result<(), u16> {
    test_expect(x).await?;
    let size = x.location.core.client_body_buffer_size;
    loop {
        let mut buf = std::mem::take(&mut x.conn.buf);
        let taken = take(x, &mut buf);
        x.conn.buf = buf;
        taken?;
        if x.request.body.is_read() {
            x.request.body.unbuffered = false;
            finish(x);
            return Ok(());
        }
        if x.request.body.memory.len() >= size + size / 4 || !fill_now(&mut x.conn).await {
            return Ok(());
        }
    }
}

/// Reads what is there; false when that is nothing.
async fn fill_now(conn: &mut Conn) -> bool {
    if conn.buf.capacity() == 0 {
        conn.buf = Buf::small();
    }
    conn.buf.compact();
    let is_stream = conn.io.is_stream();
    poll_fn(|cx| {
        let read = conn.io.poll_fill(&mut conn.buf, usize::MAX, cx);
        conn.eof |= matches!(read, Poll::Ready(Ok(0))) || conn.io.has_ended();
        Poll::Ready(matches!(read, Poll::Ready(Ok(n)) if n > 0 || is_stream))
    })
    .await
}

/// The body's length is known now; a chunked one becomes one with a length.
fn finish(x: &mut Exchange<'_>) {
    let body = &mut x.request.body;
    body.complete = true;
    if x.request.chunked {
        x.request.content_length = Some(body.received);
    }
}

fn take(x: &mut Exchange<'_>, buf: &mut Buf) -> Result<(), u16> {
    let max = x.location.core.client_max_body_size;
    let before = buf.len();
    let mut memory = std::mem::take(&mut x.request.body.memory);
    let result = x.request.body.take((buf, x.conn.eof), max, &mut |data| {
        memory.extend_from_slice(data);
    });
    x.request.body.memory = memory;
    x.request.length += (before - buf.len()) as u64;
    result.map_err(|error| refuse(x, error))
}

/// Logs what is wrong with a body; the status for it.
pub(super) fn refuse(x: &mut Exchange<'_>, error: BodyError) -> u16 {
    match error {
        BodyError::Invalid => {
            x.log(
                Level::Info,
                format_args!("client sent invalid chunked body"),
            );
            400
        }
        BodyError::TooLarge => {
            let received = x.request.body.received;
            let more = if x.conn.io.is_stream() { "" } else { "+" };
            x.log(
                Level::Error,
                format_args!(
                    "client intended to send too large chunked body: {received}{more} bytes"
                ),
            );
            413
        }
        BodyError::Excess => {
            x.log(
                Level::Info,
                format_args!("client intended to send body data larger than declared"),
            );
            400
        }
        BodyError::Short(length) => {
            let received = x.request.body.received;
            x.log(
                Level::Info,
                format_args!(
                    "client prematurely closed stream: \
                     only {received} out of {length} bytes of request body received"
                ),
            );
            400
        }
    }
}

/// Reads more of the body into the connection's buffer.
async fn fill(x: &mut Exchange<'_>) -> Result<(), u16> {
    x.action = Action::ReadingBody;
    let deadline = clock::now().after(x.location.core.client_body_timeout);
    if x.conn.buf.capacity() < buffer::LARGE && x.request.body.remaining().is_none_or(|n| n > 4096)
    {
        x.conn.buf.grow(buffer::LARGE);
    }
    if x.conn.buf.capacity() == 0 {
        x.conn.buf = Buf::small();
    }
    x.conn.buf.compact();
    let result = match x.conn.readable(Some(deadline)).await {
        Ok(()) => x.conn.read(Some(deadline)).await,
        Err(error) => Err(error),
    };
    x.action = Action::None;
    match result {
        Ok(n) if n > 0 || x.request.body.is_stream() => Ok(()),
        Ok(_) => {
            x.log(
                Level::Info,
                format_args!("client prematurely closed connection"),
            );
            x.broken = true;
            Err(400)
        }
        Err(ConnError::Timeout) => {
            x.timed_out = true;
            Err(408)
        }
        Err(ConnError::Gone | ConnError::Io(_)) if x.conn.io.is_stream() => {
            x.log(
                Level::Info,
                format_args!("client prematurely closed stream"),
            );
            x.broken = true;
            Err(CLIENT_CLOSED)
        }
        Err(ConnError::Gone | ConnError::Io(_)) => {
            x.broken = true;
            Err(400)
        }
    }
}

/// Moves what is in memory to the temporary file.
fn spill(x: &mut Exchange<'_>) -> Result<(), u16> {
    write_file(x).map_err(|error| {
        x.log(
            Level::Crit,
            format_args!(
                "write to a request body temporary file failed ({})",
                clock_errno(&error)
            ),
        );
        500
    })
}

fn clock_errno(error: &io::Error) -> crate::common::errno::Errno<'_> {
    crate::common::errno::Errno(error)
}

fn write_file(x: &mut Exchange<'_>) -> io::Result<()> {
    let core = &x.location.core;
    if x.request.body.file.is_none() {
        let keep = core.client_body_in_file_only == BodyInFile::On;
        let temp = temp_file::create(&core.client_body_temp_path, x.live.prefix(), keep)?;
        if core.client_body_in_file_only == BodyInFile::Off {
            let path = temp.path.display();
            x.log(
                Level::Warn,
                format_args!("a client request body is buffered to a temporary file {path}"),
            );
        }
        x.cleanup_file(&temp, core.client_body_in_file_only == BodyInFile::Clean);
        x.request.body.file = Some(BodyFile {
            file: Rc::new(temp.file),
            path: temp.path,
            len: 0,
        });
    }
    let body = &mut x.request.body;
    if let Some(file) = &mut body.file {
        (&*file.file).write_all(&body.memory)?;
        file.len += body.memory.len() as u64;
        body.memory.clear();
    }
    Ok(())
}

/// Answers `Expect: 100-continue` before the body is read.
pub(super) async fn test_expect(x: &mut Exchange<'_>) -> Result<(), u16> {
    if x.request.expect_tested || x.request.version < 1001 || x.conn.io.is_stream() {
        return Ok(());
    }
    x.request.expect_tested = true;
    if !x
        .request
        .headers
        .get(Known::Expect)
        .is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue"))
    {
        return Ok(());
    }
    let mut out = std::mem::take(&mut x.out);
    out.push(Piece::Static(b"HTTP/1.1 100 Continue\r\n\r\n"));
    let sent = x.conn.flush(&mut out, x.location.core.send_timeout).await;
    x.out = out;
    // DIFFERS(continue): the bytes of a 100 response do not count in $bytes_sent and $body_bytes_sent (behaviours L4).
    x.sent_before += 25;
    sent.map_err(|_error| {
        x.broken = true;
        500
    })
}

/// Nobody wants the body: it is thrown away as it comes. What came already is looked at now, so that bad chunks are
/// refused (`ngx_http_discard_request_body`). Err is the status that ends the request.
pub(super) async fn discard(x: &mut Exchange<'_>) -> Result<(), u16> {
    if x.request.body.complete || x.request.body.discarded {
        return Ok(());
    }
    test_expect(x).await?;
    x.request.body.discarded = true;
    throw_away(x).map_err(|error| refuse(x, error))
}

/// Takes what has come of the body, for nobody.
fn throw_away(x: &mut Exchange<'_>) -> Result<(), BodyError> {
    let mut buf = std::mem::take(&mut x.conn.buf);
    let before = buf.len();
    let last = x.conn.eof;
    let result = x.request.body.take((&mut buf, last), 0, &mut |_| {});
    x.request.length += (before - buf.len()) as u64;
    x.conn.buf = buf;
    result
}

/// Throws away what is left of the body, so that the connection can be used again; false when it cannot
/// (`ngx_http_discarded_request_body_handler`).
pub(super) async fn drain(x: &mut Exchange<'_>) -> bool {
    let core = &x.location.core;
    let end = clock::now().after(core.lingering_time);
    loop {
        if throw_away(x).is_err() {
            return false;
        }
        if x.request.body.is_read() {
            return true;
        }
        if x.conn.eof || x.timed_out || x.broken {
            return false;
        }
        let deadline = clock::now().after(core.lingering_timeout).min(end);
        if x.conn.readable(Some(deadline)).await.is_err() {
            return false;
        }
        x.conn.buf.grow(buffer::SMALL);
        x.conn.buf.compact();
        match x.conn.read(Some(deadline)).await {
            Ok(n) if n > 0 => {}
            _ => return false,
        }
    }
}
