//! One try over HTTP/2: a connection that may be shared, a stream, the head of the response.

use std::{
    future::Future,
    rc::Rc,
    task::{Context, Poll, ready},
};

use super::{
    fault,
    heads::{Read, informational},
    line::{Home, Line},
    mux::{Found, Outcome},
    response,
    stream::Stream,
    upload::{Sent, Upload},
};
use crate::{
    common::clock::{self, Now},
    conf::model::Proxy,
    http::{
        exchange::{Action, Exchange},
        h2::hpack::Fields,
        proxy::{
            attempt::{Attempt, Fail, Link, wait},
            pool,
            request::Built,
            target::Target,
            tls::Tls,
        },
    },
};

/// A head that is not the final one.
fn early(read: &Read) -> Option<&Fields> {
    let fields = read.as_ref().ok()?;
    informational(fields).map(|_| fields)
}

impl Attempt {
    /// Opens a stream on a connection that there is or a new one, sends the request and reads the head.
    pub(in crate::http::proxy) async fn run_h2(
        &mut self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        target: &Target,
        built: &Built,
    ) -> Result<(), Fail> {
        x.action = Action::Connecting;
        let tls = Tls::of(x, proxy, target)?;
        self.key.tls = tls.as_ref().map(Tls::key);
        let line = self.join(x, proxy, target, tls.as_ref()).await?;
        self.connected(x);
        x.action = Action::SendingRequest;
        self.begin(x, line, built)?;
        x.action = Action::ReadingHeader;
        let (read, is_all) = loop {
            let (read, is_all) = self.exchange(x, proxy).await?;
            let Some(early) = early(&read) else {
                break (read, is_all);
            };
            self.head.hints.extend(response::hints(early));
            self.pass_hints(x, proxy).await;
        };
        let size = response::take(x, &mut self.head, read, (proxy.buffer_size, is_all))?;
        if let Some(record) = x.attempts.current() {
            record.bytes_received += size;
        }
        self.got_header(x);
        Ok(())
    }

    /// Finds a connection with room, or opens one.
    async fn join(
        &self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        target: &Target,
        tls: Option<&Tls>,
    ) -> Result<Rc<Line>, Fail> {
        let deadline = clock::now().after(proxy.connect_timeout);
        let place = pool::place(&target.group, target.index, x.location.id);
        let limits = target.group.keepalive();
        let (Some(place), Some(limits), false) = (place, limits, x.thread.is_shutting_down())
        else {
            return self.open(x, proxy, target, tls, (deadline, None)).await;
        };
        let mux = x.thread.pools.mux();
        let home = mux.home(place, limits);
        loop {
            let found =
                std::future::poll_fn(|cx| Poll::Ready(mux.find(place, &self.key, cx))).await;
            let opening = match found {
                Found::Line(line) => return Ok(line),
                Found::Opening(opening) => opening,
                Found::None => {
                    let duty = mux.begin(&home, &self.key);
                    let line = self
                        .open(x, proxy, target, tls, (deadline, Some(home)))
                        .await;
                    match &line {
                        Ok(line) => duty.done(line),
                        Err(Fail::ClientGone) => drop(duty),
                        Err(_) => duty.failed(),
                    }
                    return line;
                }
            };
            let watch = !proxy.ignore_client_abort;
            let outcome = wait(&mut x.conn, watch, deadline, |_, cx| opening.poll(cx)).await?;
            match outcome {
                Outcome::Line(line) => return Ok(line),
                // Its own try has its own line in the log.
                Outcome::Failed => {
                    return self.open(x, proxy, target, tls, (deadline, None)).await;
                }
                Outcome::Left | Outcome::Open => {}
            }
        }
    }

    async fn open(
        &self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        target: &Target,
        tls: Option<&Tls>,
        (deadline, home): (Now, Option<Home>),
    ) -> Result<Rc<Line>, Fail> {
        let io = self.dial(x, proxy, target, (tls, b"h2"), deadline).await?;
        let mut begun = Box::pin(Line::begin(io, home));
        let watch = !proxy.ignore_client_abort;
        let begun = wait(&mut x.conn, watch, deadline, |_, cx| {
            begun.as_mut().poll(cx)
        });
        begun.await?.map_err(|error| fault::fail(x, &error))
    }

    /// Sends the head of the request.
    fn begin(&mut self, x: &mut Exchange<'_>, line: Rc<Line>, built: &Built) -> Result<(), Fail> {
        let Some(head) = &built.fields else {
            return Err(Fail::Internal);
        };
        let upload = Upload::new(x, built);
        let stream = Stream::open(line, head.block(), upload.is_none());
        // Nothing was sent: the connection has just ended.
        let mut stream = stream.map_err(|error| match fault::fail(x, &error) {
            Fail::Error => Fail::Unprocessed,
            fail => fail,
        })?;
        if let Some(record) = x.attempts.current() {
            record.bytes_sent += head.size();
        }
        self.request_complete = upload.is_none();
        stream.upload = upload.map(Box::new);
        self.request_sent = true;
        self.conn = Some(Link::Stream(Box::new(stream)));
        Ok(())
    }

    /// Sends the body and waits for the head of the response; true: nothing follows it.
    async fn exchange(
        &mut self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
    ) -> Result<(Read, bool), Fail> {
        let mut read_deadline = None;
        std::future::poll_fn(|cx| {
            self.poll_upload(x, cx)?;
            let Some(Link::Stream(stream)) = &mut self.conn else {
                return Poll::Ready(Err(Fail::Error));
            };
            if let Poll::Ready(response) = stream.poll_head(cx) {
                self.response_received = response.is_ok();
                let is_all = stream.has_ended();
                return Poll::Ready(match response {
                    Ok(response) => Ok((response, is_all)),
                    Err(error) => Err(fault::fail(x, &error)),
                });
            }
            let is_reading = stream.is_reading_client();
            if !proxy.ignore_client_abort
                && (!is_reading || x.conn.io.is_stream())
                && x.conn.poll_closed(cx).is_ready()
            {
                return Poll::Ready(Err(Fail::ClientGone));
            }
            let (deadline, late) = if let Some(upload) = &mut stream.upload {
                (upload.deadline(x, proxy), upload.late())
            } else {
                let at = || clock::now().after(proxy.read_timeout);
                (*read_deadline.get_or_insert_with(at), Fail::Timeout)
            };
            ready!(x.conn.timer.poll(cx, Some(deadline)));
            if late == Fail::Timeout {
                stream.timed_out();
            }
            Poll::Ready(Err(late))
        })
        .await
    }

    /// Goes on sending the request. Err: the client has not sent what it should, or is gone.
    pub(in crate::http::proxy) fn poll_upload(
        &mut self,
        x: &mut Exchange<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Fail> {
        let Some(Link::Stream(stream)) = &mut self.conn else {
            return Ok(());
        };
        let Some(upload) = &mut stream.upload else {
            return Ok(());
        };
        let Poll::Ready(sent) = upload.poll(x, &mut stream.sending, cx) else {
            return Ok(());
        };
        self.request_complete = sent? == Sent::All;
        if let Some(upload) = stream.upload.take() {
            upload.finish(x);
        }
        Ok(())
    }

    /// Until when the request has to have moved on, and what it means if it has not.
    pub(in crate::http::proxy) fn upload_deadline(
        &mut self,
        x: &Exchange<'_>,
        proxy: &Proxy,
    ) -> Option<(Now, Fail)> {
        let Some(Link::Stream(stream)) = &mut self.conn else {
            return None;
        };
        let upload = stream.upload.as_mut()?;
        Some((upload.deadline(x, proxy), upload.late()))
    }

    /// Whether the client is read for its body, so that its end is seen there.
    pub(in crate::http::proxy) fn is_reading_client(&self) -> bool {
        match &self.conn {
            Some(Link::Stream(stream)) => stream.is_reading_client(),
            _ => false,
        }
    }
}
