//! What the scripts see to on a server with its own clock: the life of a key that is always in use,
//! and that nothing is written before everything has been looked at.

use tollkeeper_core::{
    Amended, Amendment, Change, Check, Consistency, LeakMode, Quota, Rate, Request, Store, Ticket,
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
            for id in 1..=300 {
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
            assert!(seen > 100, "{name} was seen only {seen} times");
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
