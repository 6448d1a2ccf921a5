//! Opens stores on servers that tests have started.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::time::Duration;

use tollkeeper_core::{HostPort, RedisAddress, RedisUrl};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::sentinels::{MASTER, Sentinels};

/// What the manual says that a user needs, on a cluster too.
pub(crate) const RIGHTS: &str = "resetkeys ~rl:* resetchannels &rl:* -@all \
    +evalsha +eval +time +get +mget +set +setrange +llen +hmget +hset +hlen +pttl +pexpireat +del \
    +lrange +lindex +rpush +rpop +ltrim \
    +zrange +zrangebyscore +zscore +zadd +zrem +zremrangebyscore \
    +info +ping +scan +unlink +publish +subscribe \
    +cluster|slots +cluster|info +asking";

/// The server that listens on `port` of loopback.
pub(crate) fn url_of(port: u16) -> RedisUrl {
    let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port, tls: false };
    RedisUrl { address, ..RedisUrl::default() }
}

/// The master that sentinels name.
pub(crate) fn sentinel_url(set: &Sentinels) -> RedisUrl {
    let ports: Vec<u16> = set.sentinels.iter().map(|sentinel| sentinel.port()).collect();
    sentinel_url_of(&ports, MASTER)
}

pub(crate) fn sentinel_url_of(ports: &[u16], master: &str) -> RedisUrl {
    let (sentinels, master) = (places(ports), master.to_owned());
    let address =
        RedisAddress::Sentinel { sentinels, master, user: None, password: None, tls: false };
    RedisUrl { address, ..RedisUrl::default() }
}

/// The cluster that these nodes belong to.
pub(crate) fn cluster_url(ports: &[u16]) -> RedisUrl {
    let address = RedisAddress::Cluster { nodes: places(ports), tls: false };
    RedisUrl { address, ..RedisUrl::default() }
}

fn places(ports: &[u16]) -> Vec<HostPort> {
    ports.iter().map(|port| HostPort { host: "127.0.0.1".to_owned(), port: *port }).collect()
}

/// A store on the server that listens on `port` of loopback.
pub(crate) async fn store_on(port: u16, settings: Settings) -> RedisStore {
    store_at(&url_of(port), settings).await
}

pub(crate) async fn store_at(url: &RedisUrl, settings: Settings) -> RedisStore {
    // These tests ask what a store decides, not how soon a busy machine lets it in.
    let settings = Settings { connect_patience: Duration::from_secs(20), ..settings };
    RedisStore::connect(url, settings).await.unwrap()
}
