//! Connections over which nothing comes any more, and which nobody ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tollkeeper_core::Ran;
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::proxy::Proxy;
use tollkeeper_testkit::redis_server::RedisServer;

use super::kit::*;

/// How long a caller waits, who then gives up.
const DEADLINE: Duration = Duration::from_millis(20);

async fn behind_a_proxy() -> (RedisServer, Proxy, RedisStore) {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let proxy = Proxy::before(server.port()).unwrap();
    let settings = Settings { connections: 1, ..Settings::default() };
    let url = url_of(proxy.port());
    let store =
        until("a connection", async || RedisStore::connect(&url, settings.clone()).await.ok());
    let store = store.await;
    ask_soon(&store).await.unwrap();
    (server, proxy, store)
}

#[tokio::test]
async fn a_call_that_is_given_up_shows_that_the_connection_is_dead() {
    let (_server, proxy, store) = behind_a_proxy().await;
    let store = Arc::new(store);
    let opened = proxy.seen().accepted;
    proxy.abandon().unwrap();
    let endless = tokio::spawn({
        let store = Arc::clone(&store);
        async move { ask(&store).await }
    });
    assert!(timeout(DEADLINE, ask(&store)).await.is_err());
    // Who waits without end is told, too.
    let error = timeout(PATIENCE, endless).await.unwrap().unwrap().unwrap_err();
    check_told(&error, Ran::Perhaps, &["lost the connection to 127.0.0.1:"]);
    until_answered(&store).await;
    proxy.until(move |seen| seen.accepted > opened).await.unwrap();
}

#[tokio::test]
async fn while_everything_is_swallowed_calls_fail_at_once_and_then_succeed() {
    let (_server, proxy, store) = behind_a_proxy().await;
    proxy.half_open().unwrap();
    assert!(timeout(DEADLINE, ask(&store)).await.is_err());
    let error = until_unconnected(&store).await;
    check_told(&error, Ran::No, &["cannot use 127.0.0.1:", "no answer within 350ms"]);
    proxy.abandon().unwrap();
    proxy.pass().unwrap();
    until_answered(&store).await;
}

#[tokio::test]
async fn a_call_that_is_given_up_on_a_good_connection_costs_it_nothing() {
    let (server, proxy, store) = behind_a_proxy().await;
    let (opened, before) = (proxy.seen().accepted, ids(&server));
    for _ in 0..5 {
        proxy.hold().unwrap();
        assert!(timeout(DEADLINE, ask(&store)).await.is_err());
        proxy.pass().unwrap();
        ask_soon(&store).await.unwrap();
    }
    assert_eq!((proxy.seen().accepted, ids(&server)), (opened, before));
}

#[tokio::test]
async fn a_host_that_swallows_everything_is_not_waited_for() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let proxy = Proxy::before(server.port()).unwrap();
    proxy.half_open().unwrap();
    for ms in [50, 350] {
        let connect_patience = Duration::from_millis(ms);
        let settings = Settings { connect_patience, ..Settings::default() };
        let begun = tokio::time::Instant::now();
        let error = refusal_of(&url_of(proxy.port()), settings).await;
        let took = begun.elapsed();
        assert!(
            took >= connect_patience && took < connect_patience * 2 + DEADLINE * 50,
            "{took:?}"
        );
        let words = format!("no answer within {ms}ms");
        check_told(&error, Ran::No, &["cannot use 127.0.0.1:", &words]);
    }
}
