//! Users with the rights that the manual names, and no others.

use tollkeeper_core::{Filter, RedisAddress, RedisUrl, Secret, Store};
use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};
use tollkeeper_testkit::sentinels::{MASTER, Sentinels};

use super::kit::*;
use crate::store::{RIGHTS, cluster_url, sentinel_url};

/// What a user of the sentinels needs.
const OF_SENTINELS: &str = "on >word resetkeys resetchannels &+switch-master -@all \
    +sentinel|get-master-addr-by-name +sentinel|master +sentinel|masters +subscribe +ping";

/// What a user was not allowed to do, but for telling our name.
fn denials(server: &RedisServer) -> Vec<String> {
    let log = server.command(&["ACL", "LOG"]).unwrap();
    let entries = log.list().iter().map(ToString::to_string);
    entries.filter(|entry| !entry.contains("\nclient|")).collect()
}

#[tokio::test]
async fn a_user_of_a_cluster() {
    for program in peers::servers().unwrap() {
        let how = |launch: Launch| launch.user("app", "word", RIGHTS);
        let cluster = Cluster::of(program, 2, 0, CALM, how).unwrap();
        let url = RedisUrl {
            user: Some("app".to_owned()),
            password: Some(Secret::new("word")),
            ..cluster_url(&[cluster.nodes[0].server.port()])
        };
        let store = store_at(&url).await;
        let (key, slot) = key_in(&store, 0);
        ask(&store, &key).await.unwrap();
        let from = cluster.holder_as_told_by(0, slot).unwrap();
        cluster.begin_move(slot, from, 1 - from).unwrap();
        ask_limits(&store, &key, &["fresh"]).await.unwrap();
        assert_eq!(store.inspect(Filter::default(), 9).await.unwrap().len(), 2);
        assert_eq!(store.reset(Filter::default()).await, Ok(2));
        for node in &cluster.nodes {
            assert_eq!(denials(&node.server), Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn a_user_of_sentinels() {
    let set = Sentinels::start("redis-server").unwrap();
    for sentinel in &set.sentinels {
        let rights = OF_SENTINELS.split_whitespace();
        let command: Vec<&str> = ["ACL", "SETUSER", "app"].into_iter().chain(rights).collect();
        sentinel.command(&command).unwrap();
    }
    let mut url = sentinel_url(&set);
    if let RedisAddress::Sentinel { user, password, .. } = &mut url.address {
        (*user, *password) = (Some(Secret::new("app")), Some(Secret::new("word")));
    }
    let store = store_at(&url).await;
    ask(&store, "a").await.unwrap();
    let heard = || {
        let listed = set.sentinels[2].command(&["CLIENT", "LIST", "TYPE", "pubsub"]).ok()?;
        listed.to_string().contains("user=app").then_some(())
    };
    until("it does not listen", async || heard()).await;
    let RedisAddress::Sentinel { master, .. } = &mut url.address else { panic!("{url:?}") };
    "nobody".clone_into(master);
    let error = refusal_of(&url).await.to_string();
    assert!(error.contains(&format!("they know `{MASTER}`")), "{error}");
    for sentinel in &set.sentinels {
        assert_eq!(denials(sentinel), Vec::<String>::new());
    }
}
