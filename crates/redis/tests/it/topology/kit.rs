//! Stores, decisions and keys of the tests, and waiting for what must come.

use std::time::Duration;

use tokio::time::timeout;
use tollkeeper_core::{Answer, Check, Quota, Ran, RedisUrl, Request, Store, StoreError};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::redis_server::RedisServer;

pub(crate) use crate::until::{PATIENCE, until};

/// How long a node may be silent where no test wants it to be taken for dead.
pub(crate) const CALM: Duration = Duration::from_secs(10);

/// Settings of a test that does not ask how soon a busy machine lets a store in.
pub(crate) fn patient() -> Settings {
    Settings { connect_patience: PATIENCE, ..Settings::default() }
}

pub(crate) async fn store_at(url: &RedisUrl) -> RedisStore {
    timeout(PATIENCE, RedisStore::connect(url, patient())).await.unwrap().unwrap()
}

/// Why no store could be opened.
pub(crate) async fn refusal_of(url: &RedisUrl) -> StoreError {
    let error = timeout(PATIENCE, RedisStore::connect(url, patient())).await.unwrap().unwrap_err();
    assert_eq!(error.ran(), Ran::No, "{error}");
    error
}

/// One decision on one key.
pub(crate) async fn ask(store: &RedisStore, key: &str) -> Result<Answer, StoreError> {
    ask_limits(store, key, &["api"]).await
}

/// One decision on several limits of a key.
pub(crate) async fn ask_limits(
    store: &RedisStore,
    key: &str,
    limits: &[&str],
) -> Result<Answer, StoreError> {
    let quota = Quota::fixed_window(1_000_000, 400 * 86_400_000_000).unwrap();
    let check = |limit| Check::new(limit, &quota, key, 1);
    let request = Request::new(limits.iter().map(|limit| check(limit)), None).unwrap();
    timeout(PATIENCE, store.decide(&[request])).await.unwrap().remove(0)
}

/// How often a key was used.
pub(crate) fn used(answer: &Answer) -> u64 {
    1_000_000 - answer.outcomes()[0].remaining
}

/// A key that lies in the shard of that number, and its slot.
pub(crate) fn key_in(store: &RedisStore, shard: usize) -> (String, u16) {
    let mut keys = (0..10_000).map(|nth| format!("key-{nth}"));
    let key = keys.find(|key| store.part(key).shard == shard).unwrap();
    let slot = store.part(&key).slot;
    (key, slot)
}

/// How many connections of ours a server has.
pub(crate) fn clients(server: &RedisServer) -> usize {
    let list = server.command(&["CLIENT", "LIST"]).unwrap().to_string();
    list.lines().filter(|line| line.contains("name=tollkeeper ")).count()
}

/// How often a server has answered with an error of this code.
pub(crate) fn errors(server: &RedisServer, code: &str) -> u64 {
    let stats = server.command(&["INFO", "errorstats"]).unwrap().to_string();
    let line = format!("errorstat_{code}:count=");
    let count = stats.lines().find_map(|found| found.strip_prefix(line.as_str())?.parse().ok());
    count.unwrap_or(0)
}
