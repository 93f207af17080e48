//! See `headwater::fuzzing::h1_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater::fuzzing::h1_request(input));
