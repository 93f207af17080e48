//! When a direction moves so much that its bytes go through a pipe inside the kernel, and when they do not any more.
//!
//! For small messages a copy is cheaper than the pipe's system calls; for large ones it is dearer. A direction that fills its
//! buffer several times in a row is spliced from then on, until what it moves at once is small again. The pipe is given
//! back whenever nothing is in it and nothing comes.

use std::{
    io,
    task::{Context, Poll},
};

use crate::net::{
    Io,
    splice::{Pipe, Pipes},
};

/// What one direction knows of its pace.
#[derive(Debug)]
pub(super) struct Bulk {
    pipe: Option<Pipe>,
    /// Reads in a row that filled the buffer; while it splices, how many small pieces it may still have.
    score: u8,
    is_on: bool,
    /// The sockets can be spliced, as far as is known.
    is_possible: bool,
}

/// Full buffers in a row after which a pipe is worth it.
const FULL_READS: u8 = 4;
/// Small pieces in a row after which it is not.
const SMALL_PIECES: u8 = 8;
/// What is not small, bytes.
const LARGE_PIECE: usize = 16384;

impl Default for Bulk {
    fn default() -> Self {
        Self {
            pipe: None,
            score: 0,
            is_on: false,
            is_possible: true,
        }
    }
}

impl Bulk {
    /// Whether what comes next goes through a pipe.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether something is in the pipe.
    pub(super) fn holds(&self) -> bool {
        self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty())
    }

    /// No pipe from now on: what TLS has on either side must come through here.
    pub(super) fn forbid(&mut self) {
        self.is_possible = false;
    }

    /// A read into memory filled the buffer, or did not.
    pub(super) fn note_read(&mut self, is_full: bool) {
        self.score = if is_full { self.score + 1 } else { 0 };
        if self.score >= FULL_READS {
            self.is_on = self.is_possible;
            self.score = SMALL_PIECES;
        }
    }

    /// Fills the pipe, which is empty. None: it cannot be done, and reading goes on as for any other direction.
    pub(super) fn poll_fill(
        &mut self,
        from: &Io,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Option<Poll<io::Result<usize>>> {
        if self.pipe.is_none() {
            self.pipe = pipes.take();
        }
        let Some(pipe) = &mut self.pipe else {
            self.turn_off();
            return None;
        };
        let filled = pipe.poll_fill(from, u64::MAX, cx);
        match &filled {
            Poll::Ready(Ok(n)) if *n >= LARGE_PIECE => self.score = SMALL_PIECES,
            Poll::Ready(Ok(_)) => {
                self.score -= 1;
                if self.score == 0 {
                    self.turn_off();
                }
            }
            // A kind of socket that cannot.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                self.is_possible = false;
                self.turn_off();
                return None;
            }
            _ => {}
        }
        Some(filled)
    }

    /// Empties the pipe as far as `to` takes it.
    pub(super) fn poll_drain(&mut self, to: &Io, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match &mut self.pipe {
            Some(pipe) => pipe.poll_drain(to, cx),
            None => Poll::Ready(Ok(0)),
        }
    }

    /// Gives an empty pipe back.
    pub(super) fn rest(&mut self, pipes: &Pipes) {
        if let Some(pipe) = self.pipe.take_if(|pipe| pipe.is_empty()) {
            pipes.give(pipe);
        }
    }

    fn turn_off(&mut self) {
        self.is_on = false;
        self.score = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_buffers_in_a_row_turn_it_on() {
        let mut bulk = Bulk::default();
        for is_full in [true, true, true, false, true, true, true] {
            bulk.note_read(is_full);
        }
        assert!(!bulk.is_on());
        bulk.note_read(true);
        assert!(bulk.is_on() && !bulk.holds());
        bulk.turn_off();
        bulk.is_possible = false;
        (0..9).for_each(|_| bulk.note_read(true));
        assert!(!bulk.is_on());
    }
}
