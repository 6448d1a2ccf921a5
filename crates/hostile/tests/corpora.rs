//! Replays what fuzzers found worth keeping.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use tollkeeper_hostile::TARGETS;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)
}

#[test]
fn what_is_kept_holds() {
    for (name, target) in TARGETS {
        let files = std::fs::read_dir(corpus(name)).unwrap();
        let mut inputs: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        inputs.sort();
        assert!(inputs.len() > 50, "the corpus of {name} has {} inputs", inputs.len());
        for input in inputs {
            let bytes = std::fs::read(&input).unwrap();
            let held = std::panic::catch_unwind(|| target(&bytes));
            assert!(held.is_ok(), "{}", input.display());
        }
    }
}

#[test]
fn nothing_at_all_and_everything_once() {
    let every: Vec<u8> = (0..=u8::MAX).collect();
    for (_, target) in TARGETS {
        target(b"");
        every.iter().for_each(|byte| target(&[*byte]));
        target(&every);
    }
}

/// A check of so many bytes, one after another and in two halves, in every way to send it.
fn check_of(length: usize) {
    let mut check = b"{\"rule\":\"api\",\"key\":\"long\"}".to_vec();
    check.resize(length, b' ');
    let (first, rest) = check.split_at(length / 2);
    for way in [b"0", b"8", b"@"] {
        tollkeeper_hostile::bodies(&[way, &check[..]].concat());
        tollkeeper_hostile::bodies(&[way, first, b"\x1f", rest].concat());
    }
}

#[test]
fn checks_as_long_as_what_is_held_of_them() {
    // What is read of a connection at first and at most: with a body goes its head, of about eighty
    // bytes.
    for held in [8 * 1024, 32 * 1024] {
        (held - 90..=held - 70).for_each(check_of);
    }
    // The longest that is read at all.
    (64 * 1024 - 1..=64 * 1024 + 1).for_each(check_of);
}
