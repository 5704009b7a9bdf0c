#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| _engine::fuzz::qdrant(bytes));
