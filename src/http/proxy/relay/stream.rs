//! A body that comes on a stream, while the request may still be on its way.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::{End, Framing, Relay, Stop};
use crate::{
    common::clock,
    conf::model::Level,
    http::{
        filters,
        h1::known::Known,
        out::Piece,
        proxy::{
            attempt::{Fail, Link},
            h2,
            headers::is_hidden,
        },
    },
};

impl Relay<'_, '_> {
    /// Takes what came on a stream; true when something did.
    pub(super) fn took_data(
        &mut self,
        read: Poll<Result<Bytes, h2::Cut>>,
        cx: &mut Context<'_>,
    ) -> bool {
        match read {
            Poll::Pending => return false,
            Poll::Ready(Ok(data)) if data.is_empty() => self.ended(cx),
            Poll::Ready(Ok(data)) => {
                self.moved(data.len());
                self.feed_data(data);
            }
            Poll::Ready(Err(cut)) => {
                h2::cut(self.x, &cut);
                self.stop_reading(End::Broken);
            }
        }
        true
    }

    /// The body has ended; what follows it is there.
    fn ended(&mut self, cx: &mut Context<'_>) {
        if matches!(self.framing, Framing::Stream(Some(left)) if left > 0) {
            let text = "upstream prematurely closed stream";
            self.x.log(Level::Error, format_args!("{text}"));
            return self.stop_reading(End::Broken);
        }
        let link = self.attempt.as_mut().and_then(|own| own.conn.as_mut());
        if let Some(Link::Stream(stream)) = link
            && let Poll::Ready(Some(read)) = stream.poll_trailers(cx)
        {
            let mut trailers = std::mem::take(&mut self.x.upstream_trailers);
            let are_good = h2::trailers(self.x, read, self.proxy.buffer_size, &mut trailers);
            self.x.upstream_trailers = trailers;
            if !are_good {
                return self.stop_reading(End::Broken);
            }
        }
        self.complete();
    }

    fn feed_data(&mut self, data: Bytes) {
        let Framing::Stream(left) = &mut self.framing else {
            return;
        };
        let rest = left.map(|left| left.checked_sub(data.len() as u64));
        if rest == Some(None) {
            let text = "upstream sent response body larger than indicated content length";
            self.x.log(Level::Error, format_args!("{text}"));
            return self.stop_reading(End::Broken);
        }
        *left = rest.flatten();
        filters::body(self.x, Piece::Bytes(data));
    }

    /// What the client is to see of the fields behind the body.
    pub(super) fn pass_trailers(&mut self) {
        if !self.proxy.pass_trailers {
            return;
        }
        let trailers = std::mem::take(&mut self.x.upstream_trailers);
        for (known, name, value) in trailers.iter() {
            if !is_hidden(self.proxy, known, name) {
                self.x.response.trailers.push(Known::Other, name, value);
            }
        }
        self.x.upstream_trailers = trailers;
    }

    /// Goes on sending the request.
    pub(super) fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<(), Stop> {
        let Some(attempt) = &mut self.attempt else {
            return Ok(());
        };
        attempt.poll_upload(self.x, cx).map_err(|fail| match fail {
            Fail::ClientBody(status) => Stop::Body(status),
            _ => Stop::Gone(None),
        })
    }

    /// Whether reading the client's body says that it is gone.
    pub(super) fn is_reading_client(&self) -> bool {
        let attempt = self.attempt.as_ref();
        !self.x.conn.io.is_stream() && attempt.is_some_and(|attempt| attempt.is_reading_client())
    }

    /// Whether the request has not moved on for too long: the client is late with it, or the upstream.
    pub(super) fn upload_passed(&mut self) -> Result<Option<clock::Now>, Stop> {
        let Some(attempt) = &mut self.attempt else {
            return Ok(None);
        };
        let Some((deadline, late)) = attempt.upload_deadline(self.x, self.proxy) else {
            return Ok(None);
        };
        if clock::now() < deadline {
            return Ok(Some(deadline));
        }
        if let Fail::ClientBody(_) = late {
            return Err(Stop::Timeout);
        }
        self.time_out();
        Ok(None)
    }
}
