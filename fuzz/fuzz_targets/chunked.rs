//! See `headwater::fuzzing::chunked`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater::fuzzing::chunked(input));
