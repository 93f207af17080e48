//! See `headwater::fuzzing::template`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater::fuzzing::template(input));
