//! See `headwater::fuzzing::h1_response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater::fuzzing::h1_response(input));
