//! The suite that every store must pass, on three servers.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tollkeeper_core::{Colocate, ManualClock};
use tollkeeper_engine::Whole;
use tollkeeper_redis::{Settings, Shards};
use tollkeeper_testkit::replay::Harness;
use tollkeeper_testkit::suite;

use crate::{servers, urls};

struct OnShards {
    store: Whole<Shards>,
    clock: ManualClock,
    runtime: Runtime,
}

impl Harness for OnShards {
    type Store = Whole<Shards>;

    fn store(&self) -> &Whole<Shards> {
        &self.store
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lives_by_clock(&self) -> bool {
        false
    }

    fn is_one_whole(&self) -> bool {
        false
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

fn conforms(colocate: Colocate, seeds: u64) -> Vec<i64> {
    let (servers, runtime) = (servers(3), Runtime::new().unwrap());
    let clock = ManualClock::default();
    let settings =
        Settings { virtual_clock: Some(Arc::new(clock.clone())), colocate, ..Settings::default() };
    let urls = urls(&servers);
    let opening = Shards::connect(&urls, |_| settings.clone());
    let store = Whole(runtime.block_on(opening).unwrap());
    let harness = OnShards { store, clock, runtime };
    if let Err(failures) = suite::run(&harness, seeds) {
        panic!("{failures}");
    }
    let keys = |server: &tollkeeper_testkit::redis_server::RedisServer| {
        assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
        server.command(&["DBSIZE"]).unwrap().integer().unwrap()
    };
    servers.iter().map(keys).collect()
}

#[test]
fn three_servers_conform() {
    let keys = conforms(Colocate::Key, 4);
    assert!(keys.iter().all(|keys| *keys > 50), "{keys:?}");
}

#[test]
fn with_everything_in_one_place_they_conform_and_one_has_all() {
    let keys = conforms(Colocate::All, 1);
    assert_eq!(keys.iter().filter(|keys| **keys > 0).count(), 1, "{keys:?}");
}
