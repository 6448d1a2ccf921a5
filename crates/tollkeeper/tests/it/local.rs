//! Limits on a real server that this process decides.

use std::time::Duration;

use tollkeeper::{Amended, Limit, Source, Tollkeeper};
use tollkeeper_testkit::redis_server::RedisServer;

/// So long that only a server that never answers misses it.
const AMPLE: Duration = Duration::from_secs(5);

/// So much that all of it is used, and so slow that nothing flows in meanwhile.
const PER_DAY: u64 = 1000;

/// Enough to spend all of it, a hundred requests at a time.
const ROUNDS: u64 = 2 * PER_DAY / 100;

async fn limiter(server: &RedisServer, limit: Limit) -> Tollkeeper {
    let limiter =
        Tollkeeper::redis(&server.url()).limit("api", limit).nodes(2).timeout(AMPLE).build();
    limiter.opened().await.unwrap();
    limiter
}

/// Asks each in turn: how many were admitted, and how many were decided by `source`.
async fn ask(limiters: &[&Tollkeeper], source: Source, times: usize) -> (u64, usize) {
    let (mut admitted, mut by_source) = (0, 0);
    for nth in 0..times {
        let decision = limiters[nth % limiters.len()].check("api", "alice").await.unwrap();
        admitted += u64::from(decision.allowed());
        by_source += usize::from(decision.source() == source);
    }
    (admitted, by_source)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_two_limiters_lease_is_kept_with_few_calls() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let limit = Limit::per_day(PER_DAY).lease();
    let (one, other) = (limiter(&server, limit.clone()).await, limiter(&server, limit).await);
    // It is drawn bit by bit, in a few calls that are then saved up for half an hour: a quarter of it is out at
    // most, of which one has half, and the other half of what is left. How much more there is goes by
    // how their calls meet.
    let (mut admitted, mut elsewhere) = (0, 0);
    for _ in 0..ROUNDS {
        let (more, leased) = ask(&[&one, &other], Source::Lease, 100).await;
        admitted += more;
        elsewhere += 100 - leased;
    }
    assert!((PER_DAY / 6..=PER_DAY).contains(&admitted), "{admitted} of {PER_DAY}");
    assert!(elsewhere <= 20, "{elsewhere} not by units that were taken before");
    let (_, asked) = ask(&[&one, &other], Source::Store, 100).await;
    assert_eq!(asked, 0, "who is denied costs the server nothing either");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_to_the_server_is_decided_here() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let limit = Limit::per_day(PER_DAY).sync().period("1s").sub_shards(2);
    let limiter = limiter(&server, limit).await;
    let (admitted, synced) = ask(&[&limiter], Source::Sync, 300).await;
    // The first one waits for the server.
    assert!(admitted == 300 && synced > 290, "{admitted} admitted, {synced} here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_is_had_without_a_server() {
    let limit = Limit::fixed_window(PER_DAY, "1d").share();
    let limiter = Tollkeeper::redis("redis://127.0.0.1:1")
        .limit("api", limit)
        .nodes(2)
        .timeout(AMPLE)
        .build();
    let (_, shared) = ask(&[&limiter], Source::Share, 300).await;
    assert_eq!(shared, 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_limiter_reserves_of_a_part_another_settles() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let limit = Limit::per_day(PER_DAY).sync().period("1s").sub_shards(2);
    let (one, other) = (limiter(&server, limit.clone()).await, limiter(&server, limit).await);
    let life = Duration::from_secs(60);
    let reserved = one.reserve("api", "alice", 300, life).await.unwrap();
    assert!(reserved.allowed() && reserved.source() == Source::Store);
    let reservation = reserved.handle().unwrap();
    assert_eq!(other.settle(reservation, 100).await, Ok(Amended::Done { forgiven: 0 }));
    assert_eq!(one.settle(reservation, 100).await, Ok(Amended::Repeated));
    // Either part is decided here, and says so.
    let decision = one.check("api", "alice").await.unwrap();
    assert!(
        decision.remaining_is_at_least()
            && decision.limits().all(|one| one.remaining_is_at_least())
    );
    assert!(decision.remaining() < PER_DAY / 2, "what one part has");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_limiter_reserves_of_its_share_another_settles() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let limit = Limit::per_second(PER_DAY).share();
    let (one, other) = (limiter(&server, limit.clone()).await, limiter(&server, limit).await);
    let life = Duration::from_secs(60);
    // Whoever begins has nothing: half of it flows in within a second.
    let reserved = loop {
        let reserved = one.reserve("api", "alice", 400, life).await.unwrap();
        if reserved.allowed() {
            break reserved;
        }
        tokio::task::yield_now().await;
    };
    assert!(reserved.source() == Source::Share && reserved.remaining_is_at_least());
    let reservation = reserved.handle().unwrap();
    // Of the 4600 on top, it can pay what it has and owe as much as that can be: a thousand.
    let settled = other.settle(reservation, 5000).await;
    assert!(matches!(settled, Ok(Amended::Done { forgiven: 3600..=4600 })), "{settled:?}");
    assert_eq!(one.settle(reservation, 0).await, Ok(Amended::Repeated));
    assert!(!other.check("api", "alice").await.unwrap().allowed());
}
