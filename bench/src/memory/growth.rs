//! What a new key costs: bytes, time beside a known one, and how long the slowest calls take while a
//! table grows.

use crate::spread::Spread;
use crate::table::{Table, bar_shown};

use super::contestants::{Busy, Contestant, Fresh, GovernorAhash, Ours};
use super::thread_ns;
use super::traffic::{Traffic, write_key};

/// Upper ends of the classes of the histogram, in nanoseconds.
const CLASSES_NS: [f64; 6] = [1e3, 1e4, 1e5, 5e5, 1e6, f64::INFINITY];

/// What a key may take, and a call, and a new key in terms of a known one.
const BAR_BYTES: f64 = 48.0;
const BAR_CALL_US: f64 = 1_000.0;
const BAR_OF_NEW: f64 = 3.0;

/// How often a million new keys are added to an empty table.
const TABLES: usize = 5;

pub(crate) fn run() -> Vec<Table> {
    let header = [
        "",
        "keys",
        "bytes a key",
        "bar",
        "longest call, µs",
        "bar",
        "< 1 µs",
        "< 10 µs",
        "< 100 µs",
        "< 500 µs",
        "< 1 ms",
        "more",
    ];
    let mut growing = Table::new("New keys: memory, and calls by their processor time", &header);
    // All stay until the end: memory that one gave back would not be seen when another takes it.
    let stay = [1_000_000, 10_000_000].map(|keys| {
        let before = resident_bytes();
        let ours = Ours::sized(Ours::bucket(), keys as usize * 5 / 4);
        let inserted = insert("tollkeeper", &ours, keys, before);
        growing.row(&inserted.row);
        (ours, inserted)
    });
    let (before, governor) = (resident_bytes(), GovernorAhash::default());
    growing.row(&insert("governor + ahash", &governor, 1_000_000, before).row);
    let [_, (_, Inserted { call_ns, bytes_each, .. })] = &stay;
    let busy = || Busy::for_ns(*call_ns);
    let fresh = Fresh::new(busy(), *bytes_each, 10_000_000);
    let control = |name, contestant: &dyn Contestant| {
        let mut row = insert(name, contestant, 10_000_000, 0).row;
        // Nothing is demanded of it.
        [2, 3, 5].into_iter().for_each(|cell| row[cell].clear());
        row
    };
    let before = resident_bytes();
    let named = Ours::named(Ours::bucket(), 1_250_000);
    let mut row = insert("tollkeeper, names kept", &named, 1_000_000, before).row;
    // The service does so for people, unless it is told not to.
    [3, 5].into_iter().for_each(|cell| row[cell].clear());
    growing.row(&row);
    growing.row(&control("arithmetic", &busy()));
    growing.row(&control("… and fresh pages", &fresh));
    growing.note(
        "Arithmetic decides nothing and touches no memory; on the whole it takes as long as tollkeeper with as \
         many keys. What of its calls is above ten microseconds is the machine's doing, by interrupts and by a \
         host that counts what it takes away as the thread's own time. With fresh pages it also writes a byte to each \
         page of as much memory as tollkeeper's as that grows, in no order, as keys come, and nothing else: what that \
         adds is what the system takes to clear a page, and the host to find one. A call of tollkeeper moves about a hundred \
         keys at most, and has the system clear a page or two.",
    );
    let title = "A million new keys, and the same again: ns of processor time";
    let mut known = Table::new(title, &["", "new", "known", "ratio", "bar"]);
    known.row(&against_known("tollkeeper", || Ours::sized(Ours::bucket(), 2_000_000)));
    known.row(&against_known("governor + ahash", GovernorAhash::default));
    known.note(format!("{TABLES} tables of each; the ratio is within one."));
    vec![growing, known]
}

fn against_known<C: Contestant>(name: &str, table: impl Fn() -> C) -> [String; 5] {
    let traffic = Traffic::new(1_000_000, false, 0);
    let round = |contestant: &C| {
        let started_ns = thread_ns();
        traffic.each_key(|key| contestant.allows(key));
        (thread_ns() - started_ns) / 1e6
    };
    let rounds: [[f64; 2]; TABLES] = std::array::from_fn(|_| {
        let contestant = table();
        [round(&contestant), round(&contestant)]
    });
    let [new_ns, known_ns] = [0, 1].map(|nth| Spread::of(rounds.iter().map(|round| round[nth])));
    let times = Spread::of(rounds.iter().map(|[new_ns, known_ns]| new_ns / known_ns));
    let bar = bar_shown(times.median, BAR_OF_NEW, "3");
    [name.to_owned(), new_ns.shown(0), known_ns.shown(0), times.shown(1), bar]
}

/// The row, and what a call took on the average: time, and memory.
struct Inserted {
    row: Vec<String>,
    call_ns: f64,
    bytes_each: usize,
}

fn insert(name: &str, contestant: &dyn Contestant, keys: u32, before: u64) -> Inserted {
    let mut key = String::new();
    let mut classes = [0u64; CLASSES_NS.len()];
    let (mut longest_ns, mut all_ns) = (0f64, 0f64);
    for nth in 0..keys {
        write_key(&mut key, nth);
        let started_ns = thread_ns();
        assert!(contestant.allows(&key));
        let took_ns = thread_ns() - started_ns;
        longest_ns = longest_ns.max(took_ns);
        all_ns += took_ns;
        classes[CLASSES_NS.iter().position(|&end| took_ns < end).unwrap()] += 1;
    }
    let taken = resident_bytes().saturating_sub(before);
    let bytes = taken as f64 / f64::from(keys);
    let bytes_each = usize::try_from(taken / u64::from(keys)).unwrap();
    let longest_us = longest_ns / 1e3;
    let mut row = vec![name.to_owned(), keys.to_string(), format!("{bytes:.1}")];
    row.push(bar_shown(bytes, BAR_BYTES, "48"));
    row.extend([format!("{longest_us:.0}"), bar_shown(longest_us, BAR_CALL_US, "1 ms")]);
    row.extend(classes.map(|count| count.to_string()));
    Inserted { row, call_ns: all_ns / f64::from(keys), bytes_each }
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
