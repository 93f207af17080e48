//! What belongs to a body and what is wrong with it, however it is framed; what of it is kept.

use std::{fs::File, path::PathBuf, rc::Rc};

use crate::{
    common::buffer::Buf,
    http::{h1::chunked, out::Piece},
};

/// A request's body, as far as it has been read.
#[derive(Debug, Default)]
pub(in crate::http) struct RequestBody {
    framing: Framing,
    /// Bytes in memory; all of them unless there is a file.
    pub memory: Vec<u8>,
    /// The temporary file, when the body did not fit or was asked to be in one.
    pub file: Option<BodyFile>,
    /// Body bytes read so far, without framing.
    pub received: u64,
    /// Somebody has asked for the body and it is complete.
    pub complete: bool,
    /// The body is of no use to anybody: what still comes is thrown away.
    pub discarded: bool,
    /// The upstream gets it while it comes (`proxy_request_buffering off`).
    pub unbuffered: bool,
    /// It was too long to be kept while it was passed on.
    is_lost: bool,
}

/// A temporary file that holds a body.
#[derive(Debug)]
pub(in crate::http) struct BodyFile {
    /// The file.
    pub file: Rc<File>,
    /// Its path, `$request_body_file`.
    pub path: PathBuf,
    /// Its length.
    pub len: u64,
}

#[derive(Debug, Default)]
enum Framing {
    /// Nothing (more) comes.
    #[default]
    None,
    /// So many bytes still come.
    Length(u64),
    /// Chunks come.
    Chunked(chunked::Decoder),
    /// The stream's end is the body's; how long it is to be, if that was said.
    Stream(Option<u64>),
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum BodyError {
    /// Bad chunks.
    Invalid,
    /// More than `client_max_body_size`.
    TooLarge,
    /// More than was said, on a stream.
    Excess,
    /// A stream ended before all of so many bytes had come.
    Short(u64),
}

impl RequestBody {
    /// Sets how the body comes; called once the head is known.
    pub(in crate::http) fn expect(&mut self, content_length: Option<u64>, is_chunked: bool) {
        self.framing = match content_length {
            _ if is_chunked => Framing::Chunked(chunked::Decoder::default()),
            Some(0) | None => Framing::None,
            Some(n) => Framing::Length(n),
        };
    }

    /// The same for a stream; `is_all`: it has ended.
    pub(in crate::http) fn expect_stream(&mut self, content_length: Option<u64>, is_all: bool) {
        self.framing = if is_all {
            Framing::None
        } else {
            Framing::Stream(content_length)
        };
    }

    /// Whether the end of a stream is its end.
    pub(in crate::http) fn is_stream(&self) -> bool {
        matches!(self.framing, Framing::Stream(_))
    }

    /// Whether all of it has been taken off the connection.
    pub(in crate::http) fn is_read(&self) -> bool {
        match &self.framing {
            Framing::None => true,
            Framing::Length(n) => *n == 0,
            Framing::Chunked(decoder) => decoder.is_done(),
            Framing::Stream(_) => false,
        }
    }

    /// How many bytes still come, where that is known.
    pub(in crate::http) fn remaining(&self) -> Option<u64> {
        match &self.framing {
            Framing::None => Some(0),
            Framing::Length(n) => Some(*n),
            Framing::Chunked(_) => None,
            Framing::Stream(length) => length.map(|n| n.saturating_sub(self.received)),
        }
    }

    /// Takes what belongs to the body off `buf`, behind which nothing comes if it is `last`, and hands the data to `sink`;
    /// `max` bounds the whole body (0 = no bound).
    pub(in crate::http) fn take(
        &mut self,
        (buf, last): (&mut Buf, bool),
        max: u64,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), BodyError> {
        if let Framing::Stream(length) = self.framing {
            return self.take_stream((buf, last), length, max, sink);
        }
        while !buf.is_empty() && !self.is_read() {
            match &mut self.framing {
                Framing::None | Framing::Stream(_) => return Ok(()),
                Framing::Length(left) => {
                    let n = usize::try_from(*left).map_or(buf.len(), |left| left.min(buf.len()));
                    sink(&buf.filled()[..n]);
                    *left -= n as u64;
                    self.received += n as u64;
                    buf.consume(n);
                }
                Framing::Chunked(decoder) => match decoder.step(buf.filled()) {
                    chunked::Step::More => buf.consume(buf.len()),
                    chunked::Step::Data { skip, data } => {
                        // The whole chunk counts, though most of it may still be on its way.
                        let chunk = decoder.left().saturating_add(data as u64);
                        if max > 0 && self.received.saturating_add(chunk) > max {
                            return Err(BodyError::TooLarge);
                        }
                        sink(&buf.filled()[skip..skip + data]);
                        self.received += data as u64;
                        buf.consume(skip + data);
                    }
                    chunked::Step::End(n) => buf.consume(n),
                    chunked::Step::Invalid => return Err(BodyError::Invalid),
                },
            }
        }
        Ok(())
    }

    fn take_stream(
        &mut self,
        (buf, last): (&mut Buf, bool),
        length: Option<u64>,
        max: u64,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), BodyError> {
        self.received += buf.len() as u64;
        match length {
            Some(length) if self.received > length => return Err(BodyError::Excess),
            Some(length) if last && self.received < length => return Err(BodyError::Short(length)),
            None if max > 0 && self.received > max => return Err(BodyError::TooLarge),
            _ if last => self.framing = Framing::None,
            _ => {}
        }
        sink(buf.filled());
        buf.consume(buf.len());
        Ok(())
    }

    /// Keeps a part that was passed on, if all that came so far is at most `limit` bytes.
    pub(in crate::http) fn keep(&mut self, data: &[u8], limit: usize) {
        self.is_lost |= self.memory.len() + data.len() > limit;
        if self.is_lost {
            self.memory = Vec::new();
        } else {
            self.memory.extend_from_slice(data);
        }
    }

    /// Whether what was passed on can be sent again.
    pub(in crate::http) fn is_kept(&self) -> bool {
        !self.is_lost
    }

    /// The whole body as pieces of output, in order; it stays here for a replay.
    pub(in crate::http) fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(file) = &self.file {
            pieces.push(Piece::File {
                file: Rc::clone(&file.file),
                offset: 0,
                len: file.len,
            });
        }
        if !self.memory.is_empty() {
            pieces.push(Piece::Vec(self.memory.clone(), 0));
        }
        pieces
    }
}
