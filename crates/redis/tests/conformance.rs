//! A real Redis against the suite that every store must pass.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tollkeeper_core::ManualClock;
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::redis_server::RedisServer;
use tollkeeper_testkit::replay::Harness;
use tollkeeper_testkit::suite;

struct OnRedis {
    store: RedisStore,
    clock: ManualClock,
    runtime: Runtime,
}

impl OnRedis {
    fn new(server: &RedisServer) -> Self {
        let runtime = Runtime::new().unwrap();
        let clock = ManualClock::default();
        let settings =
            Settings { virtual_clock: Some(Arc::new(clock.clone())), ..Settings::default() };
        let store = runtime.block_on(RedisStore::connect(&server.url(), settings)).unwrap();
        Self { store, clock, runtime }
    }
}

impl Harness for OnRedis {
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

#[test]
fn redis_conforms() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let harness = OnRedis::new(&server);
    if let Err(failures) = suite::run(&harness, 10) {
        panic!("{failures}");
    }
}
