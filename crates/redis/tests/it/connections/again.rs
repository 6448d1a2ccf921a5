//! Servers that go and come back.

use std::time::Duration;

use tokio::time::timeout;
use tollkeeper_core::{Filter, Ran, Store};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;

use super::kit::*;
use super::liars::Liar;

/// Calls that fail at once, and how long all of them may take; each would take 350 ms if it waited
/// for anything.
const CALLS: u32 = 100;
const AT_ONCE: Duration = Duration::from_secs(7);

#[tokio::test]
async fn calls_fail_at_once_while_the_server_is_gone_and_succeed_when_it_is_back() {
    for program in peers::servers().unwrap() {
        let mut server = RedisServer::start(program, &[]).unwrap();
        let store = store_on(&url_of(server.port()), Settings::default()).await;
        for _ in 0..2 {
            until_answered(&store).await;
            server.kill();
            let lost = ask_soon(&store).await.unwrap_err();
            assert!(lost.to_string().contains(&format!("127.0.0.1:{}", server.port())), "{lost}");
            let words = "nobody listens there";
            until("nobody listens", async || {
                let error = ask_soon(&store).await.unwrap_err();
                error.to_string().contains(words).then_some(())
            })
            .await;
            let fail = async {
                for _ in 0..CALLS {
                    let error = ask(&store).await.unwrap_err();
                    check_told(&error, Ran::No, &["cannot use 127.0.0.1:"]);
                }
            };
            timeout(AT_ONCE, fail).await.unwrap();
            server.restart().unwrap();
            timeout(Duration::from_secs(1), until_answered(&store)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_at_first() {
    let mut server = RedisServer::start("redis-server", &[]).unwrap();
    server.kill();
    let store = RedisStore::open(&url_of(server.port()), Settings::default()).unwrap();
    let error = ask_soon(&store).await.unwrap_err();
    check_told(&error, Ran::No, &["cannot use 127.0.0.1:", "not connected yet"]);
    let error = store.opened().await.unwrap_err();
    check_told(&error, Ran::No, &["cannot use 127.0.0.1:", "nobody listens there"]);
    server.restart().unwrap();
    timeout(Duration::from_secs(1), until_answered(&store)).await.unwrap();
    store.opened().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_still_loading() {
    for program in peers::servers().unwrap() {
        let mut server = RedisServer::start(program, &[]).unwrap();
        server.restart_loading().unwrap();
        let store = RedisStore::open(&url_of(server.port()), Settings::default()).unwrap();
        for error in [store.opened().await.unwrap_err(), ask_soon(&store).await.unwrap_err()] {
            let words = ["cannot use 127.0.0.1:", "LOADING", "still reading its data"];
            check_told(&error, Ran::No, &words);
        }
        server.finish_loading().unwrap();
        until_answered(&store).await;
        store.opened().await.unwrap();
    }
}

/// Nothing ran, and it was told that something might have.
#[tokio::test]
async fn a_server_that_takes_no_writes_for_want_of_replicas() {
    for program in peers::servers().unwrap() {
        let server = RedisServer::start(program, &["--min-replicas-to-write", "1"]).unwrap();
        // Who comes now is let in, and asks in vain.
        let store = store_on(&url_of(server.port()), patient()).await;
        let mut keeper = server.keeper().unwrap();
        let mut want = |replicas| {
            keeper.call(&["CONFIG", "SET", "min-replicas-to-write", replicas]).unwrap();
        };
        let words = ["127.0.0.1:", "NOREPLICAS", "fewer replicas than its `min-replicas-to-write`"];
        for _ in 0..2 {
            let error = ask_soon(&store).await.unwrap_err();
            check_told(&error, Ran::No, &words);
            // It can still be looked at.
            store.inspect(Filter::default(), 1).await.unwrap();
            want("0");
            ask_soon(&store).await.unwrap();
            want("1");
        }
        assert_eq!(clients(&server).len(), Settings::default().connections);
    }
}

#[tokio::test]
async fn a_password_that_is_set_later() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let store = store_on(&url_of(server.port()), Settings::default()).await;
    until_answered(&store).await;
    let mut keeper = server.keeper().unwrap();
    keeper.call(&["CONFIG", "SET", "requirepass", PASSWORD]).unwrap();
    // Who is signed in stays so.
    keeper.call(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    let refused = until("it lets us in", async || {
        let error = ask_soon(&store).await.err()?;
        error.to_string().contains("NOAUTH").then_some(error)
    });
    check_told(&refused.await, Ran::No, &["cannot use 127.0.0.1:", "redis://:PASSWORD@HOST"]);
    keeper.call(&["CONFIG", "SET", "requirepass", ""]).unwrap();
    until_answered(&store).await;
}

#[tokio::test]
async fn those_who_lost_a_server_do_not_come_back_together() {
    const MANY: usize = 64;
    const ROUNDS: usize = 5;
    let liar = Liar::start().await;
    let _store = store_on(&liar.url(), Settings { connections: MANY, ..patient() }).await;
    let mut spreads = Vec::new();
    for round in 1..=ROUNDS {
        liar.until_signed_in(round * MANY).await;
        liar.hang_up();
        let came = liar.until_accepted((round + 1) * MANY).await;
        let came = &came[round * MANY..];
        assert!(came[MANY - 1] - came[0] <= Duration::from_secs(2), "{came:?}");
        // Three quarters of them.
        spreads.push(came[MANY - MANY / 8] - came[MANY / 8]);
    }
    // Out of a pause of 40 ms and more. A machine that was held up hands on several at once.
    spreads.sort_unstable();
    assert!(spreads[ROUNDS / 2] >= Duration::from_millis(20), "{spreads:?}");
}
