//! Keys spread over real servers: they answer as one store does, many callers are never admitted
//! beyond a limit, and one server that dies, freezes or leaves is the affair of its own keys.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod chaos;
mod client;
mod conforms;
mod counting;
mod crowd;
#[path = "../../../redis/tests/kit/workers.rs"]
mod workers;

use tollkeeper_core::RedisUrl;
use tollkeeper_policy::StoreUrl;
use tollkeeper_testkit::redis_server::RedisServer;

/// Servers that a test spreads keys over.
fn servers(count: usize) -> Vec<RedisServer> {
    (0..count).map(|_| RedisServer::start("redis-server", &[]).unwrap()).collect()
}

fn url(server: &RedisServer) -> RedisUrl {
    let Ok(StoreUrl::Redis(url)) = server.url().parse() else { panic!("{}", server.url()) };
    url
}

fn urls(servers: &[RedisServer]) -> Vec<RedisUrl> {
    servers.iter().map(url).collect()
}
