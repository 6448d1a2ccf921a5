//! What a worker does: asks for every key in turn, again and again, and counts what becomes of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::{Instant, interval, timeout};
use tollkeeper_core::{Check, Quota, Ran, Rate, RedisUrl, Request, Store};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::moment::until;

use crate::report::{Counts, Report};
use crate::store::{cluster_url, sentinel_url_of};
use crate::workers::serve;

/// How long a decision may take.
pub(crate) const DEADLINE: Duration = Duration::from_millis(400);

/// How many ask at once in each process, and how long each rests between two calls.
const CALLERS: usize = 4;
const REST: Duration = Duration::from_millis(3);

/// Nothing comes back while a test runs.
const LONG_US: u64 = 400 * 86_400_000_000;

/// Every key has a limit that nobody reaches, one that is soon used up, one that is used up while
/// the test goes on, and one that is given back all the time.
const LIMITS: [&str; 4] = ["wide", "narrow", "middle", "bucket"];
pub(crate) const WIDE: u64 = 1_000_000;
pub(crate) const NARROW: u64 = 100;
pub(crate) const MIDDLE: u64 = 500;
pub(crate) const CAPACITY: u64 = 20;
pub(crate) const PER_SECOND: u64 = 50;

/// Sentinels, or the nodes of a cluster, as a worker is told of them.
pub(crate) fn place_of(kind: &str, ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    format!("{kind} {}", ports.join(","))
}

pub(crate) fn url_of(place: &str) -> RedisUrl {
    let (kind, ports) = place.split_once(' ').unwrap();
    let ports: Vec<u16> = ports.split(',').map(|port| port.parse().unwrap()).collect();
    match kind {
        "cluster" => cluster_url(&ports),
        _ => sentinel_url_of(&ports, "mymaster"),
    }
}

/// A limit by its name.
pub(crate) fn quota(limit: &str) -> Quota {
    let window = |limit| Quota::fixed_window(limit, LONG_US);
    let quota = match limit {
        "wide" => window(WIDE),
        "narrow" => window(NARROW),
        "middle" => window(MIDDLE),
        _ => Quota::token_bucket(CAPACITY, Rate::new(PER_SECOND, 1_000_000).unwrap()),
    };
    quota.unwrap()
}

/// Orders: `keys A B C` begins to ask for these, `phase` tells what came of it since the last
/// order and goes on, `end` tells it and stops.
pub(crate) fn work(place: &str, merge: bool) {
    let runtime = Runtime::new().unwrap();
    let url = url_of(place);
    let settings = Settings { merge, ..Settings::default() };
    let store = runtime.block_on(RedisStore::connect(&url, settings)).unwrap();
    let load = Arc::new(Load {
        store,
        report: Mutex::new(Report::default()),
        ended: AtomicBool::new(false),
    });
    let mut callers = Vec::new();
    serve(|order| {
        let (verb, keys) = order.split_once(' ').unwrap_or((order, ""));
        if verb == "keys" {
            let keys: Arc<Vec<String>> = Arc::new(keys.split(' ').map(str::to_owned).collect());
            for caller in 0..CALLERS {
                let asking = ask_on(Arc::clone(&load), Arc::clone(&keys), caller);
                callers.push(runtime.spawn(asking));
            }
            runtime.spawn(measure(Arc::clone(&load)));
            // A worker says that it has begun when somebody was answered: so it was now and then, on
            // a slow machine, and whoever did not count them missed a charge.
            let has_counted = || (!load.report.lock().unwrap().counts.is_empty()).then_some(());
            until(20 * DEADLINE, has_counted).expect("nobody was answered");
        }
        if verb == "end" {
            load.ended.store(true, Ordering::SeqCst);
            // Whatever is under way comes to its end, however slow the machine is: a call that is
            // counted by the server alone would look like one that was charged twice.
            for caller in callers.drain(..) {
                runtime.block_on(caller).unwrap();
            }
        }
        std::mem::take(&mut *load.report.lock().unwrap())
    });
}

struct Load {
    store: RedisStore,
    report: Mutex<Report>,
    ended: AtomicBool,
}

async fn ask_on(load: Arc<Load>, keys: Arc<Vec<String>>, caller: usize) {
    let quotas = LIMITS.map(quota);
    let mut rests = interval(REST);
    for turn in caller.. {
        rests.tick().await;
        if load.ended.load(Ordering::SeqCst) {
            return;
        }
        let key = &keys[turn / LIMITS.len() % keys.len()];
        let (limit, quota) = (LIMITS[turn % LIMITS.len()], &quotas[turn % LIMITS.len()]);
        let check = Check::new(limit, quota, key, 1);
        let request = Request::new([check], None).unwrap();
        let begun = Instant::now();
        let answered = timeout(DEADLINE, load.store.decide(&[request])).await;
        let took = begun.elapsed();
        let mut report = load.report.lock().unwrap();
        report.longest_us = report.longest_us.max(u64::try_from(took.as_micros()).unwrap());
        let counts: &mut Counts = report.counts.entry(format!("{limit}/{key}")).or_default();
        match answered.map(|mut answers| answers.remove(0)) {
            Ok(Ok(answer)) if answer.allowed => counts.admitted += 1,
            Ok(Ok(_)) => counts.denied += 1,
            Ok(Err(error)) if error.ran() == Ran::No => counts.not_run += 1,
            Ok(Err(_)) | Err(_) => counts.unknown += 1,
        }
    }
}

/// How late the machine itself is.
async fn measure(load: Arc<Load>) {
    const TICK: Duration = Duration::from_millis(5);
    loop {
        let begun = Instant::now();
        let _ = timeout(TICK, std::future::pending::<()>()).await;
        let late = begun.elapsed().saturating_sub(TICK);
        let late_us = u64::try_from(late.as_micros()).unwrap();
        let mut report = load.report.lock().unwrap();
        report.machine_us = report.machine_us.max(late_us);
    }
}
