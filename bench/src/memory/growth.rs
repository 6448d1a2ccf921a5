//! What a new key costs: bytes, time beside a known one, and how long the slowest calls take while a
//! table grows.

use super::contestants::{Contestant, GovernorAhash, Ours};
use super::thread_ns;
use super::traffic::{Traffic, write_key};

/// Upper ends of the classes of the histogram, in nanoseconds.
const CLASSES_NS: [f64; 6] = [1e3, 1e4, 1e5, 5e5, 1e6, f64::INFINITY];

pub(crate) fn run() {
    println!("new keys: bytes in memory a key, calls by their processor time");
    // All stay until the end: memory that one gave back would not be seen when another takes it.
    let stay = [1_000_000, 10_000_000].map(|keys| {
        let before = resident_bytes();
        let ours = Ours::sized(Ours::bucket(), keys as usize * 5 / 4);
        show("tollkeeper", &ours, keys, before);
        ours
    });
    let (before, governor) = (resident_bytes(), GovernorAhash::default());
    show("governor + ahash", &governor, 1_000_000, before);
    drop(stay);
    println!("\n1 M new keys, one after the other, and the same again, by processor time");
    against_known("tollkeeper", &Ours::sized(Ours::bucket(), 2_000_000));
    against_known("governor + ahash", &GovernorAhash::default());
}

fn against_known(name: &str, contestant: &dyn Contestant) {
    let traffic = Traffic::new(1_000_000, false, 0);
    let round = || {
        let started_ns = thread_ns();
        traffic.each_key(|key| contestant.allows(key));
        (thread_ns() - started_ns) / 1e6
    };
    let (new_ns, known_ns) = (round(), round());
    let times = new_ns / known_ns;
    println!("{name}: new {new_ns:.0} ns, known {known_ns:.0} ns, {times:.1} ×");
}

fn show(name: &str, contestant: &dyn Contestant, keys: u32, before: u64) {
    let mut key = String::new();
    let mut classes = [0u64; CLASSES_NS.len()];
    let mut longest_ns = 0f64;
    for nth in 0..keys {
        write_key(&mut key, nth);
        let started_ns = thread_ns();
        assert!(contestant.allows(&key));
        let took_ns = thread_ns() - started_ns;
        longest_ns = longest_ns.max(took_ns);
        classes[CLASSES_NS.iter().position(|&end| took_ns < end).unwrap()] += 1;
    }
    let bytes = resident_bytes().saturating_sub(before) as f64 / f64::from(keys);
    println!("{name}, {keys} keys: {bytes:.1} bytes a key, longest {:.0} µs", longest_ns / 1e3);
    println!("  < 1 µs, 10 µs, 100 µs, 500 µs, 1 ms, more: {classes:?}");
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
