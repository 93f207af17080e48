//! The record of a request's tries: it is every `$upstream_*` list.
//!
//! Mirrors `ngx_http_upstream_state_t` and the variables that read it: `a, b` for tries, `a : b` where the request was
//! redirected inside and proxied again. Times have three decimals; what there is not is `-`.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::common::decimal;

/// One try.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// The peer's address, or the group's name when no peer was left; None marks a new round.
    addr: Option<Arc<str>>,
    /// When it began, monotonic milliseconds.
    pub start: u64,
    /// Status of the response, or the one that stands for its failure.
    pub status: Option<u16>,
    /// Milliseconds until the connection was there.
    pub connect_time: Option<u64>,
    /// Milliseconds until the final header was there.
    pub header_time: Option<u64>,
    /// Milliseconds until the first byte was there (stream).
    pub first_byte_time: Option<u64>,
    /// Milliseconds until the last byte was there.
    pub response_time: Option<u64>,
    /// Bytes sent to the peer.
    pub bytes_sent: u64,
    /// Bytes received from the peer.
    pub bytes_received: u64,
    /// Length of the response's body.
    pub response_length: u64,
}

impl Attempt {
    /// The peer's address, or the group's name.
    pub fn addr(&self) -> Option<&Arc<str>> {
        self.addr.as_ref()
    }

    /// What nginx's zeroed record shows where a round has no try before it.
    fn new_round() -> Self {
        Self {
            connect_time: Some(0),
            header_time: Some(0),
            response_time: Some(0),
            ..Self::default()
        }
    }
}

/// All tries of a request.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    list: SmallVec<[Attempt; 1]>,
    begun: bool,
}

impl Attempts {
    /// The request is going to be proxied; again when it was redirected inside.
    pub fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            self.list.push(Attempt::new_round());
        }
    }

    /// A try begins, at this address or with nobody left in the group of this name.
    pub fn start(&mut self, addr: Arc<str>) -> &mut Attempt {
        self.begun = true;
        let index = self.list.len();
        self.list.push(Attempt {
            addr: Some(addr),
            ..Attempt::default()
        });
        &mut self.list[index]
    }

    /// The last try of this round.
    pub fn current(&mut self) -> Option<&mut Attempt> {
        self.list.last_mut().filter(|last| last.addr.is_some())
    }

    /// The last try of this round.
    pub fn last(&self) -> Option<&Attempt> {
        self.list.last().filter(|last| last.addr.is_some())
    }

    /// Whether there was no try.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// `$upstream_addr`. As for all the others: appended to `out`, false when the variable is not found.
    pub fn addr(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| {
            out.extend_from_slice(attempt.addr.as_deref().unwrap_or_default().as_bytes());
        })
    }

    /// `$upstream_status`
    pub fn status(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| match attempt.status {
            Some(status) => decimal::push(out, status.into()),
            None => out.push(b'-'),
        })
    }

    /// `$upstream_connect_time`
    pub fn connect_time(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| push_time(out, attempt.connect_time))
    }

    /// `$upstream_header_time`
    pub fn header_time(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| push_time(out, attempt.header_time))
    }

    /// `$upstream_first_byte_time`
    pub fn first_byte_time(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| push_time(out, attempt.first_byte_time))
    }

    /// `$upstream_response_time`, `$upstream_session_time`
    pub fn response_time(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| push_time(out, attempt.response_time))
    }

    /// `$upstream_response_length`
    pub fn response_length(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| {
            decimal::push(out, attempt.response_length);
        })
    }

    /// `$upstream_bytes_received`
    pub fn bytes_received(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| {
            decimal::push(out, attempt.bytes_received);
        })
    }

    /// `$upstream_bytes_sent`
    pub fn bytes_sent(&self, out: &mut Vec<u8>) -> bool {
        self.render(out, |attempt, out| decimal::push(out, attempt.bytes_sent))
    }

    fn render(&self, out: &mut Vec<u8>, value: impl Fn(&Attempt, &mut Vec<u8>)) -> bool {
        let mut rest = self.list.iter().peekable();
        let Some(first) = rest.next() else {
            return false;
        };
        value(first, out);
        while let Some(attempt) = rest.next() {
            if attempt.addr.is_some() {
                out.extend_from_slice(b", ");
                value(attempt, out);
            } else {
                out.extend_from_slice(b" : ");
                if let Some(attempt) = rest.next() {
                    value(attempt, out);
                }
            }
        }
        true
    }
}

fn push_time(out: &mut Vec<u8>, millis: Option<u64>) {
    match millis {
        Some(millis) => decimal::push_seconds(out, millis),
        None => out.push(b'-'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(list: impl Fn(&mut Vec<u8>) -> bool) -> Option<String> {
        let mut out = Vec::new();
        list(&mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn nothing_tried_is_not_found() {
        let mut attempts = Attempts::default();
        assert_eq!(text(|out| attempts.addr(out)), None);
        attempts.begin();
        assert_eq!(text(|out| attempts.status(out)), None);
        assert!(attempts.current().is_none());
    }

    /// The cases of behaviours L1.
    #[test]
    fn tries_and_rounds() {
        let mut attempts = Attempts::default();
        attempts.begin();
        let first = attempts.start("A".into());
        first.status = Some(502);
        first.response_time = Some(0);
        let second = attempts.start("B".into());
        second.status = Some(200);
        second.connect_time = Some(1);
        second.header_time = Some(1023);
        second.response_time = Some(12_345);
        second.bytes_sent = 30;
        second.bytes_received = 40;
        second.response_length = 2;
        assert_eq!(text(|out| attempts.addr(out)).unwrap(), "A, B");
        assert_eq!(text(|out| attempts.status(out)).unwrap(), "502, 200");
        assert_eq!(text(|out| attempts.connect_time(out)).unwrap(), "-, 0.001");
        assert_eq!(text(|out| attempts.header_time(out)).unwrap(), "-, 1.023");
        assert_eq!(
            text(|out| attempts.response_time(out)).unwrap(),
            "0.000, 12.345"
        );
        assert_eq!(text(|out| attempts.bytes_sent(out)).unwrap(), "0, 30");
        assert_eq!(text(|out| attempts.bytes_received(out)).unwrap(), "0, 40");
        assert_eq!(text(|out| attempts.response_length(out)).unwrap(), "0, 2");

        attempts.begin();
        assert!(attempts.current().is_none());
        assert_eq!(text(|out| attempts.addr(out)).unwrap(), "A, B : ");
        attempts.start("u".into());
        assert_eq!(text(|out| attempts.addr(out)).unwrap(), "A, B : u");
        assert_eq!(text(|out| attempts.status(out)).unwrap(), "502, 200 : -");
        attempts.start("C".into());
        assert_eq!(text(|out| attempts.addr(out)).unwrap(), "A, B : u, C");
    }

    #[test]
    fn a_round_without_tries_leaves_an_empty_record() {
        let mut attempts = Attempts::default();
        attempts.begin();
        attempts.begin();
        attempts.start("B".into()).status = Some(200);
        assert_eq!(text(|out| attempts.addr(out)).unwrap(), ", B");
        assert_eq!(text(|out| attempts.status(out)).unwrap(), "-, 200");
        assert_eq!(text(|out| attempts.response_time(out)).unwrap(), "0.000, -");
    }
}
