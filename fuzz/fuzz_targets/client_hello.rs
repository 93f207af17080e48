//! See `headwater::fuzzing::client_hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater::fuzzing::client_hello(input));
