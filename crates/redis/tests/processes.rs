//! Several processes with many callers each, on one server and by its own clock, are admitted
//! exactly as often as one caller would be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "kit/store.rs"]
mod kit;
#[path = "kit/workers.rs"]
mod workers;

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::Barrier;
use tollkeeper_core::{Algorithm, Check, LeakMode, Quota, Rate, Request, Store, Ticket};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;

use self::workers::{CALLERS, PROCESSES, Workers, role, serve};

/// How often each caller asks: twice as much as the limit in all.
const EACH: u64 = 8;
const LIMIT: u64 = 1000;
const NARROW: u64 = 100;
const ASKED: u64 = PROCESSES * CALLERS * EACH;
const _: () = assert!(ASKED >= 2 * LIMIT);

/// Nothing comes back while a test runs, and no window's edge falls into it.
const LONG_US: u64 = 400 * 86_400_000_000;

fn quota(algorithm: Algorithm, limit: u64) -> Quota {
    let rate = Rate::new(1, 86_400_000_000).unwrap();
    match algorithm {
        Algorithm::TokenBucket => Quota::token_bucket(limit, rate),
        Algorithm::Gcra => Quota::gcra(limit, rate),
        Algorithm::LeakingBucket => Quota::leaking_bucket(limit, rate, LeakMode::Shape, None),
        Algorithm::FixedWindow => Quota::fixed_window(limit, LONG_US),
        Algorithm::SlidingWindowLog => Quota::sliding_window_log(limit, LONG_US),
        Algorithm::SlidingWindowCounter => Quota::sliding_window_counter(limit, LONG_US),
        _ => Quota::concurrency(limit, LONG_US),
    }
    .unwrap()
}

/// The limits that an order names by their algorithms: a wide one, and perhaps a narrow one.
fn limits(order: &str) -> Vec<(&'static str, Quota)> {
    let sizes = [("wide", LIMIT), ("narrow", NARROW)];
    let quotas = order.split(' ').zip(sizes).map(|(suffix, (name, limit))| {
        let algorithm = Algorithm::ALL.into_iter().find(|known| known.suffix() == suffix);
        (name, quota(algorithm.unwrap(), limit))
    });
    quotas.collect()
}

async fn ask(store: &RedisStore, limits: &[(&str, Quota)], key: &str, cost: u64, id: u128) -> u64 {
    let check = |(limit, quota)| Check::new(limit, quota, key, cost);
    let checks = limits.iter().map(|(limit, quota)| check((*limit, quota)));
    let ticket = Some(Ticket { id, reserve_for_us: None });
    let request = Request::new(checks, ticket).unwrap();
    let answer = store.decide(&[request]).await.remove(0).unwrap();
    match cost {
        0 => answer.outcomes()[0].remaining,
        _ => u64::from(answer.allowed),
    }
}

/// All callers of one process at once; how often they were admitted.
async fn call(store: Arc<RedisStore>, worker: u64, order: String) -> u64 {
    let limits = Arc::new(limits(&order));
    let gate = Arc::new(Barrier::new(usize::try_from(CALLERS).unwrap()));
    let callers = (0..CALLERS).map(|caller| {
        let (store, limits, gate) = (Arc::clone(&store), Arc::clone(&limits), Arc::clone(&gate));
        let (key, first) = (order.clone(), (worker * CALLERS + caller) * EACH);
        tokio::spawn(async move {
            gate.wait().await;
            let mut admitted = 0;
            for id in first..first + EACH {
                admitted += ask(&store, &limits, &key, 1, id.into()).await;
            }
            admitted
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut admitted = 0;
    for caller in callers {
        admitted += caller.await.unwrap();
    }
    admitted
}

/// Does nothing unless this process was started as a worker.
#[test]
fn a_worker() {
    let Some((worker, place)) = role() else { return };
    let runtime = Runtime::new().unwrap();
    let (port, merge) = place.split_once(' ').unwrap();
    let settings = Settings { merge: merge.parse().unwrap(), ..Settings::default() };
    let store = Arc::new(runtime.block_on(kit::store_on(port.parse().unwrap(), settings)));
    serve(|order| runtime.block_on(call(Arc::clone(&store), worker, order.to_owned())));
}

/// A server, and the processes that ask it.
struct House {
    server: RedisServer,
    workers: Workers,
    runtime: Runtime,
}

impl House {
    fn new(program: impl AsRef<Path>) -> Self {
        Self::with(program, true)
    }

    /// Processes that let checks go together, or send each by itself.
    fn with(program: impl AsRef<Path>, merge: bool) -> Self {
        let server = RedisServer::start(program, &[]).unwrap();
        let workers = Workers::start("a_worker", &format!("{} {merge}", server.port()));
        Self { server, workers, runtime: Runtime::new().unwrap() }
    }

    /// What is left of the wide limit of an order.
    fn left(&self, order: &str) -> u64 {
        self.runtime.block_on(async {
            let store = kit::store_on(self.server.port(), Settings::default()).await;
            ask(&store, &limits(order)[..1], order, 0, u128::MAX).await
        })
    }

    /// How many scripts the server has run.
    fn scripts(&self) -> u64 {
        let stats = self.server.command(&["INFO", "commandstats"]).unwrap().to_string();
        let calls =
            |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
        let scripts = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
        scripts.filter_map(calls).sum()
    }

    fn end(self) {
        assert_eq!(self.server.keys_without_ttl().unwrap(), Vec::<String>::new());
    }
}

fn exactly_the_limit(program: impl AsRef<Path>) {
    let mut house = House::new(program);
    for algorithm in Algorithm::ALL {
        let order = algorithm.suffix();
        assert_eq!((order, house.workers.all(order)), (order, LIMIT));
        assert_eq!((order, house.left(order)), (order, 0));
    }
    house.end();
}

#[test]
fn redis_admits_exactly_the_limit() {
    exactly_the_limit("redis-server");
}

#[test]
fn valkey_admits_exactly_the_limit() {
    exactly_the_limit(peers::valkey().unwrap());
}

#[test]
fn servers_admit_exactly_the_limit_without_merging() {
    for program in peers::servers().unwrap() {
        let mut house = House::with(program, false);
        for algorithm in Algorithm::ALL {
            let (order, before) = (algorithm.suffix(), house.scripts());
            assert_eq!((order, house.workers.all(order)), (order, LIMIT));
            // Nobody went with another.
            assert!(house.scripts() - before >= ASKED, "{order}");
            assert_eq!((order, house.left(order)), (order, 0));
        }
        house.end();
    }
}

#[test]
fn where_the_second_limit_denies_the_first_is_not_charged() {
    let mut house = House::new("redis-server");
    let seconds = Algorithm::ALL.into_iter().cycle().skip(1);
    for (first, second) in Algorithm::ALL.into_iter().zip(seconds) {
        let order = format!("{} {}", first.suffix(), second.suffix());
        assert_eq!((&*order, house.workers.all(&order)), (&*order, NARROW));
        assert_eq!((&*order, house.left(&order)), (&*order, LIMIT - NARROW));
    }
    house.end();
}

#[test]
fn a_server_that_forgets_its_scripts_all_the_time_admits_exactly_the_limit() {
    for program in peers::servers().unwrap() {
        let mut house = House::new(program);
        let mut keeper = house.server.keeper().unwrap();
        let mut flushed = 0;
        let mut flush = || {
            keeper.call(&["SCRIPT", "FLUSH"]).unwrap();
            flushed += 1;
        };
        flush();
        let order = Algorithm::TokenBucket.suffix();
        assert_eq!(house.workers.all_while(order, flush), LIMIT);
        assert!(flushed > 2, "{flushed}");
        house.end();
    }
}
