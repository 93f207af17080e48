//! Frames that are right, wrong, and too many.

use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds {
    head: Limits {
        field: 200,
        total: 400,
    },
    streams: 3,
    window: 65536,
    requests: 1000,
};

/// A scanner that has seen the preface.
fn begun(bounds: Bounds) -> Scanner {
    let mut scanner = Scanner::new(bounds);
    assert_eq!(feed(&mut scanner, PREFACE).unwrap(), PREFACE);
    scanner
}

/// What the library gets of `input`.
fn feed(scanner: &mut Scanner, mut input: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    while !input.is_empty() {
        let passing = scanner.passing().min(input.len());
        let n = if passing > 0 {
            out.extend_from_slice(&input[..passing]);
            scanner.passed(passing);
            passing
        } else {
            scanner.step(input, &mut out)?
        };
        input = &input[n..];
    }
    Ok(out)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame {
        len: payload.len(),
        kind,
        flags,
        stream,
    }
    .push(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// A request without a body.
fn request(stream: u32) -> Vec<u8> {
    frame(HEADERS, END | END_HEADERS, stream, b"\x82\x86\x84\x41\x01a")
}

#[test]
fn heads_are_put_aside() {
    let mut scanner = begun(BOUNDS);
    let block = b"\x82\x86\x84\x41\x01a\x40\x03foo\x03b\0r";
    let parts = [
        frame(
            HEADERS,
            PADDED | HAS_PRIORITY,
            1,
            &[b"\x02\0\0\0\0\0", &block[..4], b"\0\0"].concat(),
        ),
        frame(CONTINUATION, 0, 1, b""),
        frame(CONTINUATION, END_HEADERS, 1, &block[4..]),
        frame(DATA, END, 1, b"hello"),
    ]
    .concat();
    // However it is cut, the library sees the same.
    let expected = [
        frame(HEADERS, END_HEADERS, 1, &SHORTEST),
        frame(DATA, END, 1, b"hello"),
    ];
    let mut got = Vec::new();
    for byte in &parts {
        got.extend(feed(&mut scanner, &[*byte]).unwrap());
    }
    assert_eq!(got, expected.concat());
    let head = scanner.head(1).unwrap();
    assert!(!head.is_all);
    assert_eq!(head.length, block.len());
    let last = head.fields.iter().last().unwrap();
    assert_eq!(last, (&b"foo"[..], &b"b\0r"[..]));
}

#[test]
fn what_is_not_for_the_library_stays_here() {
    let mut scanner = begun(BOUNDS);
    feed(&mut scanner, &request(1)).unwrap();
    for input in [
        frame(PRIORITY, 0, 5, b"\0\0\0\0\x01"),
        frame(0x42, 0, 0, b"unknown"),
        frame(7, 0, 0, b"\0\0\0\0\0\0\0\0bye"),
        frame(DATA, 0, 3, b"of no stream"),
        frame(RST_STREAM, 0, 9, b"\0\0\0\0"),
        frame(WINDOW_UPDATE, 0, 9, b"\0\0\0\x01"),
    ] {
        assert_eq!(feed(&mut scanner, &input).unwrap(), b"", "{input:x?}");
    }
    let passed = [
        frame(PING, 0, 0, b"12345678"),
        frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x01"),
        frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01"),
        frame(RST_STREAM, 0, 1, b"\0\0\0\x08"),
    ];
    for input in passed {
        assert_eq!(feed(&mut scanner, &input).unwrap(), input);
    }
}

#[test]
fn broken_frames_have_their_codes() {
    let late = frame(HEADERS, END_HEADERS, 1, b"\x82");
    for (input, code) in [
        (frame(DATA, PADDED, 1, b""), Code::FrameSize),
        (frame(DATA, 0, 0, b"x"), Code::Protocol),
        (frame(DATA, 0, 1, &vec![0; 65537]), Code::FlowControl),
        (frame(HEADERS, END_HEADERS, 1, b""), Code::FrameSize),
        (
            frame(HEADERS, END_HEADERS | PADDED, 1, b"\x09\x82"),
            Code::Protocol,
        ),
        (frame(HEADERS, END_HEADERS, 2, b"\x82"), Code::Protocol),
        ([late.clone(), late].concat(), Code::Protocol),
        (frame(HEADERS, END_HEADERS, 1, b"\x80"), Code::Compression),
        (
            frame(HEADERS, END_HEADERS, 1, b"\x42\x05G"),
            Code::FrameSize,
        ),
        (
            frame(HEADERS, END_HEADERS, 1, &[0x42, 0x7f, 0x4a]),
            Code::Calm,
        ),
        (
            frame(HEADERS, END_HEADERS, 1, b"\x00\x00\x00"),
            Code::Protocol,
        ),
        (frame(PRIORITY, 0, 1, b"1234"), Code::FrameSize),
        (frame(PRIORITY, 0, 1, b"\0\0\0\x01\0"), Code::Protocol),
        (frame(SETTINGS, 0, 0, b"12345"), Code::FrameSize),
        (frame(SETTINGS, 0, 0, b"\0\x05\0\0\0\x2a"), Code::Protocol),
        (
            frame(SETTINGS, 0, 0, b"\0\x04\xff\xff\xff\xff"),
            Code::FlowControl,
        ),
        (frame(5, 0, 1, b"1234"), Code::Protocol),
        (frame(PING, 0, 1, b"12345678"), Code::Protocol),
        (frame(7, 0, 0, b""), Code::FrameSize),
        (frame(CONTINUATION, 0, 1, b""), Code::Protocol),
        (
            [
                frame(HEADERS, 0, 1, b"\x82"),
                frame(PING, 0, 0, b"12345678"),
            ]
            .concat(),
            Code::Protocol,
        ),
    ] {
        let fault = feed(&mut begun(BOUNDS), &input).unwrap_err();
        assert_eq!(fault.code, code, "{}", fault.text);
    }
}

/// A number that no byte can end any more is answered before its frame is there, wherever that is cut.
#[test]
fn hopeless_frames_are_not_waited_for() {
    let padded = [&b"\x04\x82\x41\x01a\x42\xff\xff\xff\xff\xff"[..], &[0; 5]].concat();
    for (flags, payload, end) in [
        (END | END_HEADERS, &b"\x82\xff\xff\xff\xff\xff\x01"[..], 5),
        (END | END_HEADERS | PADDED, &padded, 10),
        (
            END | END_HEADERS | HAS_PRIORITY,
            b"\0\0\0\0\0\x42\xff\xff\xff\xff\xff",
            10,
        ),
    ] {
        for step in 1..20 {
            let mut scanner = begun(BOUNDS);
            let bytes = frame(HEADERS, flags, 1, payload);
            let (hopeful, rest) = bytes.split_at(9 + end - 1);
            for part in hopeful.chunks(step) {
                assert_eq!(feed(&mut scanner, part).unwrap(), b"");
            }
            assert_eq!(
                feed(&mut scanner, &rest[..1]).unwrap_err().code,
                Code::Compression
            );
        }
    }
    // Padding is no field, and a good frame may come byte by byte.
    let mut scanner = begun(BOUNDS);
    let padded = [&b"\x06\x82\x86\x84\x41\x01a"[..], &[0xff; 6]].concat();
    let good = frame(HEADERS, END | END_HEADERS | PADDED, 1, &padded);
    let out: Vec<u8> = good
        .iter()
        .flat_map(|byte| feed(&mut scanner, &[*byte]).unwrap())
        .collect();
    assert_eq!(out.len(), 12);
}

#[test]
fn too_many_streams_are_refused_and_end_it() {
    let mut scanner = begun(BOUNDS);
    for stream in [1, 3, 5, 7] {
        feed(&mut scanner, &request(stream)).unwrap();
    }
    assert_eq!(scanner.take_notes(), ["concurrent streams exceeded 3"]);
    let accepted = [1, 3, 5, 7].map(|stream| scanner.head(stream).is_some());
    assert_eq!(accepted, [true, true, true, false]);
    scanner.ended();
    feed(&mut scanner, &request(9)).unwrap();
    assert!(scanner.head(9).is_some());
    let flood = (0..200).try_for_each(|n| feed(&mut scanner, &request(11 + 2 * n)).map(drop));
    assert_eq!(
        flood.unwrap_err().text,
        "client sent too many refused streams"
    );
}

#[test]
fn resets_do_not_make_room_within_one_read() {
    let mut scanner = begun(BOUNDS);
    for stream in (1..=13).step_by(2) {
        feed(&mut scanner, &request(stream)).unwrap();
        scanner.head(stream);
        scanner.ended();
    }
    assert_eq!(
        scanner.take_notes(),
        ["client sent too many streams at once"]
    );
    scanner.drained();
    feed(&mut scanner, &request(15)).unwrap();
    assert!(scanner.head(15).is_some());
}

#[test]
fn floods_of_frames_are_noticed() {
    for flood in [
        frame(PING, 0, 0, b"12345678"),
        frame(SETTINGS, 0, 0, b""),
        frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01"),
        frame(DATA, 0, 1, b""),
        frame(0x42, 0, 0, b""),
    ] {
        let mut scanner = begun(BOUNDS);
        feed(&mut scanner, &request(1)).unwrap();
        let many = flood.repeat(1 << 10);
        let mut reads = 0;
        let fault = loop {
            feed(&mut scanner, &many).unwrap();
            reads += 1;
            if let Err(fault) = scanner.count(many.len()) {
                break fault;
            }
        };
        assert_eq!(fault, Fault::new(Code::None, "http2 flood detected"));
        assert!((300..1100).contains(&reads), "{reads}");
    }
}

#[test]
fn a_body_is_no_flood() {
    let mut scanner = begun(BOUNDS);
    feed(&mut scanner, &request(1)).unwrap();
    let data = frame(DATA, 0, 1, &[b'x'; 16000]);
    for _ in 0..2000 {
        feed(&mut scanner, &data).unwrap();
        scanner.count(data.len()).unwrap();
    }
}

#[test]
fn the_last_request_is_the_last() {
    let bounds = Bounds {
        requests: 2,
        ..BOUNDS
    };
    let mut scanner = begun(bounds);
    feed(&mut scanner, &request(1)).unwrap();
    assert!(!scanner.is_going());
    feed(&mut scanner, &request(3)).unwrap();
    assert!(scanner.is_going());
    assert_eq!(scanner.stop(), 3);
    assert_eq!(feed(&mut scanner, &request(5)).unwrap(), b"");
    assert_eq!(feed(&mut scanner, &frame(DATA, 0, 5, b"x")).unwrap(), b"");
}

/// What was begun before the client was told is served, what was not is not.
#[test]
fn heads_that_come_while_it_stops() {
    let mut scanner = begun(BOUNDS);
    let first = request(1);
    feed(&mut scanner, &first[..10]).unwrap();
    assert_eq!(scanner.stop(), 1);
    feed(&mut scanner, &first[10..]).unwrap();
    assert!(scanner.head(1).is_some());

    let mut scanner = begun(BOUNDS);
    let padded = frame(HEADERS, PADDED | END, 1, b"\x01\x82\x86\0");
    let rest = frame(CONTINUATION, END_HEADERS, 1, b"\x84\x41\x01a");
    feed(&mut scanner, &padded[..9]).unwrap();
    assert_eq!(scanner.stop(), 0);
    assert_eq!(feed(&mut scanner, &padded[9..]).unwrap(), b"");
    assert_eq!(feed(&mut scanner, &rest).unwrap(), b"");
    assert!(scanner.head(1).is_none());
}

#[test]
fn a_late_head_is_given_up() {
    let mut scanner = begun(BOUNDS);
    let head = request(1);
    feed(&mut scanner, &head[..12]).unwrap();
    assert_eq!(scanner.in_head(), Some(1));
    assert_eq!(scanner.give_up_head(), Some(1));
    assert_eq!(scanner.in_head(), None);
    feed(&mut scanner, &head[12..]).unwrap();
    assert!(scanner.head(1).is_none() && scanner.was_late(1));
    feed(&mut scanner, &request(3)).unwrap();
    assert!(scanner.head(3).is_some());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(input in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut scanner = begun(BOUNDS);
        // Errors are fine.
        feed(&mut scanner, &input).ok();
    }

    /// Whatever is sent, and however it is cut, the same comes of it.
    #[test]
    fn frames_come_in_any_parts(
        frames in proptest::collection::vec(
            (0_u8..11, any::<u8>(), 0_u32..6, proptest::collection::vec(block_byte(), 0..20)), 0..20,
        ),
        size in 1..30_usize,
    ) {
        let frames = frames.iter().map(|(kind, flags, stream, payload)| frame(*kind, *flags, *stream, payload));
        let frames: Vec<u8> = frames.flatten().collect();
        let outcome = |size: usize| {
            let (mut scanner, mut out) = (begun(BOUNDS), Vec::new());
            for part in frames.chunks(size) {
                match feed(&mut scanner, part) {
                    Ok(bytes) => out.extend(bytes),
                    Err(fault) => return (format!("{:?}", scanner.heads), scanner.notes, Err(fault)),
                }
            }
            (format!("{:?}", scanner.heads), scanner.notes, Ok(out))
        };
        prop_assert_eq!(outcome(size), outcome(frames.len().max(1)));
    }
}

/// Bytes of which fields are made more often than of any.
fn block_byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), 0..4_u8, Just(0x82), Just(0x41), Just(b'a')]
}
