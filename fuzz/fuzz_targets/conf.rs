//! See `headwater::fuzzing::conf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headwater::fuzzing::conf(input));
