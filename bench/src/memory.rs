//! Tollkeeper beside governor and throttlecrab, in the same run: nanoseconds for a decision that is always allowed,
//! which is the path that writes.
//!
//! The rounds of the contestants alternate, so that a slow minute of the machine hits them all, and
//! what counts is the processor time of their threads, so that other work on it hits none. The table
//! shows the median of the rounds, the spread, and the ratio to governor with ahash. What it takes to
//! write down the key is measured in the same way and taken off.

mod clocks;
mod contestants;
mod growth;
mod settled;
mod traffic;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::progress::progress;
use crate::spread::Spread;
use crate::table::{Table, bar_shown};
use contestants::{
    Contestant, Governor, GovernorAhash, GovernorTold, Library, Nobody, Ours, OursTold,
    ThrottleCrab,
};
use traffic::Traffic;

const ROUNDS: usize = 7;
const CALLS: usize = 500_000;

/// From so many keys on, tables are large enough for large pages.
const LARGE: u32 = 1_000_000;

/// The most that one of our windows may take, in terms of our bucket.
const BAR_OF_WINDOWS: f64 = 1.5;

pub(crate) fn run() -> Vec<Table> {
    // First, while the process is small.
    let mut tables = growth::run();
    let header = [
        "keys",
        "threads",
        "tollkeeper",
        "fixed window",
        "sliding counter",
        "governor",
        "governor + ahash",
        "throttlecrab",
        "ratio",
        "bar",
        "windows",
    ];
    let mut table = Table::new("ns for a decision that is allowed", &header);
    let mut handovers = Vec::new();
    // What is demanded in terms of governor with ahash.
    let cases = [
        ("1", 1, false, 1, 1.0),
        ("10 k", 10_000, false, 1, 0.7),
        ("10 k", 10_000, false, 2, 0.5),
        ("1 M Zipf", 1_000_000, true, 1, 0.4),
        ("1 M Zipf", 1_000_000, true, 2, 0.4),
        ("1 M uniform", 1_000_000, false, 1, 0.4),
    ];
    let bar = progress(cases.len() as u64);
    for (name, keys, zipf, threads, demanded) in cases {
        bar.set_message(format!("{name} keys, {threads} threads"));
        let traffic = Traffic::new(keys, zipf, CALLS);
        let row = compare(name, &traffic, threads, demanded, &mut handovers);
        table.row(&row);
        bar.inc(1);
    }
    bar.finish_and_clear();
    table.note(format!(
        "{ROUNDS} rounds of {CALLS} calls, in nanoseconds of the thread's processor time, without what it takes \
         to write down the key. tollkeeper is GCRA, as governor and throttlecrab are. The ratio is its to \
         governor with ahash; of its two windows, to its GCRA (at most {BAR_OF_WINDOWS}). throttlecrab is not \
         made for several threads and has a lock here. \
         A million keys are measured when the system has put on large pages what asks for them, a minute or two after they came."
    ));
    table.note(format!(
        "Two threads that decide for the same keys hand over the lines of each to the other. What that takes alone, \
         before each round of two threads, in ns: {}.",
        Spread::of(handovers.into_iter()).shown(0)
    ));
    tables.push(table);
    tables.push(with_numbers());
    tables.push(clocks::run());
    tables
}

/// What it takes to tell a client what is left, too.
fn with_numbers() -> Table {
    let header = ["keys", "tollkeeper", "governor + ahash", "ratio", "through the library"];
    let mut table = Table::new("The same, and the numbers are read that a client is told", &header);
    for (name, keys, zipf) in
        [("1", 1, false), ("10 k", 10_000, false), ("1 M Zipf", 1_000_000, true)]
    {
        let traffic = Traffic::new(keys, zipf, CALLS);
        let (ours, governor, library) =
            (OursTold::default(), GovernorTold::default(), Library::new());
        let [ours, governor, library] = measure([&ours, &governor, &library], &traffic, 1, || ());
        let ratio = format!("{:.2}", ours.median / governor.median);
        let told = [ours.shown(0), governor.shown(0), ratio, library.shown(0)];
        table.row(&[vec![name.to_owned()], told.to_vec()].concat());
    }
    table.note(
        "One thread. tollkeeper tells the limit, what remains and when all is back, governor (with its \
         StateInformationMiddleware) what remains. Through the library a rule is looked up by its name, and a decision tells \
         everything: by which rules and limits, with what numbers, and what to give back.",
    );
    table
}

fn compare(
    name: &str,
    traffic: &Traffic,
    threads: usize,
    demanded: f64,
    handovers: &mut Vec<f64>,
) -> Vec<String> {
    let (ours, fixed, sliding) = (Ours::gcra(), Ours::fixed_window(), Ours::sliding_counter());
    let (governor, ahash) = (Governor::default(), GovernorAhash::default());
    let crab = ThrottleCrab::default();
    let before_round = || {
        if threads > 1 {
            handovers.push(handover_ns());
        }
    };
    let contestants: [&dyn Contestant; 6] = [&ours, &fixed, &sliding, &governor, &ahash, &crab];
    let spreads = measure(contestants, traffic, threads, before_round);
    let [ours, fixed, sliding, _, ahash, _] = spreads.map(|spread| spread.median);
    let mut cells = vec![name.to_owned(), threads.to_string()];
    cells.extend(spreads.iter().map(|spread| spread.shown(0)));
    cells.push(format!("{:.2}", ours / ahash));
    cells.push(bar_shown(ours / ahash, demanded, &demanded.to_string()));
    cells.push(format!("{:.2}, {:.2}", fixed / ours, sliding / ours));
    cells
}

/// What a call of each takes, without what it takes to write down the key. All keys are known by then.
fn measure<const N: usize>(
    contestants: [&dyn Contestant; N],
    traffic: &Traffic,
    threads: usize,
    mut before_round: impl FnMut(),
) -> [Spread; N] {
    for contestant in contestants {
        traffic.each_key(|key| contestant.allows(key));
    }
    if traffic.keys() >= LARGE {
        settled::wait();
    }
    let (mut writing, mut times) = (Vec::new(), [const { Vec::new() }; N]);
    for _ in 0..ROUNDS {
        before_round();
        writing.push(round(&Nobody, traffic, threads));
        for (contestant, times) in contestants.iter().zip(&mut times) {
            times.push(round(*contestant, traffic, threads));
        }
    }
    let writing_ns = Spread::of(writing.into_iter()).median;
    times.map(|times| Spread::of(times.into_iter().map(|time| time - writing_ns)))
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

/// How long it takes until one core sees what another has written, there and back, over two.
fn handover_ns() -> f64 {
    const TURNS: u64 = 100_000;
    let turn = AtomicU64::new(0);
    let play = |parity: u64| {
        for nth in (0..TURNS).filter(|nth| nth % 2 == parity) {
            while turn.load(Ordering::Acquire) != nth {
                std::hint::spin_loop();
            }
            turn.store(nth + 1, Ordering::Release);
        }
    };
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| play(0));
        play(1);
    });
    started.elapsed().as_secs_f64() * 1e9 / TURNS as f64
}

/// The processor time that this thread has used.
fn thread_ns() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 * 1e9 + used.tv_nsec as f64
}
