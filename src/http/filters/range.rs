//! Byte ranges. Mirrors `ngx_http_range_filter_module.c`.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    common::{date, decimal},
    http::{exchange::Exchange, h1::known::Known, out::Piece, output::Sent, phases::Next},
};

/// Ranges of a body that is sent in part.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// Ranges in the order asked for, from the whole body.
    list: Vec<Range>,
    /// For several ranges: what stands before each.
    boundary: Vec<u8>,
    last_boundary: Vec<u8>,
    /// Body bytes seen so far.
    seen: u64,
    /// Where a body of several parts is kept until it is whole.
    held: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    These(Vec<Range>),
    /// The whole body is sent.
    Whole,
    NotSatisfiable,
}

static BOUNDARY: AtomicU64 = AtomicU64::new(1);

/// Reads `Range` and makes the response a 206 or a 416.
pub(crate) fn header<'g>(x: &mut Exchange<'g>) -> Sent<'g> {
    let Some(length) = x.response.content_length else {
        return Ok(());
    };
    let max_ranges = x.location.core.max_ranges;
    if x.request.version < 1000
        || x.response.status != 200
        || !x.response.allow_ranges
        || max_ranges == Some(0)
    {
        return Ok(());
    }
    let asked = match wanted(x) {
        Some(text) => {
            let limit = if x.response.single_range {
                Some(1)
            } else {
                max_ranges
            };
            parse(text, length, limit)
        }
        None => Asked::Whole,
    };
    match asked {
        Asked::Whole => {
            x.response
                .headers
                .push(Known::AcceptRanges, b"Accept-Ranges", b"bytes");
            Ok(())
        }
        Asked::NotSatisfiable => {
            let response = &mut x.response;
            response.headers.remove(Known::ContentRange);
            response.headers.push(
                Known::ContentRange,
                b"Content-Range",
                format!("bytes */{length}").as_bytes(),
            );
            response.clear_content_length();
            Err(Next::Status(416))
        }
        Asked::These(list) => {
            partial(x, list, length);
            Ok(())
        }
    }
}

/// The text after `bytes=`, if ranges are asked for and `If-Range` agrees.
fn wanted<'a>(x: &'a Exchange<'_>) -> Option<&'a [u8]> {
    let range = x.request.headers.get(Known::Range)?;
    let text = range
        .get(6..)
        .filter(|text| !text.is_empty() && range[..6].eq_ignore_ascii_case(b"bytes="))?;
    let Some(if_range) = x.request.headers.get(Known::IfRange) else {
        return Some(text);
    };
    let same = if if_range.len() >= 2 && if_range.ends_with(b"\"") {
        x.response.headers.get(Known::ETag) == Some(if_range)
    } else {
        x.response
            .last_modified
            .is_some_and(|modified| date::parse_http(if_range) == Some(modified))
    };
    same.then_some(text)
}

fn partial(x: &mut Exchange<'_>, list: Vec<Range>, length: u64) {
    let response = &mut x.response;
    response.status = 206;
    response.status_line.clear();
    response.headers.remove(Known::ContentRange);
    response.headers.remove(Known::ContentLength);
    let mut ranges = Ranges {
        list,
        boundary: Vec::new(),
        last_boundary: Vec::new(),
        seen: 0,
        held: Vec::new(),
    };
    if let [Range { start, end }] = ranges.list[..] {
        let value = format!("bytes {start}-{}/{length}", end - 1);
        response
            .headers
            .push(Known::ContentRange, b"Content-Range", value.as_bytes());
        response.content_length = Some(end - start);
    } else {
        let boundary = format!("{:020}A", BOUNDARY.fetch_add(1, Ordering::Relaxed));
        let mut before = format!("\r\n--{boundary}\r\n").into_bytes();
        if !response.content_type.is_empty() {
            before.extend_from_slice(b"Content-Type: ");
            before.extend_from_slice(&response.content_type);
            before.extend_from_slice(b"\r\n");
        }
        before.extend_from_slice(b"Content-Range: bytes ");
        ranges.boundary = before;
        ranges.last_boundary = format!("\r\n--{boundary}--\r\n").into_bytes();
        response.content_type = format!("multipart/byteranges; boundary={boundary}").into_bytes();
        let parts: u64 = ranges
            .list
            .iter()
            .map(|r| (ranges.boundary.len() + r.label(length).len()) as u64 + r.end - r.start)
            .sum();
        response.content_length = Some(parts + ranges.last_boundary.len() as u64);
        ranges.seen = length;
    }
    response.filters.range = Some(Box::new(ranges));
}

impl Range {
    fn label(self, length: u64) -> String {
        format!("{}-{}/{length}\r\n\r\n", self.start, self.end - 1)
    }
}

impl Ranges {
    /// Passes on what belongs to the ranges.
    pub(crate) fn push(&mut self, mut piece: Piece, sink: &mut dyn FnMut(Piece)) {
        if self.list.len() > 1 {
            self.held.push(piece);
            return;
        }
        let Some(range) = self.list.first().copied() else {
            return;
        };
        let (start, end) = (self.seen, self.seen + piece.len());
        self.seen = end;
        if end <= range.start || start >= range.end {
            return;
        }
        if start < range.start {
            drop(piece.split_to(range.start - start));
        }
        let from = start.max(range.start);
        let wanted = range.end.min(end) - from;
        sink(if wanted < piece.len() {
            piece.split_to(wanted)
        } else {
            piece
        });
    }

    /// The body is complete: several ranges are put together now.
    pub(crate) fn finish(&mut self, sink: &mut dyn FnMut(Piece)) {
        if self.list.len() < 2 {
            return;
        }
        let length = self.seen;
        for range in std::mem::take(&mut self.list) {
            let mut before = self.boundary.clone();
            before.extend_from_slice(range.label(length).as_bytes());
            sink(Piece::Vec(before, 0));
            self.cut(range, sink);
        }
        sink(Piece::Vec(std::mem::take(&mut self.last_boundary), 0));
    }

    fn cut(&self, range: Range, sink: &mut dyn FnMut(Piece)) {
        let mut start = 0;
        for piece in &self.held {
            let end = start + piece.len();
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                sink(slice(piece, from - start, to - start));
            }
            start = end;
        }
    }
}

/// A copy of a part of a piece.
fn slice(piece: &Piece, from: u64, to: u64) -> Piece {
    if let Piece::File { file, offset, .. } = piece {
        Piece::File {
            file: file.clone(),
            offset: offset + from,
            len: to - from,
        }
    } else {
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Piece::Vec(
            piece.memory().unwrap_or_default()[at(from)..at(to)].to_vec(),
            0,
        )
    }
}

/// Reads a list of ranges of a body of `length` bytes (`ngx_http_range_parse`).
fn parse(text: &[u8], length: u64, limit: Option<u64>) -> Asked {
    let mut list = Vec::new();
    let mut size = 0u64;
    for part in text.split(|c| *c == b',') {
        let Some((start, end)) = one(part, length) else {
            return Asked::NotSatisfiable;
        };
        if start < end {
            list.push(Range { start, end });
            size = size.saturating_add(end - start);
            if limit.is_some_and(|limit| list.len() as u64 > limit) {
                return Asked::Whole;
            }
        } else if start == 0 {
            return Asked::Whole;
        }
    }
    match list.len() {
        0 => Asked::NotSatisfiable,
        1 => Asked::These(list),
        _ if size > length => Asked::Whole,
        n if limit.is_none() && size + n as u64 * 256 > length + 4096 => Asked::Whole,
        _ => Asked::These(list),
    }
}

/// One range as start and end (exclusive); None is an error.
fn one(part: &[u8], length: u64) -> Option<(u64, u64)> {
    let part = trim(part);
    let dash = memchr::memchr(b'-', part)?;
    let (first, last) = (trim(&part[..dash]), trim(&part[dash + 1..]));
    if first.is_empty() {
        let suffix = decimal::parse(last)?;
        return Some((
            length.saturating_sub(suffix),
            if suffix == 0 {
                length.saturating_sub(1).min(length)
            } else {
                length
            },
        ));
    }
    let start = decimal::parse(first)?;
    let end = if last.is_empty() {
        length
    } else {
        decimal::parse(last)?.saturating_add(1).min(length)
    };
    Some((start, end))
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let these = |list: &[(u64, u64)]| {
            Asked::These(
                list.iter()
                    .map(|(start, end)| Range {
                        start: *start,
                        end: *end,
                    })
                    .collect(),
            )
        };
        assert_eq!(parse(b"0-8", 100, None), these(&[(0, 9)]));
        assert_eq!(parse(b"-10", 100, None), these(&[(90, 100)]));
        assert_eq!(parse(b"90-", 100, None), these(&[(90, 100)]));
        assert_eq!(parse(b"90-500", 100, None), these(&[(90, 100)]));
        assert_eq!(parse(b"0-1, 3-4", 5000, None), these(&[(0, 2), (3, 5)]));
        assert_eq!(parse(b"0-1,3-4", 100, Some(1)), Asked::Whole);
        assert_eq!(parse(b"100-", 100, None), Asked::NotSatisfiable);
        assert_eq!(parse(b"x", 100, None), Asked::NotSatisfiable);
        assert_eq!(parse(b"0-99,0-99", 100, None), Asked::Whole);
    }
}
