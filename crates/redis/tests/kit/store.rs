//! Opens stores on servers that tests have started.

use std::time::Duration;

use tollkeeper_core::{RedisAddress, RedisUrl};
use tollkeeper_redis::{RedisStore, Settings};

/// A store on the server that listens on `port` of loopback.
pub(crate) async fn store_on(port: u16, settings: Settings) -> RedisStore {
    let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port, tls: false };
    let url = RedisUrl { address, ..RedisUrl::default() };
    // These tests ask what a store decides, not how soon a busy machine lets it in.
    let settings = Settings { connect_patience: Duration::from_secs(20), ..settings };
    RedisStore::connect(&url, settings).await.unwrap()
}
