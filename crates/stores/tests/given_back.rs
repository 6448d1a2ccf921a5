//! What one process gives back or resets, another learns at once that remembers a denial of it: on
//! every kind of store that they can share.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../../redis/tests/kit/until.rs"]
mod until;

use std::time::Duration;

use tollkeeper_core::{Amended, Store};
use tollkeeper_engine::{Ask, Source, Target, Verdict};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::Policy;
use tollkeeper_stores::StoreEngine;
use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;
use tollkeeper_testkit::sentinels::Sentinels;

use self::until::{PATIENCE, until};

type App = StoreEngine<SystemClock>;

/// An engine that remembers denials for longer than any test waits.
async fn app(urls: &str) -> App {
    const { assert!(PATIENCE.as_secs() < 60) };
    let policy = format!(
        "store:\n  url: {urls}\n  timeout: 5s\n  denied_cache: 1m\nrules:\n  \
         api: {{ limit: 1/day }}\n  job: {{ limit: 10/day }}"
    );
    let policy = Policy::parse(&policy, &|_| None).unwrap();
    let app = tollkeeper_stores::engine(policy, SystemClock::new()).unwrap();
    app.store().opened().await.unwrap();
    app
}

fn ask<'a>(rule: &'a str, key: &'a str, cost: u64) -> Ask<'a> {
    Ask { target: Target::Rule(rule), key: Some(key), cost }
}

async fn check(app: &App, rule: &str, key: &str) -> Verdict {
    app.check(ask(rule, key, 1)).await.unwrap()
}

/// Waits until a denial of this key is told again.
async fn until_remembered(app: &App, rule: &str, key: &str) {
    until("a denial is told again", async || {
        let verdict = check(app, rule, key).await;
        assert!(!verdict.allowed());
        (verdict.source() == Source::Cache).then_some(())
    })
    .await;
}

async fn until_admitted(app: &App, rule: &str, key: &str) {
    until("another's gift is learnt of", async || {
        check(app, rule, key).await.allowed().then_some(())
    })
    .await;
}

async fn is_learnt_of(urls: &str) {
    let (one, other) = (app(urls).await, app(urls).await);
    for key in ["alice", "bob", "a}:b{%:r:", "carol"] {
        assert!(check(&one, "api", key).await.allowed());
        until_remembered(&other, "api", key).await;
        let refunded = one.refund(ask("api", key, 1), None).await.unwrap();
        assert_eq!(refunded, Amended::Done { forgiven: 0 });
        until_admitted(&other, "api", key).await;
    }
    // A reservation that took less than it reserved.
    let reserved = one.reserve(ask("job", "alice", 10), None).await.unwrap();
    until_remembered(&other, "job", "alice").await;
    one.settle(reserved.handle().unwrap(), 3).await.unwrap();
    until_admitted(&other, "job", "alice").await;
    // Everything anew.
    until_remembered(&other, "api", "bob").await;
    one.reset(None, None).await.unwrap();
    until_admitted(&other, "api", "bob").await;
}

#[tokio::test]
async fn on_one_server() {
    for program in peers::servers().unwrap().into_iter().chain(peers::oldest_redis()) {
        let server = RedisServer::start(program, &[]).unwrap();
        is_learnt_of(&server.url()).await;
    }
}

#[tokio::test]
async fn on_the_master_of_sentinels() {
    let set = Sentinels::start("redis-server").unwrap();
    is_learnt_of(&set.url()).await;
}

#[tokio::test]
async fn on_a_cluster() {
    let cluster = Cluster::start("redis-server", Duration::from_secs(5)).unwrap();
    is_learnt_of(&cluster.url()).await;
}

#[tokio::test]
async fn on_shards() {
    let servers = [(); 3].map(|()| RedisServer::start("redis-server", &[]).unwrap());
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    is_learnt_of(&format!("[{}]", urls.join(", "))).await;
}

/// Who may not listen gives back all the same, and is not told: its memory of a denial ends.
#[tokio::test]
async fn who_may_not_listen_still_gives_back() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let rules = ["on", ">pw", "~rl:*", "resetchannels", "+@all", "-publish", "-subscribe"];
    server.command(&[&["ACL", "SETUSER", "us"], &rules[..]].concat()).unwrap();
    let url = server.url().replace("redis://", "redis://us:pw@");
    let (one, other) = (app(&url).await, app(&url).await);
    assert!(check(&one, "api", "alice").await.allowed());
    until_remembered(&other, "api", "alice").await;
    let refunded = one.refund(ask("api", "alice", 1), None).await.unwrap();
    assert_eq!(refunded, Amended::Done { forgiven: 0 });
    assert!(check(&one, "api", "alice").await.allowed());
    assert!(!check(&other, "api", "alice").await.allowed());
}
