//! What it takes to read the time, by the clock that every decision reads and by those that it could have read.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use tollkeeper_core::Clock;
use tollkeeper_memory::SystemClock;

use super::{ROUNDS, thread_ns};
use crate::spread::Spread;
use crate::table::Table;

const READS: u32 = 2_000_000;

pub(super) fn run() -> Table {
    let ours = SystemClock::new();
    let ticks = quanta::Clock::new();
    let clocks: [(&str, &dyn Fn()); 5] = [
        ("tollkeeper", &|| _ = black_box(ours.now_us())),
        ("the processor's counter alone (quanta's raw)", &|| _ = black_box(ticks.raw())),
        ("quanta, which governor reads", &|| _ = black_box(ticks.now())),
        ("the system's monotonic clock", &|| _ = black_box(Instant::now())),
        ("the system's time of day", &|| _ = black_box(SystemTime::now())),
    ];
    let mut rounds = clocks.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, read), rounds) in clocks.iter().zip(&mut rounds) {
            let started_ns = thread_ns();
            (0..READS).for_each(|_| read());
            rounds.push((thread_ns() - started_ns) / f64::from(READS));
        }
    }
    let mut table = Table::new("ns to read the time", &["", "ns"]);
    for ((name, _), rounds) in clocks.iter().zip(rounds) {
        table.row(&[(*name).to_owned(), Spread::of(rounds.into_iter()).shown(1)]);
    }
    table.note(
        "Ours is the counter, tied to the monotonic clock every 5 ms: never back, and never further ahead than that. \
         quanta's counts on by the rate that it measured at the start.",
    );
    table
}
