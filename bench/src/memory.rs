//! Tollkeeper beside governor, in the same run: nanoseconds for a decision that is always allowed,
//! which is the path that writes.
//!
//! The rounds of the contestants alternate, so that a slow minute of the machine hits them all.
//! The table shows the median of the rounds, the spread, and the ratio to governor with ahash.

mod contestants;
mod growth;
mod traffic;

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use contestants::{Contestant, Governor, GovernorAhash, Ours};
use traffic::Traffic;

const ROUNDS: usize = 5;
const CALLS: usize = 1_000_000;

pub(crate) fn run() {
    println!("ns per decision, {CALLS} calls a round, median of {ROUNDS} rounds (least–most)\n");
    let header = [
        "keys",
        "threads",
        "tollkeeper",
        "fixed window",
        "sliding counter",
        "governor",
        "governor + ahash",
        "ratio",
    ];
    row(&header.map(str::to_owned));
    for (name, keys, zipf, threads) in [
        ("1", 1, false, 1),
        ("10 k", 10_000, false, 1),
        ("10 k", 10_000, false, 2),
        ("1 M Zipf", 1_000_000, true, 1),
        ("1 M Zipf", 1_000_000, true, 2),
        ("1 M uniform", 1_000_000, false, 1),
        ("1 M uniform", 1_000_000, false, 2),
    ] {
        let traffic = Traffic::new(keys, zipf, CALLS);
        let (ours, fixed, sliding) = (Ours::gcra(), Ours::fixed_window(), Ours::sliding_counter());
        let (governor, ahash) = (Governor::default(), GovernorAhash::default());
        let contestants: [&dyn Contestant; 5] = [&ours, &fixed, &sliding, &governor, &ahash];
        for contestant in contestants {
            traffic.each_key(|key| assert!(contestant.allows(key)));
        }
        let mut rounds: [Vec<f64>; 5] = Default::default();
        for _ in 0..ROUNDS {
            for (contestant, times) in contestants.iter().zip(&mut rounds) {
                times.push(round(*contestant, &traffic, threads));
            }
        }
        rounds.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let median = |times: &[f64]| times[ROUNDS / 2];
        let shown = |times: &Vec<f64>| {
            format!("{:.0} ({:.0}–{:.0})", median(times), times[0], times[ROUNDS - 1])
        };
        let ratio = median(&rounds[0]) / median(&rounds[4]);
        row(&[
            name.to_owned(),
            threads.to_string(),
            shown(&rounds[0]),
            shown(&rounds[1]),
            shown(&rounds[2]),
            shown(&rounds[3]),
            shown(&rounds[4]),
            format!("{ratio:.2} ×"),
        ]);
    }
    println!("\nratio: tollkeeper to governor + ahash; below 1 tollkeeper is faster");
    println!("tollkeeper is GCRA, as governor is; its windows are beside it\n");
    growth::run();
}

/// The time of a call, in nanoseconds, as one thread sees it.
fn round(contestant: &dyn Contestant, traffic: &Traffic, threads: usize) -> f64 {
    let started = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut allowed = 0usize;
                for key in traffic.calls(thread) {
                    allowed += usize::from(contestant.allows(black_box(key)));
                }
                assert_eq!(allowed, CALLS, "a decision was denied");
            });
        }
    });
    started.elapsed().as_nanos() as f64 / CALLS as f64
}

fn row(cells: &[String; 8]) {
    let widths = [12, 8, 18, 18, 18, 18, 18, 8];
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    println!("{}", padded.collect::<String>().trim_end());
}
