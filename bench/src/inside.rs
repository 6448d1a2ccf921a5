//! The embedded store beside throttlecrab, in process: nanoseconds for a decision that is always
//! allowed.

#[path = "memory/traffic.rs"]
#[allow(clippy::duplicate_mod, reason = "the traffic of the other benchmark in process")]
mod traffic;

use std::hint::black_box;
use std::sync::Mutex;
use std::thread;
use std::time::{Instant, SystemTime};

use throttlecrab::{PeriodicStore, RateLimiter};
use tollkeeper_core::{Check, Quota, Rate};
use tollkeeper_memory::{MemoryStore, Settings, SystemClock};

use crate::progress::progress;
use crate::spread::Spread;
use crate::table::Table;
use traffic::Traffic;

const ROUNDS: usize = 5;
const CALLS: usize = 1_000_000;

/// So much that nobody is denied, of which one comes back in ten minutes.
const BURST: u32 = 7_000_000;
const UNIT_SECONDS: u32 = 600;

/// Whether a key may go.
type Allows<'a> = &'a (dyn Fn(&str) -> bool + Sync);

pub(crate) fn run() -> Table {
    let title = "ns for a decision, beside throttlecrab";
    let mut table = Table::new(title, &["keys", "threads", "tollkeeper", "throttlecrab", "ratio"]);
    let cases = [
        ("1", 1, false, 1),
        ("10 k", 10_000, false, 1),
        ("10 k", 10_000, false, 2),
        ("1 M Zipf", 1_000_000, true, 1),
        ("1 M Zipf", 1_000_000, true, 2),
    ];
    let bar = progress((cases.len() * ROUNDS) as u64);
    for (name, keys, zipf, threads) in cases {
        let traffic = Traffic::new(keys, zipf, CALLS);
        let settings = Settings { max_keys: 2_000_000, ..Settings::default() };
        let store = MemoryStore::new(settings, SystemClock::new());
        let rate = Rate::new(1, u64::from(UNIT_SECONDS) * 1_000_000).unwrap();
        let quota = Quota::gcra(u64::from(BURST), rate).unwrap();
        let ours = |key: &str| {
            let check = Check { limit: "api", quota: &quota, key, cost: 1, shadow: false };
            store.check_now(&check).unwrap().outcome.allowed
        };
        // It is not made for several threads; its server has one that asks it.
        let crab = Mutex::new(RateLimiter::new(PeriodicStore::with_capacity(keys)));
        let crab = |key: &str| {
            let (burst, period) = (i64::from(BURST), i64::from(UNIT_SECONDS));
            let mut crab = crab.lock().unwrap();
            crab.rate_limit(key, burst, 1, period, 1, SystemTime::now()).unwrap().0
        };
        let contestants: [Allows<'_>; 2] = [&ours, &crab];
        for allows in contestants {
            traffic.each_key(|key| assert!(allows(key)));
        }
        let mut rounds = [(); 2].map(|()| Vec::new());
        for _ in 0..ROUNDS {
            bar.set_message(format!("{name} keys, {threads} threads"));
            for (allows, times) in contestants.iter().zip(&mut rounds) {
                times.push(round(*allows, &traffic, threads));
            }
            bar.inc(1);
        }
        let [ours, crab] = rounds;
        let ratio = Spread::of(ours.iter().zip(&crab).map(|(ours, crab)| ours / crab));
        let shown = |times: Vec<f64>| Spread::of(times.into_iter()).shown(0);
        let threads = threads.to_string();
        table.row(&[name, &threads, &shown(ours), &shown(crab), &ratio.shown(2)]);
    }
    bar.finish_and_clear();
    table.note(
        "throttlecrab has its periodic store, behind a lock; both read their clock each time.",
    );
    table
}

/// The time of a call, in nanoseconds, as one thread sees it.
fn round(allows: Allows<'_>, traffic: &Traffic, threads: usize) -> f64 {
    let started = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let allowed = traffic.calls(thread).filter(|key| allows(black_box(key))).count();
                assert_eq!(allowed, CALLS, "a decision was denied");
            });
        }
    });
    started.elapsed().as_nanos() as f64 / CALLS as f64
}
