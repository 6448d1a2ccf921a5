//! The master that sentinels name.

use tokio::time::timeout;
use tollkeeper_core::{RedisAddress, RedisUrl, Secret, Store};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::Launch;
use tollkeeper_testkit::resp::Connection;
use tollkeeper_testkit::sentinels::{MASTER, Sentinels};
use tollkeeper_testkit::tls::Tls;

use super::kit::*;
use crate::store::{sentinel_url, sentinel_url_of};

fn ports(set: &Sentinels) -> Vec<u16> {
    set.sentinels.iter().map(|sentinel| sentinel.port()).collect()
}

/// Waits until the replicas have all that the first master has.
fn replicate(set: &Sentinels) {
    let mut keeper = set.servers[0].keeper().unwrap();
    // Who has written nothing waits for nothing.
    keeper.call(&["SET", "testkit:last", "1", "EX", "60"]).unwrap();
    assert_eq!(keeper.call(&["WAIT", "2", "5000"]).unwrap().integer(), Some(2));
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_told_with_those_they_know() {
    let set = Sentinels::start("redis-server").unwrap();
    let error = refusal_of(&sentinel_url_of(&ports(&set), "mymastre")).await.to_string();
    let told = "the sentinels know no master `mymastre`; they know `mymaster`";
    assert!(error.starts_with("cannot use mymastre of 127.0.0.1:"), "{error}");
    assert!(error.ends_with(told), "{error}");
}

#[tokio::test]
async fn sentinels_that_are_down_at_the_start_or_later_are_done_without() {
    for program in peers::servers().unwrap() {
        let mut set = Sentinels::start(program).unwrap();
        let url = sentinel_url(&set);
        set.sentinels[0].kill();
        let store = store_at(&url).await;
        ask(&store, "a").await.unwrap();
        set.sentinels[1].kill();
        // The connections that are open do not need them, new ones need one.
        ask(&store, "a").await.unwrap();
        let another = store_at(&url).await;
        ask(&another, "a").await.unwrap();
        set.sentinels[2].kill();
        assert_eq!(used(&ask(&store, "a").await.unwrap()), 4);
        let error = refusal_of(&url).await.to_string();
        assert!(error.contains("no sentinel answers: 127.0.0.1:"), "{error}");
        assert!(error.contains("nobody listens there"), "{error}");
        // They are found when they are back.
        let waiting = RedisStore::open(&url, patient()).unwrap();
        set.sentinels[1].restart().unwrap();
        until("no sentinel is found again", async || ask(&waiting, "a").await.ok()).await;
    }
}

#[tokio::test]
async fn connections_follow_to_the_new_master_though_the_old_one_lives() {
    for program in peers::servers().unwrap() {
        let set = Sentinels::start(program).unwrap();
        let store = store_at(&sentinel_url(&set)).await;
        assert_eq!(used(&ask(&store, "a").await.unwrap()), 1);
        replicate(&set);
        let mut sentinel = Connection::tcp(set.sentinels[1].port()).unwrap();
        sentinel.call(&["SENTINEL", "FAILOVER", "mymaster"]).unwrap();
        let new = set.wait_for_another(0).unwrap();
        until("no connection at the new master", async || {
            (clients(&set.servers[new]) == 2).then_some(())
        })
        .await;
        until("still at the old master", async || (clients(&set.servers[0]) == 0).then_some(()))
            .await;
        // What was used before is known there.
        let answer = until("no answer", async || ask(&store, "a").await.ok()).await;
        assert_eq!(used(&answer), 2);
    }
}

/// Nobody says anything and nothing is closed: all that is heard is the sentinels' word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_master_is_left_as_soon_as_there_is_another() {
    let set = Sentinels::start("redis-server").unwrap();
    // One that does not answer is not waited for, where others do.
    set.sentinels[0].stop().unwrap();
    let url = sentinel_url(&set);
    let opening = timeout(PATIENCE / 4, RedisStore::connect(&url, patient()));
    let store = opening.await.unwrap().unwrap();
    assert_eq!(used(&ask(&store, "a").await.unwrap()), 1);
    replicate(&set);
    set.sentinels[0].cont().unwrap();
    for sentinel in &set.sentinels {
        until("nobody listens", async || {
            let listed = sentinel.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).ok()?;
            (listed.to_string().lines().count() > 0).then_some(())
        })
        .await;
    }
    set.servers[0].stop().unwrap();
    set.wait_for_another(0).unwrap();
    // Connections that are silent would be left after the patience of their settings.
    let followed = until("at the old master", async || {
        timeout(PATIENCE / 40, ask(&store, "a")).await.ok()?.ok()
    });
    let answer = timeout(PATIENCE / 10, followed).await.unwrap();
    assert!(used(&answer) >= 2, "{answer:?}");
    set.servers[0].cont().unwrap();
}

#[tokio::test]
async fn servers_and_sentinels_with_passwords_of_their_own() {
    let set = Sentinels::with_passwords("redis-server", "opensesame", "whogoesthere").unwrap();
    let with = |password: Option<&str>, sentinel: Option<&str>| {
        let mut url = sentinel_url(&set);
        if let RedisAddress::Sentinel { password, .. } = &mut url.address {
            *password = sentinel.map(Secret::new);
        }
        RedisUrl { password: password.map(Secret::new), ..url }
    };
    let store = store_at(&with(Some("opensesame"), Some("whogoesthere"))).await;
    ask(&store, "a").await.unwrap();
    let shown = format!("{store:?}");
    assert!(!shown.contains("opensesame") && !shown.contains("whogoesthere"), "{shown}");
    for (url, said) in [
        (with(Some("opensesame"), None), "no sentinel answers: NOAUTH"),
        (with(Some("opensesame"), Some("x")), "?sentinel_user=U&sentinel_password=P"),
        (with(None, Some("whogoesthere")), "NOAUTH"),
    ] {
        let error = refusal_of(&url).await.to_string();
        assert!(error.contains(said), "{error}");
        assert!(!error.contains("opensesame") && !error.contains("whogoesthere"), "{error}");
    }
}

#[tokio::test]
async fn the_sentinel_and_the_server_with_tls() {
    let tls = Tls::new().unwrap();
    let server = Launch::new("redis-server").tls(&tls).start().unwrap();
    let watch = format!("sentinel monitor {MASTER} 127.0.0.1 {} 1\n", server.port());
    let sentinel = Launch::new("redis-server").tls(&tls).args(&["--tls-replication", "yes"]);
    let sentinel = sentinel.sentinel(&watch).start().unwrap();
    let mut url = sentinel_url_of(&[sentinel.port()], MASTER);
    let error = refusal_of(&url).await.to_string();
    assert!(error.contains("if it speaks TLS, write rediss"), "{error}");
    if let RedisAddress::Sentinel { tls, .. } = &mut url.address {
        *tls = true;
    }
    let ca = Some(std::fs::read(tls.ca()).unwrap());
    let store = RedisStore::connect(&url, Settings { ca, ..patient() }).await.unwrap();
    ask(&store, "a").await.unwrap();
    // Listening is encrypted, too.
    until("it does not listen", async || {
        let listed = sentinel.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).ok()?;
        (listed.to_string().lines().count() > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_nothing_behind() {
    let set = Sentinels::start("redis-server").unwrap();
    let store = store_at(&sentinel_url(&set)).await;
    ask(&store, "a").await.unwrap();
    assert_eq!((store.part("a").shard, store.shards()), (0, 1));
    assert!(store.shard_name(0).starts_with("mymaster of 127.0.0.1:"));
    drop(store);
    until("connections stay", async || (clients(&set.servers[0]) == 0).then_some(())).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    until("tasks go on", async || (metrics.num_alive_tasks() == 0).then_some(())).await;
}
