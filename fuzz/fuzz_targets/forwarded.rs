//! Calls `tollkeeper_hostile::forwarded` with bytes that the fuzzer makes up.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollkeeper_hostile::forwarded(bytes));
