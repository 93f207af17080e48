//! See `headwater::fuzzing::h2_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater::fuzzing::h2_frames(input));
