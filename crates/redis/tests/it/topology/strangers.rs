//! Servers of another kind than the URL says.

use tollkeeper_testkit::port::Port;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};

use super::kit::*;
use crate::store::{cluster_url, sentinel_url_of, url_of};

#[tokio::test]
async fn a_server_that_stands_alone_is_no_cluster() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let error = refusal_of(&cluster_url(&[server.port()])).await.to_string();
    assert!(error.starts_with("cannot use the cluster of 127.0.0.1:"), "{error}");
    assert!(error.contains("not a node of a cluster (`cluster-enabled no`)"), "{error}");
    assert!(error.contains("write redis://HOST:PORT"), "{error}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_no_server_that_stands_alone() {
    let server = Launch::new("redis-server").cluster().unwrap().start().unwrap();
    let error = refusal_of(&url_of(server.port())).await.to_string();
    assert!(error.contains("write redis+cluster://HOST:PORT"), "{error}");
    // Alone it has no slots.
    let error = refusal_of(&cluster_url(&[server.port()])).await.to_string();
    assert!(error.contains("no node of it holds any slot"), "{error}");
}

#[tokio::test]
async fn a_server_is_no_sentinel() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let error = refusal_of(&sentinel_url_of(&[server.port()], "mymaster")).await.to_string();
    assert!(error.contains("no sentinel answers: ERR unknown command"), "{error}");
}

#[tokio::test]
async fn nobody_at_all() {
    let port = Port::reserve().unwrap();
    for url in [cluster_url(&[port.number()]), sentinel_url_of(&[port.number()], "mymaster")] {
        let error = refusal_of(&url).await.to_string();
        assert!(error.contains(&format!("127.0.0.1:{}: nobody listens", port.number())), "{error}");
    }
}
