//! The body of a response from the upstream to the client.
//!
//! With buffering the upstream is read as fast as it sends: into memory up to `proxy_buffers`, then into a temporary file,
//! and it is released at its last byte, however slow the client is. Without, each piece waits for the client.
//! Mirrors `event/ngx_event_pipe.c` and the filters of `ngx_http_proxy_module.c`.

mod feed;
mod splice;
mod stream;

use std::{
    fs::File,
    future::poll_fn,
    io,
    os::unix::fs::FileExt,
    rc::Rc,
    task::{Context, Poll},
};

use super::{
    attempt::{Attempt, Link, poll_read},
    target::Target,
    tries,
};
use crate::{
    common::{
        buffer::Buf,
        clock::{self, Now},
        recycle::Recycled,
    },
    conf::model::{Level, Proxy},
    http::{
        exchange::{Action, Exchange},
        filters::limit_rate::Limiter,
        h1::chunked::Decoder,
        out::Piece,
        output,
        phases::{CLIENT_CLOSED, Next},
        temp_file, vars,
    },
    net::splice::Pipe,
    upstream::Outcome,
};

/// How a body is relayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    /// There is none.
    pub bodiless: bool,
    /// `proxy_buffering`
    pub buffering: bool,
}

/// How the end of the body is known.
#[derive(Debug)]
enum Framing {
    Length(u64),
    Chunked(Decoder),
    /// Trailer lines follow the last chunk.
    Trailers,
    Close,
    /// The stream's end is the body's; how much is left of what was said of its length.
    Stream(Option<u64>),
}

/// What ended the reading of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The body is complete.
    Complete,
    /// It broke off.
    Broken,
    /// The upstream was silent for too long.
    Timeout,
}

struct Relay<'a, 'g> {
    x: &'a mut Exchange<'g>,
    proxy: &'g Proxy,
    target: &'a Target,
    /// The try, until the upstream is released.
    attempt: Option<Recycled<Attempt>>,
    framing: Framing,
    mode: Mode,
    end: Option<End>,
    /// The upstream sent more than it had said.
    excess: bool,
    spill: Option<Spill>,
    read_deadline: Now,
    write_deadline: Option<Now>,
    write_limit: Option<Limiter>,
    read_limit: Option<Limiter>,
    /// The pipe that a long body goes through, once it does.
    pipe: Option<Pipe>,
    /// Whether a pipe may be used.
    may_splice: bool,
    /// When the client, or the upstream, may go on (`limit_rate`).
    write_resume: Option<Now>,
    read_resume: Option<Now>,
    body_read: u64,
}

/// The temporary file of a response.
struct Spill {
    file: Rc<File>,
    len: u64,
}

/// Why relaying ended early.
enum Stop {
    /// The client has left.
    Gone(Option<io::Error>),
    /// It takes nothing, or does not send what it should.
    Timeout,
    /// What it sends is wrong; the status for that.
    Body(u16),
}

/// Relays the body and ends the response.
pub(super) async fn run<'g>(
    x: &mut Exchange<'g>,
    proxy: &'g Proxy,
    target: &Target,
    attempt: Recycled<Attempt>,
    mode: Mode,
) -> Next<'g> {
    x.action = Action::ReadingUpstream;
    let head = &attempt.head;
    let framing = match head.content_length {
        _ if mode.bodiless => Framing::Length(0),
        length if head.version == 2000 => Framing::Stream(length),
        _ if head.chunked && proxy.pass_trailers => Framing::Chunked(Decoder::with_trailers()),
        _ if head.chunked => Framing::Chunked(Decoder::default()),
        Some(length) => Framing::Length(length),
        None => Framing::Close,
    };
    let write_limit = if mode.buffering {
        Limiter::new(x)
    } else {
        None
    };
    let read_rate = if proxy.limit_rate.is_empty() {
        0
    } else {
        vars::parse_size(&proxy.limit_rate.to_vec(x)).unwrap_or(0)
    };
    let mut relay = Relay {
        framing,
        mode,
        end: None,
        excess: false,
        spill: None,
        read_deadline: clock::now().after(proxy.read_timeout),
        write_deadline: None,
        write_limit,
        read_limit: (read_rate > 0 && mode.buffering).then(|| Limiter::of_rate(read_rate)),
        pipe: None,
        may_splice: false,
        write_resume: None,
        read_resume: None,
        body_read: 0,
        attempt: Some(attempt),
        target,
        proxy,
        x,
    };
    relay.may_splice = relay.is_plain();
    relay.take_preread();
    let result = poll_fn(|cx| relay.poll(cx)).await;
    relay.finish(result)
}

impl<'g> Relay<'_, 'g> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        // The header waits for the first bytes of the body, as nginx's `postpone_output` has it.
        let hold = self.mode.buffering && self.body_read == 0;
        while hold && self.end.is_none() {
            self.poll_upload(cx)?;
            if self.poll_upstream(cx) {
                break;
            }
            match self.wait(cx) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
        loop {
            self.poll_upload(cx)?;
            let mut progress = match self.poll_write(cx) {
                Poll::Ready(Ok(progress)) => progress,
                Poll::Ready(Err(stop)) => return Poll::Ready(Err(stop)),
                Poll::Pending => false,
            };
            if self.x.out.is_empty() {
                match self.poll_splice(cx) {
                    Ok(moved) => progress |= moved,
                    Err(stop) => return Poll::Ready(Err(stop)),
                }
            }
            if self.end.is_some() && self.x.out.is_empty() && self.pipe.is_none() {
                return Poll::Ready(Ok(()));
            }
            if self.end.is_none() && self.pipe.is_none() {
                progress |= self.poll_upstream(cx);
            }
            if !progress {
                match self.wait(cx) {
                    Poll::Ready(Ok(())) => {}
                    other => return other,
                }
            }
        }
    }

    /// Nothing can be moved: watches the clock and the client. Ready with Ok when a time has come and something may go on.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        if self.end.is_none()
            && !self.proxy.ignore_client_abort
            && !self.is_reading_client()
            && self.x.conn.poll_closed(cx).is_ready()
        {
            return Poll::Ready(Err(Stop::Gone(None)));
        }
        if self.end.is_some() && self.spill.is_some() {
            // A client that may stall for minutes holds no memory. What cannot be written stays there.
            drop(self.spill_out());
        }
        match self.passed(cx) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(stop) => Poll::Ready(Err(stop)),
        }
    }

    /// Writes to the client; true when something was written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Stop>> {
        if self.x.out.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let now = clock::now();
        let mut limit = u64::MAX;
        if let Some(limiter) = &self.write_limit {
            if self.write_resume.is_some_and(|at| now < at) {
                return Poll::Pending;
            }
            match limiter.allowed(self.x.bytes_sent()) {
                Ok(room) => limit = room,
                Err(at) => {
                    self.write_resume = Some(at);
                    return Poll::Pending;
                }
            }
            self.write_resume = None;
        }
        match self.x.conn.poll_write(&mut self.x.out, limit, cx) {
            Poll::Ready(Ok(n)) => {
                self.write_deadline = None;
                if let Some(limiter) = &self.write_limit
                    && !self.x.out.is_empty()
                {
                    self.write_resume = Some(now.after(limiter.pause(n, self.x.bytes_sent())));
                }
                Poll::Ready(Ok(n > 0))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Stop::Gone(Some(error)))),
            Poll::Pending => {
                let timeout = self.x.location.core.send_timeout;
                self.write_deadline
                    .get_or_insert_with(|| now.after(timeout));
                Poll::Pending
            }
        }
    }

    /// Reads from the upstream if there is room; true when something happened.
    // DIFFERS(body-at-once): what was read goes out, with buffering too; nginx waits until a buffer of its own is full.
    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.has_room() {
            return false;
        }
        let mut room = usize::MAX;
        if let Some(limiter) = &self.read_limit {
            if self.read_resume.is_some_and(|at| clock::now() < at) {
                return false;
            }
            match limiter.allowed(self.body_read) {
                Ok(bytes) => room = usize::try_from(bytes).unwrap_or(usize::MAX),
                Err(at) => {
                    self.read_resume = Some(at);
                    return false;
                }
            }
            self.read_resume = None;
        }
        let link = self.attempt.as_mut().and_then(|own| own.conn.as_mut());
        match link {
            Some(Link::Socket(conn)) => {
                let mut buf = Buf::default();
                let read = poll_read(conn, &mut buf, room, cx);
                self.took(read.map_ok(|_| buf))
            }
            Some(Link::Stream(stream)) => {
                let read = stream.poll_data(room, cx);
                self.took_data(read, cx)
            }
            None => {
                self.end = Some(End::Broken);
                true
            }
        }
    }

    /// Takes what was read of a connection; true when something was.
    fn took(&mut self, read: Poll<io::Result<Buf>>) -> bool {
        match read {
            Poll::Pending => return false,
            Poll::Ready(Ok(buf)) if buf.is_empty() => self.eof(),
            Poll::Ready(Ok(buf)) => {
                self.moved(buf.len());
                self.feed(buf);
            }
            Poll::Ready(Err(error)) => {
                tries::log_recv(self.x, &error);
                self.stop_reading(End::Broken);
            }
        }
        true
    }

    /// So many bytes came of the upstream.
    fn moved(&mut self, n: usize) {
        let now = clock::now();
        self.read_deadline = now.after(self.proxy.read_timeout);
        self.count(n, false);
        if let Some(limiter) = &self.read_limit {
            self.read_resume = Some(now.after(limiter.pause(n as u64, self.body_read)));
        }
    }

    /// The upstream was silent for too long.
    fn time_out(&mut self) {
        self.x.log(
            Level::Error,
            format_args!("upstream timed out (110: Connection timed out)"),
        );
        if let Some(Link::Stream(stream)) = self.attempt.as_ref().and_then(|own| own.conn.as_ref())
        {
            stream.timed_out();
        }
        self.stop_reading(End::Timeout);
    }

    /// Whether more of the body can be taken, making room in the temporary file if need be.
    fn has_room(&mut self) -> bool {
        let held = self.x.out.in_memory();
        if !self.mode.buffering {
            return self.x.out.is_empty();
        }
        let (number, size) = self.proxy.buffers;
        let limit = (number * size + self.proxy.buffer_size) as u64;
        if held < limit {
            return true;
        }
        let spilled = self.spill.as_ref().map_or(0, |spill| spill.len);
        if spilled >= self.proxy.max_temp_file_size {
            return false;
        }
        match self.spill_out() {
            Ok(()) => true,
            Err(error) => {
                let error = crate::common::errno::Errno(&error);
                self.x.log(
                    Level::Crit,
                    format_args!("write to a temporary file failed ({error})"),
                );
                false
            }
        }
    }

    /// Moves what waits in memory to the temporary file.
    fn spill_out(&mut self) -> io::Result<()> {
        if self.spill.is_none() {
            let temp = temp_file::create(&self.proxy.temp_path, self.x.live.prefix(), false)?;
            let path = temp.path.display();
            self.x.log(
                Level::Warn,
                format_args!("an upstream response is buffered to a temporary file {path}"),
            );
            self.spill = Some(Spill {
                file: Rc::new(temp.file),
                len: 0,
            });
        }
        let Some(spill) = &mut self.spill else {
            return Ok(());
        };
        self.x.out.spill(&mut |bytes| {
            spill.file.write_all_at(bytes, spill.len)?;
            let piece = Piece::File {
                file: Rc::clone(&spill.file),
                offset: spill.len,
                len: bytes.len() as u64,
            };
            spill.len += bytes.len() as u64;
            Ok(piece)
        })
    }

    /// Whether a time has come; a timeout of the client ends it all.
    fn passed(&mut self, cx: &mut Context<'_>) -> Result<bool, Stop> {
        let now = clock::now();
        if self.write_deadline.is_some_and(|at| now >= at) {
            return Err(Stop::Timeout);
        }
        let reading = self.end.is_none()
            && self.read_resume.is_none()
            && (self.mode.buffering || self.x.out.is_empty());
        let read_deadline = (reading && self.can_read()).then_some(self.read_deadline);
        if read_deadline.is_some_and(|at| now >= at) {
            self.time_out();
            return Ok(true);
        }
        let upload_deadline = self.upload_passed()?;
        if self.end == Some(End::Timeout) {
            return Ok(true);
        }
        let next = [
            upload_deadline,
            self.write_deadline,
            read_deadline,
            self.write_resume,
            self.read_resume,
        ]
        .into_iter()
        .flatten()
        .min();
        Ok(self.x.conn.timer.poll(cx, next).is_ready())
    }

    /// Whether the upstream is being waited for and not the client.
    fn can_read(&self) -> bool {
        let (number, size) = self.proxy.buffers;
        let limit = (number * size + self.proxy.buffer_size) as u64;
        let spilled = self.spill.as_ref().map_or(0, |spill| spill.len);
        !self.mode.buffering
            || self.x.out.in_memory() < limit
            || spilled < self.proxy.max_temp_file_size
    }

    fn finish(mut self, result: Result<(), Stop>) -> Next<'g> {
        if let Some(attempt) = self.attempt.take() {
            tries::release(self.x, self.target, attempt, Outcome::Aborted, false);
        }
        match result {
            Ok(()) if self.end == Some(End::Complete) => {
                self.x.complete = true;
                Next::Done
            }
            Ok(()) => {
                self.x.keepalive = false;
                self.x.broken = true;
                Next::Done
            }
            Err(Stop::Timeout) => {
                self.x.action = Action::SendingToClient;
                self.x.timed_out = true;
                self.x.log(
                    Level::Info,
                    format_args!("client timed out (110: Connection timed out)"),
                );
                Next::Terminate(408)
            }
            Err(Stop::Body(status)) => {
                self.x.broken = true;
                Next::Terminate(status)
            }
            Err(Stop::Gone(Some(error))) => output::failed(self.x, &error.into()),
            Err(Stop::Gone(None)) => {
                self.x.log(
                    Level::Info,
                    format_args!(
                        "client prematurely closed connection, so upstream connection is closed too"
                    ),
                );
                self.x.broken = true;
                Next::Terminate(CLIENT_CLOSED)
            }
        }
    }
}
