//! Opens stores on servers that tests have started.

use std::path::PathBuf;
use std::time::Duration;

use tollkeeper_core::{RedisAddress, RedisUrl};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;

/// A store on the server that listens on `port` of loopback.
pub(crate) async fn store_on(port: u16, settings: Settings) -> RedisStore {
    let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port, tls: false };
    let url = RedisUrl { address, ..RedisUrl::default() };
    // These tests ask what a store decides, not how soon a busy machine lets it in.
    let settings = Settings { connect_patience: Duration::from_secs(20), ..settings };
    RedisStore::connect(&url, settings).await.unwrap()
}

/// The servers that everything must hold on.
pub(crate) fn servers() -> [PathBuf; 2] {
    ["redis-server".into(), peers::valkey().unwrap()]
}
