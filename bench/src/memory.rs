//! Tollkeeper beside governor, in the same run: nanoseconds for a decision that is always allowed,
//! which is the path that writes.
//!
//! The rounds of the contestants alternate, so that a slow minute of the machine hits them all, and
//! what counts is the processor time of their threads, so that other work on it hits none. The table
//! shows the median of the rounds, the spread, and the ratio to governor with ahash. What it takes to
//! write down the key is measured in the same way and taken off.

mod contestants;
mod growth;
mod traffic;

use std::thread;

use rustix::time::{ClockId, clock_gettime};

use crate::spread::Spread;
use contestants::{Contestant, Governor, GovernorAhash, Nobody, Ours};
use traffic::Traffic;

const ROUNDS: usize = 7;
const CALLS: usize = 500_000;

pub(crate) fn run() {
    // First, while the process is small.
    growth::run();
    println!("\nns per decision, {CALLS} calls a round, median of {ROUNDS} rounds (least–most)\n");
    let header = [
        "keys",
        "threads",
        "tollkeeper",
        "fixed window",
        "sliding counter",
        "governor",
        "governor + ahash",
        "ratio",
        "windows",
    ];
    row(&header.map(str::to_owned));
    for (name, keys, zipf, threads) in [
        ("1", 1, false, 1),
        ("10 k", 10_000, false, 1),
        ("10 k", 10_000, false, 2),
        ("1 M Zipf", 1_000_000, true, 1),
        ("1 M Zipf", 1_000_000, true, 2),
        ("1 M uniform", 1_000_000, false, 1),
    ] {
        compare(name, &Traffic::new(keys, zipf, CALLS), threads);
    }
    println!("\nratio: tollkeeper to governor + ahash; below 1 tollkeeper is faster");
    println!("tollkeeper is GCRA, as governor is; windows: its two windows to that");
}

fn compare(name: &str, traffic: &Traffic, threads: usize) {
    let (ours, fixed, sliding) = (Ours::gcra(), Ours::fixed_window(), Ours::sliding_counter());
    let (governor, ahash) = (Governor::default(), GovernorAhash::default());
    let contestants: [&dyn Contestant; 6] = [&Nobody, &ours, &fixed, &sliding, &governor, &ahash];
    for contestant in contestants {
        traffic.each_key(|key| contestant.allows(key));
    }
    let mut rounds: [Vec<f64>; 6] = Default::default();
    for _ in 0..ROUNDS {
        for (contestant, times) in contestants.iter().zip(&mut rounds) {
            times.push(round(*contestant, traffic, threads));
        }
    }
    let [nobody, rest @ ..] = rounds;
    let writing_ns = Spread::of(nobody.into_iter()).median;
    let spreads = rest.map(|times| Spread::of(times.into_iter().map(|time| time - writing_ns)));
    let [ours, fixed, sliding, _, ahash] = spreads.map(|spread| spread.median);
    let mut cells = vec![name.to_owned(), threads.to_string()];
    cells.extend(spreads.iter().map(|spread| spread.shown(0)));
    cells.push(format!("{:.2} ×", ours / ahash));
    cells.push(format!("{:.2} ×, {:.2} ×", fixed / ours, sliding / ours));
    row(&cells);
}

/// The time of a call, in nanoseconds of its thread.
fn round(contestant: &dyn Contestant, traffic: &Traffic, threads: usize) -> f64 {
    let of_thread = |thread: usize| {
        let started_ns = thread_ns();
        let allowed = traffic.calls(thread, |key| contestant.allows(key));
        assert_eq!(allowed, CALLS, "a decision was denied");
        thread_ns() - started_ns
    };
    let used_ns: f64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|nth| scope.spawn(move || of_thread(nth))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    used_ns / (CALLS * threads) as f64
}

/// The processor time that this thread has used.
fn thread_ns() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 * 1e9 + used.tv_nsec as f64
}

fn row(cells: &[String]) {
    let widths = [12, 8, 18, 18, 18, 18, 18, 8, 16];
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    println!("{}", padded.collect::<String>().trim_end());
}
