//! The nodes of a cluster: who is asked, and what they announce.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;
use tollkeeper_core::{Filter, HostPort, Ran, RedisAddress, RedisUrl, Secret, Store};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::proxy::{Ending, Proxy};
use tollkeeper_testkit::redis_server::Launch;
use tollkeeper_testkit::tls::Tls;

use super::kit::*;
use crate::store::cluster_url;

#[tokio::test]
async fn keys_lie_on_all_nodes_and_are_seen_and_forgotten_on_all() {
    for program in peers::servers().unwrap() {
        let cluster = Cluster::start(program, CALM).unwrap();
        // One of them is enough to find the others.
        let store = store_at(&cluster_url(&[cluster.nodes[4].server.port()])).await;
        assert_eq!(store.shards(), 3);
        let mut names: Vec<String> = (0..3).map(|shard| store.shard_name(shard)).collect();
        names.sort_unstable();
        let place = |nth: usize| format!("127.0.0.1:{}", cluster.nodes[nth].server.port());
        let mut places: Vec<String> = (0..3).map(place).collect();
        places.sort_unstable();
        assert_eq!(names, places);
        for nth in 0..30 {
            ask(&store, &format!("key-{nth}")).await.unwrap();
        }
        for node in &cluster.nodes[..3] {
            assert!(node.server.command(&["DBSIZE"]).unwrap().integer() > Some(0));
            assert_eq!(node.server.keys_without_ttl().unwrap(), Vec::<String>::new());
        }
        let all = store.inspect(Filter::default(), 100).await.unwrap();
        assert_eq!(all.len(), 30);
        assert_eq!(store.inspect(Filter::default(), 7).await.unwrap().len(), 7);
        let one = Filter { key: Some("key-7"), ..Filter::default() };
        assert_eq!(store.reset(one).await, Ok(1));
        assert_eq!(store.reset(Filter::default()).await, Ok(29));
        assert_eq!(store.inspect(Filter::default(), 100).await.unwrap(), []);
        // A node that forgets its scripts is sent them, and only that one.
        for (shard, forgetful) in [(0, 0), (1, 1), (2, 2)] {
            let (key, _) = key_in(&store, shard);
            ask(&store, &key).await.unwrap();
            cluster.nodes[forgetful].server.command(&["SCRIPT", "FLUSH"]).unwrap();
            assert_eq!(used(&ask(&store, &key).await.unwrap()), 2);
        }
        drop(store);
        for node in &cluster.nodes {
            until("connections stay", async || (clients(&node.server) == 0).then_some(())).await;
        }
        let metrics = tokio::runtime::Handle::current().metrics();
        until("tasks go on", async || (metrics.num_alive_tasks() == 0).then_some(())).await;
    }
}

/// The first that refused was the last that was asked.
#[tokio::test]
async fn a_node_that_refuses_to_forget_does_not_keep_the_others_from_it() {
    let cluster = Cluster::of("redis-server", 3, 0, CALM, |launch| launch).unwrap();
    let store = store_at(&cluster_url(&[cluster.nodes[0].server.port()])).await;
    let servers: Vec<_> = cluster.nodes.iter().map(|node| &node.server).collect();
    for refuses in 0..3 {
        for nth in 0..30 {
            ask(&store, &format!("key-{nth}")).await.unwrap();
        }
        servers[refuses].command(&["ACL", "SETUSER", "default", "-unlink"]).unwrap();
        let error = store.reset(Filter::default()).await.unwrap_err();
        assert!(error.to_string().contains("NOPERM"), "{error}");
        for (nth, server) in servers.iter().enumerate() {
            let left = server.command(&["DBSIZE"]).unwrap().integer().unwrap();
            assert_eq!(left > 0, nth == refuses, "{nth} has {left} while {refuses} refuses");
        }
        servers[refuses].command(&["ACL", "SETUSER", "default", "+unlink"]).unwrap();
    }
}

#[tokio::test]
async fn a_node_that_is_down_at_the_start_takes_its_own_keys_along_and_no_others() {
    let partial = |launch: Launch| launch.args(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = Cluster::of("redis-server", 3, 0, CALM, partial).unwrap();
    cluster.nodes[1].server.kill();
    let ports: Vec<u16> = [1, 0].map(|nth| cluster.nodes[nth].server.port()).to_vec();
    let store = store_at(&cluster_url(&ports)).await;
    let down = format!("127.0.0.1:{}", ports[0]);
    let mut shards: Vec<usize> = (0..3).collect();
    shards.sort_by_key(|shard| store.shard_name(*shard) == down);
    for (nth, shard) in shards.iter().copied().enumerate() {
        let (key, _) = key_in(&store, shard);
        let answered = ask(&store, &key).await;
        if nth < 2 {
            answered.unwrap();
            continue;
        }
        let error = answered.unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
        assert!(error.to_string().contains(&format!("{down}: nobody listens")), "{error}");
    }
    // However many calls fail, who holds what is asked for now and then.
    let looks = |node: usize| {
        let stats = cluster.nodes[node].server.command(&["INFO", "commandstats"]).unwrap();
        let stats = stats.to_string();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_cluster|slots:calls="));
        line.and_then(|line| line.split(',').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let (before, begun) = (looks(0), Instant::now());
    let (lost, _) = key_in(&store, shards[2]);
    let mut calls = 0;
    while begun.elapsed() < Duration::from_millis(500) {
        ask(&store, &lost).await.unwrap_err();
        calls += 1;
        yield_now().await;
    }
    // After 40 ms, then after twice that, and so on.
    let looked = looks(0) - before;
    assert!((1..=12).contains(&looked) && calls > 100, "{looked} for {calls}");
    // What can be forgotten is forgotten, and the rest is told.
    assert!(store.reset(Filter::default()).await.is_err());
    assert!(store.inspect(Filter::default(), 9).await.is_err());
    cluster.nodes[1].server.restart().unwrap();
    until("it is not found again", async || store.inspect(Filter::default(), 9).await.ok()).await;
    assert_eq!(store.inspect(Filter::default(), 9).await.unwrap(), []);
}

#[tokio::test]
async fn nodes_are_found_by_the_names_that_they_announce() {
    let hostname = |launch: Launch| {
        let launch = launch.args(&["--cluster-announce-hostname", "localhost"]);
        launch.args(&["--cluster-preferred-endpoint-type", "hostname"])
    };
    let unnamed =
        |launch: Launch| launch.args(&["--cluster-preferred-endpoint-type", "unknown-endpoint"]);
    let nameless = |launch: Launch| launch.args(&["--cluster-preferred-endpoint-type", "hostname"]);
    let started = [
        (Cluster::of("redis-server", 2, 0, CALM, hostname), "localhost"),
        (Cluster::of("redis-server", 2, 0, CALM, unnamed), "127.0.0.1"),
        (Cluster::of("redis-server", 1, 0, CALM, nameless), "127.0.0.1"),
    ];
    for (cluster, host) in started {
        let cluster = cluster.unwrap();
        let store = store_at(&cluster_url(&[cluster.nodes[0].server.port()])).await;
        for shard in 0..store.shards() {
            assert!(store.shard_name(shard).starts_with(&format!("{host}:")), "{host}");
            let (key, slot) = key_in(&store, shard);
            let before = used(&ask(&store, &key).await.unwrap());
            if store.shards() == 2 {
                // A node that sends us on names itself in the same way.
                let held = cluster.holder_as_told_by(0, slot).unwrap();
                cluster.migrate(slot, held, 1 - held).unwrap();
                assert_eq!(used(&ask(&store, &key).await.unwrap()), before + 1);
            }
        }
    }
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_is_not_sent_again() {
    let cluster = Cluster::of("redis-server", 1, 0, CALM, |launch| launch).unwrap();
    let node = &cluster.nodes[0].server;
    let proxy = Proxy::before(node.port()).unwrap();
    node.command(&["CONFIG", "SET", "cluster-announce-port", &proxy.port().to_string()]).unwrap();
    let store = Arc::new(store_at(&cluster_url(&[proxy.port()])).await);
    assert_eq!(store.shard_name(0), format!("127.0.0.1:{}", proxy.port()));
    assert_eq!(used(&ask(&store, "a").await.unwrap()), 1);
    proxy.mute().unwrap();
    let under_way = tokio::spawn({
        let store = Arc::clone(&store);
        async move { ask(&store, "a").await }
    });
    // The count is the last of its numbers.
    let last = "return (struct.unpack('<d', redis.call('GET', KEYS[1]), 17))";
    let count = || node.command(&["EVAL", last, "1", "rl:{a}:api:fw"]).unwrap().integer();
    until("it does not run", async || (count() == Some(2)).then_some(())).await;
    proxy.cut(Ending::Reset).unwrap();
    let error = under_way.await.unwrap().unwrap_err();
    assert_eq!(error.ran(), Ran::Perhaps, "{error}");
    assert!(error.to_string().starts_with("lost the connection to the cluster of"), "{error}");
    proxy.pass().unwrap();
    let answer = until("it does not come back", async || ask(&store, "a").await.ok()).await;
    assert_eq!(used(&answer), 3);
}

#[tokio::test]
async fn all_nodes_with_tls_and_a_password() {
    let tls = Tls::new().unwrap();
    let ca = std::fs::read(tls.ca()).unwrap();
    let how = move |launch: Launch| {
        launch.tls(&tls).args(&["--tls-cluster", "yes"]).password("opensesame")
    };
    let cluster = Cluster::of("redis-server", 1, 0, CALM, how).unwrap();
    let nodes =
        |host: &str| vec![HostPort { host: host.to_owned(), port: cluster.nodes[0].server.port() }];
    let address = RedisAddress::Cluster { nodes: nodes("127.0.0.1"), tls: true };
    let url =
        RedisUrl { address, password: Some(Secret::new("opensesame")), ..RedisUrl::default() };
    let settings = Settings { ca: Some(ca), ..patient() };
    let store = RedisStore::connect(&url, settings).await.unwrap();
    ask(&store, "a").await.unwrap();
    let without = RedisUrl {
        address: RedisAddress::Cluster { nodes: nodes("127.0.0.1"), tls: false },
        ..url
    };
    let error = refusal_of(&without).await.to_string();
    assert!(error.contains("if it speaks TLS, write rediss://"), "{error}");
}
