//! Calls `tollkeeper_hostile::policy` with bytes that the fuzzer makes up.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollkeeper_hostile::policy(bytes));
