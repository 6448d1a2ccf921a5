//! What a state takes on a server, by what the server itself says.

use tollkeeper_core::{Algorithm, Check, LeakMode, Quota, Rate, Request, Store, Ticket};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::store;

const DOCS: &str = include_str!("../../../../docs/redis.md");

/// No window's edge falls into a test, and nothing comes back.
const LONG_US: u64 = 400 * 86_400_000_000;
const HOUR_US: u64 = 3_600_000_000;

/// The most that a log takes: so many bytes an entry, and so many besides.
const ENTRY_BYTES: u64 = 16;
const LOG_BYTES: u64 = 200;

async fn take(store: &RedisStore, limit: &str, quota: &Quota, key: &str, cost: u64, id: u128) {
    let ticket = Ticket { id, reserve_for_us: None };
    let request = Request::new([Check::new(limit, quota, key, cost)], Some(ticket)).unwrap();
    assert!(store.decide(&[request]).await.remove(0).unwrap().allowed);
}

/// What a key takes, with its name.
fn bytes(server: &RedisServer, name: &str) -> u64 {
    // All of it is counted, not a few elements for the others.
    let usage = server.command(&["MEMORY", "USAGE", name, "SAMPLES", "0"]).unwrap();
    usage.integer().and_then(|bytes| bytes.try_into().ok()).unwrap_or_else(|| panic!("no {name}"))
}

#[tokio::test]
async fn a_log_takes_sixteen_bytes_an_entry_and_a_little() {
    for program in peers::servers().unwrap() {
        let server = RedisServer::start(program, &[]).unwrap();
        let store = store::store_on(server.port(), Settings::default()).await;
        let quota = Quota::sliding_window_log(1_000_000, LONG_US).unwrap();
        for (nth, cost) in (0..).zip([1, 2, 100, 1000]) {
            let key = format!("cost{cost}");
            for id in 0..1000 {
                take(&store, "api", &quota, &key, cost, nth * 1000 + id).await;
            }
            let name = format!("rl:{{{key}}}:api:swl");
            // A moment with more than one unit is two elements, and the last is the tail.
            let elements = server.command(&["LLEN", &name]).unwrap().integer().unwrap();
            assert_eq!(elements, if cost == 1 { 1001 } else { 2001 });
            let (taken, most) = (bytes(&server, &name), 1000 * ENTRY_BYTES + LOG_BYTES);
            assert!(taken <= most, "{taken} bytes of {most} for 1000 entries of cost {cost}");
        }
    }
}

/// The bytes that the manual's table names for a suffix.
fn told_bytes(suffix: &str) -> u64 {
    let row = DOCS.lines().find(|line| line.starts_with(&format!("| `{suffix}` |")));
    let cells: Vec<&str> = row.unwrap().split('|').map(str::trim).collect();
    cells[5].parse().unwrap()
}

fn quota(algorithm: Algorithm) -> Quota {
    let rate = Rate::new(10, HOUR_US).unwrap();
    match algorithm {
        Algorithm::TokenBucket => Quota::token_bucket(10, rate),
        Algorithm::Gcra => Quota::gcra(10, rate),
        Algorithm::LeakingBucket => Quota::leaking_bucket(10, rate, LeakMode::Shape, None),
        Algorithm::FixedWindow => Quota::fixed_window(10, LONG_US),
        Algorithm::SlidingWindowLog => Quota::sliding_window_log(10, HOUR_US),
        Algorithm::SlidingWindowCounter => Quota::sliding_window_counter(10, LONG_US),
        _ => Quota::concurrency(10, HOUR_US),
    }
    .unwrap()
}

#[tokio::test]
async fn every_state_takes_at_most_what_the_manual_says() {
    for program in peers::servers().unwrap() {
        let server = RedisServer::start(program, &[]).unwrap();
        let store = store::store_on(server.port(), Settings::default()).await;
        for algorithm in Algorithm::ALL {
            let suffix = algorithm.suffix();
            let mut taken = Vec::new();
            for key in ["alice", "bobby", "carol", "david", "emily"] {
                for id in 0..4 {
                    take(&store, suffix, &quota(algorithm), key, 1, id).await;
                }
                taken.push(bytes(&server, &format!("rl:{{{key}}}:{suffix}:{suffix}")));
            }
            // Now and then a server has a piece of memory at hand that is a step larger.
            taken.sort_unstable();
            assert!(taken[2] <= told_bytes(suffix), "{suffix} takes {taken:?} bytes");
        }
    }
}
