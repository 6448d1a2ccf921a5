//! What the scripts see to on a server with its own clock: the life of a key that is always in use,
//! and that nothing is written before everything has been looked at.

use tollkeeper_core::{
    Amended, Amendment, Change, Check, Consistency, Filter, LeakMode, Quota, Ran, Rate, Request,
    State, Store, Ticket,
};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::store;

async fn start() -> (RedisServer, RedisStore) {
    start_program("redis-server").await
}

async fn start_program(program: impl AsRef<std::path::Path>) -> (RedisServer, RedisStore) {
    let server = RedisServer::start(program, &[]).unwrap();
    let store = store::store_on(server.port(), Settings::default()).await;
    (server, store)
}

/// Quotas whose states live for a few milliseconds, and for longer the more is used.
fn short_quotas() -> Vec<Quota> {
    let rate = Rate::new(1_000, 1_000_000).unwrap();
    vec![
        Quota::token_bucket(1_000, rate).unwrap(),
        Quota::gcra(1_000, rate).unwrap(),
        Quota::leaking_bucket(1_000, rate, LeakMode::Meter, None).unwrap(),
        Quota::fixed_window(1_000, 20_000).unwrap(),
        Quota::sliding_window_log(1_000, 20_000).unwrap(),
        Quota::sliding_window_counter(1_000, 20_000).unwrap(),
        Quota::concurrency(1_000, 20_000).unwrap(),
    ]
}

/// Its life is not written every time, but it is always long enough, and at most twice that.
#[tokio::test]
async fn the_life_of_a_busy_key_is_long_enough_and_not_twice_too_long() {
    for program in peers::servers().unwrap() {
        let (server, store) = start_program(program).await;
        let mut keeper = server.keeper().unwrap();
        for quota in short_quotas() {
            let name = format!("rl:{{busy}}:api:{}", quota.algorithm().suffix());
            let mut seen = 0;
            // Some have ended before they are looked at: the more, the slower the machine is.
            for id in 1..=100_000 {
                if seen == 100 {
                    break;
                }
                let check = Check::new("api", &quota, "busy", 1);
                let ticket = Ticket { id, reserve_for_us: None };
                let request = Request::new([check], Some(ticket)).unwrap();
                let answer = store.decide(&[request]).await.remove(0).unwrap();
                let reset_us = i64::try_from(answer.outcomes()[0].reset_after_us).unwrap();
                let fresh_at_us = i64::try_from(answer.now_us).unwrap() + reset_us;
                let ends_ms = keeper.call(&["PEXPIRETIME", &name]).unwrap().integer().unwrap();
                assert_ne!(ends_ms, -1, "{name} has no life");
                if ends_ms == -2 {
                    // It has ended before we asked.
                    continue;
                }
                seen += 1;
                let late_us = ends_ms * 1000 - fresh_at_us;
                let most_us = reset_us + 2_000;
                assert!((0..=most_us).contains(&late_us), "{name}: {late_us} of {most_us} µs late");
            }
            assert_eq!(seen, 100, "{name} was hardly ever seen");
        }
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_written_leaves_every_state_as_it_was() {
    let (server, store) = start().await;
    let quota = Quota::fixed_window(10, 3_600_000_000).unwrap();
    let first = Check::new("first", &quota, "alice", 1);
    let second = Check { limit: "second", ..first };
    let taken = format!("rl:{{alice}}:second:fw:r:{:032x}", 7);
    server.holds_others();
    server.command(&["SET", &taken, "not ours"]).unwrap();
    let ticket = Ticket { id: 7, reserve_for_us: Some(30_000_000) };
    let request = Request::new([first, second], Some(ticket)).unwrap();
    assert!(store.decide(&[request]).await.remove(0).is_err());
    assert_eq!(server.command(&["DBSIZE"]).unwrap().integer(), Some(1));
}

#[tokio::test]
async fn a_request_that_meets_no_limit_is_admitted() {
    let (_server, store) = start().await;
    let answer = store.decide(&[Request::new([], None).unwrap()]).await.remove(0).unwrap();
    assert!(answer.allowed && answer.outcomes().is_empty());
    assert_eq!(answer.charged_at_us, None);
}

/// The units of permits are not counted each time, and add up all the same.
#[tokio::test]
async fn permits_of_any_size_add_up_while_they_come_and_go() {
    let (_server, store) = start().await;
    let quota = Quota::concurrency(100, 60_000_000).unwrap();
    let amend = async |change| {
        let amendment = Amendment {
            limit: "api",
            quota: &quota,
            key: "alice",
            change,
            consistency: Consistency::Exact,
        };
        store.amend(&[amendment]).await.remove(0).unwrap()
    };
    let take = async |id, cost| {
        let check = Check::new("api", &quota, "alice", cost);
        let request = Request::new([check], Some(Ticket { id, reserve_for_us: None })).unwrap();
        store.decide(&[request]).await.remove(0).unwrap().outcomes()[0]
    };
    let mut held = 0;
    for (id, cost) in (1..).zip([1, 5, 1, 30, 1, 60]) {
        held += cost;
        assert_eq!(take(id, cost).await.remaining, 100 - held);
    }
    assert!(!take(7, 3).await.allowed);
    assert_eq!(take(0, 0).await.remaining, 2);
    for (id, units) in [(2, 5), (5, 1), (4, 30)] {
        assert_eq!(amend(Change::Renew { id }).await, Amended::Done { forgiven: 0 });
        assert_eq!(amend(Change::Release { id }).await, Amended::Done { forgiven: 0 });
        assert_eq!(amend(Change::Release { id }).await, Amended::Unknown);
        held -= units;
        assert_eq!(take(0, 0).await.remaining, 100 - held);
    }
}

/// How often a server was called by this name, by scripts too.
fn calls(server: &RedisServer, name: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap().to_string();
    let line = format!("cmdstat_{name}:calls=");
    let found = stats.lines().find_map(|found| found.strip_prefix(line.as_str()));
    found.map_or(0, |found| found.split(',').next().unwrap().parse().unwrap())
}

/// The whole log was written anew, and everybody told, though nothing had come back.
#[tokio::test]
async fn a_reservation_settled_at_its_estimate_gives_nothing_back_and_tells_nobody() {
    let (server, store) = start().await;
    for quota in short_quotas().into_iter().chain([long_log()]) {
        if matches!(quota, Quota::Concurrency(_)) {
            continue;
        }
        let check = Check::new("api", &quota, "alice", 3);
        for (id, actual, told) in [(1, 3, 0), (2, 2, 1)] {
            let ticket = Ticket { id, reserve_for_us: Some(60_000_000) };
            let request = Request::new([check], Some(ticket)).unwrap();
            assert!(store.decide(&[request]).await.remove(0).unwrap().allowed);
            let seen = |name| calls(&server, name);
            let (published, pushed) = (seen("publish"), seen("rpush"));
            let amendment = Amendment {
                limit: "api",
                quota: &quota,
                key: "alice",
                change: Change::Settle { id, actual },
                consistency: Consistency::Exact,
            };
            let amended = store.amend(&[amendment]).await.remove(0).unwrap();
            assert!(matches!(amended, Amended::Settled(settled) if settled.reserved == 3));
            let is_long = quota == long_log();
            if is_long {
                assert_eq!((seen("publish") - published, seen("rpush") - pushed), (told, told));
            } else {
                // A short one may be as new by now.
                assert!(seen("publish") - published <= told, "{quota:?}");
            }
        }
        server.command(&["FLUSHALL"]).unwrap();
    }
}

fn long_log() -> Quota {
    Quota::sliding_window_log(1_000, 3_600_000_000).unwrap()
}

/// A log is written anew in parts: none of it is lost, however long it is.
#[tokio::test]
async fn a_long_log_that_is_given_something_back_keeps_the_rest() {
    let (_server, store) = start().await;
    let quota = Quota::sliding_window_log(10_000, 3_600_000_000).unwrap();
    let ask = async |cost| {
        let request = Request::new([Check::new("api", &quota, "alice", cost)], None).unwrap();
        store.decide(&[request]).await.remove(0).unwrap().outcomes()[0]
    };
    for nth in 0..2_100 {
        ask(1 + nth % 2).await;
    }
    assert_eq!(ask(0).await.remaining, 10_000 - 3_150);
    let amendment = Amendment {
        limit: "api",
        quota: &quota,
        key: "alice",
        change: Change::Refund { units: 4, charged_at_us: None },
        consistency: Consistency::Exact,
    };
    assert_eq!(store.amend(&[amendment]).await, [Ok(Amended::Done { forgiven: 0 })]);
    assert_eq!(ask(0).await.remaining, 10_000 - 3_146);
    let entries = store.inspect(Filter::default(), 10).await.unwrap();
    let State::Log(log) = &entries[0].state else { panic!("{entries:?}") };
    let units: u64 = log.entries().map(|entry| entry.units).sum();
    assert!(log.entries().is_sorted_by_key(|entry| entry.time_us));
    assert_eq!(units, 3_146);
    assert_eq!(ask(1).await.remaining, 10_000 - 3_147);
}

/// A server that is full takes a removal, and then all that the script goes on to write. So it granted
/// one permit after another.
#[tokio::test]
async fn a_full_server_grants_no_permit_and_lets_those_that_are_held_go_on() {
    for program in peers::servers().unwrap() {
        let (server, store) = start_program(program).await;
        let quota = Quota::concurrency(10, 60_000_000).unwrap();
        let take = async |id, cost| {
            let check = Check::new("api", &quota, "alice", cost);
            let request = Request::new([check], Some(Ticket { id, reserve_for_us: None })).unwrap();
            store.decide(&[request]).await.remove(0)
        };
        let amend = async |change| {
            let (limit, key, consistency) = ("api", "alice", Consistency::Exact);
            let amendment = Amendment { limit, quota: &quota, key, change, consistency };
            store.amend(&[amendment]).await.remove(0)
        };
        for id in 1..=3 {
            assert!(take(id, 1).await.unwrap().allowed);
        }
        server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        let error = take(4, 1).await.unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
        assert!(error.to_string().contains("OOM"), "{error}");
        assert_eq!(take(0, 0).await.unwrap().outcomes()[0].remaining, 7);
        for (change, left) in [
            (Change::Renew { id: 1 }, 7),
            (Change::Release { id: 2 }, 8),
            (Change::Release { id: 3 }, 9),
            (Change::Renew { id: 1 }, 9),
            (Change::Release { id: 1 }, 10),
        ] {
            assert_eq!(amend(change).await, Ok(Amended::Done { forgiven: 0 }));
            assert_eq!(take(0, 0).await.unwrap().outcomes()[0].remaining, left);
        }
        server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    }
}
