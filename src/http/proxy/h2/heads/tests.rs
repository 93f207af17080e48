//! What comes out of the gate for what goes in, and what is put aside.

use proptest::prelude::*;

use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let len = payload.len();
    Frame {
        len,
        kind,
        flags,
        stream,
    }
    .push(&mut out);
    out.extend_from_slice(payload);
    out
}

/// What the library gets, whatever the pieces that the input comes in.
fn run(heads: &mut Heads, input: &[u8], piece: usize) -> Result<Vec<u8>, Broken> {
    let mut out = Vec::new();
    for mut part in input.chunks(piece) {
        while !part.is_empty() {
            let through = heads.passing().min(part.len());
            out.extend_from_slice(&part[..through]);
            heads.passed(through);
            part = &part[through..];
            let n = if part.is_empty() {
                0
            } else {
                heads.step(part, &mut out)?
            };
            part = &part[n..];
        }
    }
    Ok(out)
}

fn text(read: Option<Read>) -> String {
    let fields = read.unwrap().unwrap();
    let line = |(name, value): (&[u8], &[u8])| {
        format!(
            "{}={}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value)
        )
    };
    fields.iter().map(line).collect::<Vec<_>>().join(" ")
}

#[test]
fn heads_are_put_aside_and_the_rest_goes_through() {
    let hint = b"\x08\x03103\x00\x04link\x01x";
    let head = b"\x88\x00\x01a\x01b";
    let trailers = b"\x00\x01t\x011";
    let mut padded = vec![3, 0, 0, 0, 0, 7];
    padded.extend_from_slice(&head[..2]);
    padded.extend_from_slice(&[0; 3]);
    let input = [
        frame(4, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, hint),
        frame(HEADERS, PADDED | HAS_PRIORITY, 1, &padded),
        frame(CONTINUATION, 0, 1, &[]),
        frame(CONTINUATION, END_HEADERS, 1, &head[2..]),
        frame(0, 0, 1, b"body"),
        frame(HEADERS, END | END_HEADERS, 1, trailers),
        frame(HEADERS, END | END_HEADERS, 3, head),
    ]
    .concat();
    let expected = [
        frame(4, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, b"\x08\x03103"),
        frame(HEADERS, END_HEADERS, 1, FINAL),
        frame(0, 0, 1, b"body"),
        frame(HEADERS, END | END_HEADERS, 1, &[]),
        frame(HEADERS, END | END_HEADERS, 3, FINAL),
    ]
    .concat();
    for piece in [1, 2, 7, 1000] {
        let mut heads = Heads::new();
        heads.expect(1);
        assert_eq!(run(&mut heads, &input, piece).unwrap(), expected);
        assert_eq!(text(heads.take(1)), ":status=103 link=x");
        assert_eq!(text(heads.take(1)), ":status=200 a=b");
        assert_eq!(text(heads.take(1)), "t=1");
        assert!(heads.take(1).is_none() && heads.take(3).is_none());
    }
}

#[test]
fn a_reset_may_follow_the_end() {
    let end = || frame(DATA, END, 1, b"x");
    let head = || frame(HEADERS, END | END_HEADERS, 1, FINAL);
    let reset = |code: u8| frame(RST_STREAM, 0, 1, &[0, 0, 0, code]);
    for (input, expected) in [
        (vec![frame(DATA, 0, 1, b"x")], End::Open),
        (vec![frame(RST_STREAM, 0, 3, &[0; 4])], End::Open),
        (vec![end()], End::Whole),
        (vec![head()], End::Whole),
        (vec![end(), reset(0)], End::Satisfied),
        (vec![head(), reset(0)], End::Satisfied),
        (vec![end(), reset(0), reset(0)], End::Again),
        (vec![end(), reset(0), reset(0), reset(0)], End::Again),
        (vec![end(), reset(0), reset(8)], End::Reset(8)),
        (vec![end(), reset(8)], End::Reset(8)),
        (vec![end(), reset(8), end()], End::Reset(8)),
        (vec![reset(0)], End::Reset(0)),
        (vec![frame(RST_STREAM, 0, 1, &[0; 5])], End::Open),
    ] {
        let input = input.concat();
        for piece in [1, 3, 1000] {
            let mut heads = Heads::new();
            heads.expect(1);
            let out = run(&mut heads, &input, piece).unwrap();
            assert_eq!((heads.end(1), &out), (expected, &input));
        }
    }
}

#[test]
fn a_bad_head_is_the_fault_of_its_stream() {
    let input = [
        frame(HEADERS, END_HEADERS, 1, &[0x80]),
        frame(HEADERS, END_HEADERS, 3, FINAL),
    ]
    .concat();
    let mut heads = Heads::new();
    heads.expect(1);
    heads.expect(3);
    run(&mut heads, &input, 1000).unwrap();
    assert!(matches!(heads.take(1), Some(Err(HpackError::ZeroIndex))));
    assert_eq!(text(heads.take(3)), ":status=200");
    heads.forget(3);
    assert!(heads.take(3).is_none());
}

proptest! {
    /// Whatever comes, in whatever pieces: nothing panics, and the library gets the same.
    #[test]
    fn any_bytes_are_survived(
        bytes in proptest::collection::vec(0..12u8, 0..200),
        piece in 1..40usize,
    ) {
        let (mut one, mut other) = (Heads::new(), Heads::new());
        for heads in [&mut one, &mut other] {
            for stream in 0..12 {
                heads.expect(stream);
            }
        }
        let whole = run(&mut one, &bytes, 1000);
        prop_assert_eq!(run(&mut other, &bytes, piece), whole);
    }
}

#[test]
fn frames_out_of_order_break_the_connection() {
    let begun = frame(HEADERS, 0, 1, FINAL);
    for (next, why) in [
        (frame(0, 0, 1, b""), "unexpected http2 frame"),
        (frame(CONTINUATION, 0, 3, b""), "unexpected http2 frame"),
        (
            frame(CONTINUATION, 0, 1, &vec![0; LARGEST as usize]),
            "too big header",
        ),
    ] {
        let input = [begun.clone(), next].concat();
        assert_eq!(run(&mut Heads::new(), &input, 5000), Err(Broken(why)));
    }
    let padded = frame(HEADERS, PADDED, 1, &[2, 0]);
    assert_eq!(
        run(&mut Heads::new(), &padded, 5000),
        Err(Broken("http2 frame with too long padding"))
    );
}
