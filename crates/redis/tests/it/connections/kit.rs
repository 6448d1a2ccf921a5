//! URLs, stores and clients of the tests, and waiting for what must come.

use std::collections::HashMap;

use tokio::time::timeout;
use tollkeeper_core::{
    Answer, Check, Quota, Ran, RedisAddress, RedisUrl, Request, Secret, Store, StoreError,
};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::redis_server::RedisServer;

pub(crate) use crate::until::{PATIENCE, until};

/// Who signs in, in no message to be seen.
pub(crate) const USER: &str = "allegra";
pub(crate) const PASSWORD: &str = "op:n/se%s@me";

/// A server on a port of loopback.
pub(crate) fn url_of(port: u16) -> RedisUrl {
    url_at("127.0.0.1", port)
}

pub(crate) fn url_at(host: &str, port: u16) -> RedisUrl {
    let address = RedisAddress::Tcp { host: host.to_owned(), port, tls: false };
    RedisUrl { address, ..RedisUrl::default() }
}

pub(crate) fn url_as(port: u16, user: Option<&str>, password: Option<&str>) -> RedisUrl {
    RedisUrl { user: user.map(str::to_owned), password: password.map(Secret::new), ..url_of(port) }
}

/// Settings of a test that does not ask how soon a busy machine lets a store in.
pub(crate) fn patient() -> Settings {
    Settings { connect_patience: PATIENCE, ..Settings::default() }
}

pub(crate) async fn store_on(url: &RedisUrl, settings: Settings) -> RedisStore {
    timeout(PATIENCE, RedisStore::connect(url, settings)).await.unwrap().unwrap()
}

/// Why no store could be opened.
pub(crate) async fn refusal_of(url: &RedisUrl, settings: Settings) -> StoreError {
    let connected = timeout(PATIENCE, RedisStore::connect(url, settings)).await.unwrap();
    connected.unwrap_err()
}

/// One decision.
pub(crate) async fn ask(store: &RedisStore) -> Result<Answer, StoreError> {
    let quota = Quota::fixed_window(1_000_000, 400 * 86_400_000_000).unwrap();
    let check = Check::new("api", &quota, "alice", 1);
    store.decide(&[Request::new([check], None).unwrap()]).await.remove(0)
}

/// The same, and it must be answered soon, or fail soon.
pub(crate) async fn ask_soon(store: &RedisStore) -> Result<Answer, StoreError> {
    timeout(PATIENCE, ask(store)).await.unwrap()
}

/// Waits until a decision is taken.
pub(crate) async fn until_answered(store: &RedisStore) {
    until("no answer", async || ask_soon(store).await.ok()).await;
}

/// Waits until a decision fails because there is no connection.
pub(crate) async fn until_unconnected(store: &RedisStore) -> StoreError {
    let find = async || ask_soon(store).await.err().filter(|error| error.ran() == Ran::No);
    until("still connected", find).await
}

/// Checks what a person reads: the words, and nothing about who signed in.
pub(crate) fn check_told(error: &StoreError, ran: Ran, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
    for secret in [USER, PASSWORD] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(error.ran(), ran, "{text}");
}

/// Our connections as a server lists them, by their fields, oldest first.
pub(crate) fn clients(server: &RedisServer) -> Vec<HashMap<String, String>> {
    let list = server.command(&["CLIENT", "LIST"]).unwrap().to_string();
    let fields = |line: &str| -> HashMap<String, String> {
        let pairs = line.split_whitespace().filter_map(|field| field.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    list.lines().map(fields).filter(|client| client["name"] == "tollkeeper").collect()
}

pub(crate) fn ids(server: &RedisServer) -> Vec<String> {
    clients(server).iter().map(|client| client["id"].clone()).collect()
}

/// Waits until a server has so many connections of ours.
pub(crate) async fn until_clients(server: &RedisServer, count: usize) -> Vec<String> {
    let find = async || Some(ids(server)).filter(|ids| ids.len() == count);
    until("the number of connections", find).await
}
