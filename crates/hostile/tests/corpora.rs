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
