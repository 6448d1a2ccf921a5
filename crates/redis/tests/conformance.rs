//! Real servers against the suite that every store must pass, the golden vectors among it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "kit/store.rs"]
mod kit;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tollkeeper_core::ManualClock;
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;
use tollkeeper_testkit::replay::Harness;
use tollkeeper_testkit::suite;

struct OnServer {
    store: RedisStore,
    clock: ManualClock,
    runtime: Runtime,
}

impl OnServer {
    fn new(server: &RedisServer) -> Self {
        let runtime = Runtime::new().unwrap();
        let clock = ManualClock::default();
        let settings =
            Settings { virtual_clock: Some(Arc::new(clock.clone())), ..Settings::default() };
        let store = runtime.block_on(kit::store_on(server.port(), settings));
        Self { store, clock, runtime }
    }
}

impl Harness for OnServer {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.store
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lives_by_clock(&self) -> bool {
        false
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

fn conforms(program: impl AsRef<Path>, seeds: u64) {
    let server = RedisServer::start(program, &[]).unwrap();
    let harness = OnServer::new(&server);
    if let Err(failures) = suite::run(&harness, seeds) {
        panic!("{failures}");
    }
    let keys = server.command(&["DBSIZE"]).unwrap().integer().unwrap();
    assert!(keys > 500, "the suite left only {keys} keys to look at");
    assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
}

#[test]
fn redis_conforms() {
    conforms("redis-server", 10);
}

#[test]
fn valkey_conforms() {
    conforms(peers::valkey().unwrap(), 10);
}

#[test]
fn the_oldest_supported_redis_conforms() {
    conforms(peers::oldest_redis().unwrap(), 1);
}
