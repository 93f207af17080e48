//! See `headwater::fuzzing::proxy_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater::fuzzing::proxy_header(input));
