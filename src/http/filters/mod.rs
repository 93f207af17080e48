//! Filters of a response: first on its header, then on its body, each in a file of its own.
//!
//! The order is nginx's: not-modified, `add_header` and `expires`, gzip, ranges, chunked. A header filter decides whether
//! the body goes through its body filter.

pub(super) mod chunked;
pub(super) mod gzip;
pub(super) mod headers;
pub(super) mod limit_rate;
pub(super) mod not_modified;
pub(super) mod range;

use super::{
    exchange::Exchange,
    out::{Out, Piece},
    output::Sent,
};

/// The filters that a body goes through.
#[derive(Debug, Default)]
pub(super) struct BodyFilters {
    /// Ranges that were asked for.
    pub range: Option<Box<range::Ranges>>,
    /// Compression.
    pub gzip: Option<Box<gzip::Encoder>>,
}

/// Runs the header filters.
pub(super) fn header<'g>(x: &mut Exchange<'g>) -> Sent<'g> {
    not_modified::header(x)?;
    headers::header(x);
    gzip::header(x);
    range::header(x)?;
    chunked::header(x);
    Ok(())
}

/// Puts a piece of the body through the filters into the output.
pub(super) fn body(x: &mut Exchange<'_>, piece: Piece) {
    let response = &mut x.response;
    match &mut response.filters.range {
        None => compress(
            &mut response.filters.gzip,
            piece,
            response.chunked,
            &mut x.out,
        ),
        Some(ranges) => {
            let (gzip, chunked, out) = (&mut response.filters.gzip, response.chunked, &mut x.out);
            ranges.push(piece, &mut |piece| compress(gzip, piece, chunked, out));
        }
    }
}

/// Lets out what a filter holds back, so that the client sees all that has come so far.
pub(super) fn sync(x: &mut Exchange<'_>) {
    let response = &mut x.response;
    if let Some(gzip) = &mut response.filters.gzip {
        let bytes = gzip.sync();
        chunked::frame(Piece::Vec(bytes, 0), response.chunked, &mut x.out);
    }
}

/// The body is complete.
pub(super) fn finish(x: &mut Exchange<'_>) {
    let response = &mut x.response;
    if let Some(ranges) = &mut response.filters.range {
        let (gzip, chunked, out) = (&mut response.filters.gzip, response.chunked, &mut x.out);
        ranges.finish(&mut |piece| compress(gzip, piece, chunked, out));
    }
    if let Some(gzip) = response.filters.gzip.take() {
        let (bytes, ratio) = gzip.finish();
        x.gzip_ratio = Some(ratio);
        chunked::frame(Piece::Vec(bytes, 0), response.chunked, &mut x.out);
    }
    headers::trailers(x);
    chunked::finish(x);
}

fn compress(gzip: &mut Option<Box<gzip::Encoder>>, piece: Piece, is_chunked: bool, out: &mut Out) {
    match gzip {
        None => chunked::frame(piece, is_chunked, out),
        Some(gzip) => {
            let bytes = gzip.push(piece);
            chunked::frame(Piece::Vec(bytes, 0), is_chunked, out);
        }
    }
}
