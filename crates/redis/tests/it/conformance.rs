//! Real servers against the suite that every store must pass, the golden vectors among it.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollkeeper_core::{Clock, ManualClock, RedisUrl, Store};
use tollkeeper_engine::Whole;
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;
use tollkeeper_testkit::replay::Harness;
use tollkeeper_testkit::sentinels::Sentinels;
use tollkeeper_testkit::suite;

use crate::store;

struct OnServer {
    store: Whole<RedisStore>,
    clock: ManualClock,
    runtime: Runtime,
}

impl OnServer {
    fn new(url: &RedisUrl, merge: bool) -> Self {
        let runtime = Runtime::new().unwrap();
        let clock = ManualClock::default();
        let virtual_clock: Arc<dyn Clock> = Arc::new(clock.clone());
        let settings =
            Settings { virtual_clock: Some(virtual_clock), merge, ..Settings::default() };
        let store = Whole(runtime.block_on(store::store_at(url, settings)));
        Self { store, clock, runtime }
    }
}

impl Harness for OnServer {
    type Store = Whole<RedisStore>;

    fn store(&self) -> &Whole<RedisStore> {
        &self.store
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lives_by_clock(&self) -> bool {
        false
    }

    fn is_one_whole(&self) -> bool {
        self.store.0.shards() == 1
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

/// Plays the suite on the store at `url`, whose keys lie on `servers`.
fn conforms_at(url: &RedisUrl, servers: &[&RedisServer], seeds: u64) {
    conforms_with(url, servers, seeds, true);
}

fn conforms_with(url: &RedisUrl, servers: &[&RedisServer], seeds: u64, merge: bool) {
    let harness = OnServer::new(url, merge);
    if let Err(failures) = suite::run(&harness, seeds) {
        panic!("{failures}");
    }
    let keys = |server: &&RedisServer| server.command(&["DBSIZE"]).unwrap().integer().unwrap();
    for server in servers {
        assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
        // Each has its part.
        assert!(keys(server) > 500 / servers.len() as i64 / 2, "{} keys", keys(server));
    }
    let all: i64 = servers.iter().map(keys).sum();
    assert!(all > 500, "the suite left only {all} keys to look at");
}

fn conforms(program: impl AsRef<Path>, seeds: u64) {
    let server = RedisServer::start(program, &[]).unwrap();
    conforms_at(&store::url_of(server.port()), &[&server], seeds);
}

fn conforms_unmerged(program: impl AsRef<Path>) {
    let server = RedisServer::start(program, &[]).unwrap();
    conforms_with(&store::url_of(server.port()), &[&server], 2, false);
}

fn a_cluster_conforms(program: impl AsRef<Path>) {
    let cluster = Cluster::start(program, Duration::from_secs(5)).unwrap();
    let masters: Vec<&RedisServer> = cluster.nodes[..3].iter().map(|node| &node.server).collect();
    conforms_at(&store::cluster_url(&[masters[0].port()]), &masters, 1);
}

#[test]
fn redis_conforms() {
    conforms("redis-server", 10);
}

#[test]
fn redis_conforms_without_merging() {
    conforms_unmerged("redis-server");
}

#[test]
fn valkey_conforms() {
    conforms(peers::valkey().unwrap(), 10);
}

#[test]
fn valkey_conforms_without_merging() {
    conforms_unmerged(peers::valkey().unwrap());
}

#[test]
fn the_oldest_supported_redis_conforms() {
    conforms(peers::oldest_redis().unwrap(), 1);
}

#[test]
fn the_master_of_sentinels_conforms() {
    let set = Sentinels::start("redis-server").unwrap();
    conforms_at(&store::sentinel_url(&set), &[&set.servers[0]], 1);
}

#[test]
fn a_cluster_of_redis_conforms() {
    a_cluster_conforms("redis-server");
}

#[test]
fn a_cluster_of_valkey_conforms() {
    a_cluster_conforms(peers::valkey().unwrap());
}
