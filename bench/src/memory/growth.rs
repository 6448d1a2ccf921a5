//! What a new key costs: bytes, and how long the slowest calls take while a table grows.

use std::fmt::Write;
use std::time::Instant;

use super::contestants::{Contestant, GovernorAhash, Ours};

/// Upper ends of the classes of the histogram, in nanoseconds.
const CLASSES_NS: [u128; 6] = [1_000, 10_000, 100_000, 500_000, 1_000_000, u128::MAX];

pub(crate) fn run() {
    println!("new keys, one after the other: bytes in memory a key, ns a call, calls by duration");
    println!("(a call above 1 ms on a busy machine is mostly one that was interrupted)");
    for keys in [1_000_000, 10_000_000] {
        let (before, ours) = (resident_bytes(), Ours::sized(Ours::bucket(), keys + keys / 4));
        show("tollkeeper", &ours, keys, before);
    }
    let (before, governor) = (resident_bytes(), GovernorAhash::default());
    show("governor + ahash", &governor, 1_000_000, before);
}

fn show(name: &str, contestant: &dyn Contestant, keys: usize, before: u64) {
    let mut key = String::new();
    let mut classes = [0u64; CLASSES_NS.len()];
    let mut all_ns = 0;
    for nth in 0..keys {
        key.clear();
        write!(key, "user:{nth}").unwrap();
        let started = Instant::now();
        assert!(contestant.allows(&key));
        let took_ns = started.elapsed().as_nanos();
        all_ns += took_ns;
        classes[CLASSES_NS.iter().position(|&end| took_ns < end).unwrap()] += 1;
    }
    let bytes = resident_bytes().saturating_sub(before) as f64 / keys as f64;
    let each_ns = all_ns as f64 / keys as f64;
    println!("{name}, {keys} keys: {bytes:.1} bytes a key, {each_ns:.0} ns a call");
    println!("  < 1 µs, 10 µs, 100 µs, 500 µs, 1 ms, more: {classes:?}");
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
