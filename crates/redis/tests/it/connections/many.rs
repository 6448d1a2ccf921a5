//! Several connections: how many there are, what goes over which, and their end.

use std::time::Duration;

use tokio::time::timeout;
use tollkeeper_core::Ran;
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;

use super::kit::*;

async fn store_with(server: &RedisServer, connections: usize) -> RedisStore {
    store_on(&url_of(server.port()), Settings { connections, ..patient() }).await
}

#[tokio::test]
async fn as_many_connections_as_were_asked_for_share_the_calls() {
    for program in peers::servers().unwrap() {
        let server = RedisServer::start(program, &[]).unwrap();
        let store = store_with(&server, 5).await;
        until_clients(&server, 5).await;
        until("all are open", async || {
            // The last thing that is said on a new connection.
            clients(&server).iter().all(|client| client["cmd"] == "ping").then_some(())
        })
        .await;
        for _ in 0..5 {
            ask_soon(&store).await.unwrap();
        }
        let last: Vec<String> = clients(&server).iter().map(|c| c["cmd"].clone()).collect();
        assert!(last.iter().all(|cmd| cmd.starts_with("eval")), "{last:?}");
        for client in clients(&server) {
            // Old servers do not ask for it.
            let library = client.get("lib-name").map(String::as_str);
            assert!(library.is_none_or(|name| name == "tollkeeper"), "{client:?}");
        }
    }
}

#[tokio::test]
async fn none_is_one() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let store = store_with(&server, 0).await;
    ask_soon(&store).await.unwrap();
    assert_eq!(ids(&server).len(), 1);
}

#[tokio::test]
async fn one_connection_is_killed_and_only_its_calls_fail() {
    for program in peers::servers().unwrap() {
        let server = RedisServer::start(program, &[]).unwrap();
        let store = store_with(&server, 4).await;
        let before = until_clients(&server, 4).await;
        until_answered(&store).await;
        server.command(&["CLIENT", "KILL", "ID", &before[1]]).unwrap();
        let mut failed = Vec::new();
        for _ in 0..100 {
            failed.extend(ask_soon(&store).await.err());
        }
        // One at a time is under way.
        assert!(failed.len() <= 1, "{failed:?}");
        if let Some(error) = failed.first() {
            check_told(error, Ran::Perhaps, &["lost the connection to 127.0.0.1:", "closed"]);
        }
        let after = until_clients(&server, 4).await;
        let kept: Vec<_> = before.iter().filter(|id| after.contains(id)).collect();
        assert_eq!(kept, [&before[0], &before[2], &before[3]]);
    }
}

#[tokio::test]
async fn connections_that_are_lost_while_nobody_calls_come_back_by_themselves() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let store = store_with(&server, 3).await;
    let before = until_clients(&server, 3).await;
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    // Not by one of the attempts that are made now and then.
    let after = timeout(Duration::from_secs(4), until_clients(&server, 3)).await.unwrap();
    assert!(before.iter().all(|id| !after.contains(id)), "{before:?} {after:?}");
    // All three are good for a call.
    for _ in 0..3 {
        until_answered(&store).await;
    }
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_nothing_behind() {
    for program in peers::servers().unwrap() {
        let server = RedisServer::start(program, &[]).unwrap();
        let store = store_with(&server, 6).await;
        until_clients(&server, 6).await;
        ask_soon(&store).await.unwrap();
        drop(store);
        until_clients(&server, 0).await;

        // A store that is dropped while it comes, too.
        let store = RedisStore::open(&url_of(server.port()), patient()).unwrap();
        drop(store);
        until_clients(&server, 0).await;
    }
    let metrics = tokio::runtime::Handle::current().metrics();
    until("tasks go on", async || (metrics.num_alive_tasks() == 0).then_some(())).await;
}
