//! Every kind of URL.

use tollkeeper_core::{RedisAddress, RedisUrl};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};

use super::kit::*;

#[tokio::test]
async fn a_password_alone_signs_in_the_default_user() {
    for program in peers::servers().unwrap() {
        let server = Launch::new(program).password(PASSWORD).start().unwrap();
        let store = store_on(&url_as(server.port(), None, Some(PASSWORD)), patient()).await;
        ask_soon(&store).await.unwrap();
        assert_eq!(clients(&server)[0]["user"], "default");
        let shown = format!("{store:?}");
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
}

#[tokio::test]
async fn a_user_signs_in_with_a_password_or_without_one() {
    for program in peers::servers().unwrap() {
        let launch = Launch::new(program).user(USER, PASSWORD, "~rl:* +@all");
        let server = launch.args(&["--user", "free", "on", "nopass", "~rl:*", "+@all"]);
        let server = server.start().unwrap();
        let store = store_on(&url_as(server.port(), Some(USER), Some(PASSWORD)), patient()).await;
        ask_soon(&store).await.unwrap();
        assert_eq!(clients(&server)[0]["user"], USER);
        let shown = format!("{store:?}");
        assert!(!shown.contains(PASSWORD) && !shown.contains(USER), "{shown}");
        drop(store);
        until_clients(&server, 0).await;

        let store = store_on(&url_as(server.port(), Some("free"), None), patient()).await;
        ask_soon(&store).await.unwrap();
        assert_eq!(clients(&server)[0]["user"], "free");
    }
}

#[tokio::test]
async fn the_keys_lie_in_the_database_of_the_url() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let url = RedisUrl { database: 3, ..url_of(server.port()) };
    let store = store_on(&url, patient()).await;
    ask_soon(&store).await.unwrap();
    let mut keeper = server.keeper().unwrap();
    assert_eq!(keeper.call(&["DBSIZE"]).unwrap().integer(), Some(0));
    keeper.call(&["SELECT", "3"]).unwrap();
    assert_eq!(keeper.call(&["KEYS", "*"]).unwrap().to_string(), "rl:{alice}:api:fw");
    // A connection that was opened again looks there, too.
    keeper.call(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    until_unconnected_or_answered(&store).await;
    assert_eq!(keeper.call(&["DBSIZE"]).unwrap().integer(), Some(1));
    keeper.call(&["SELECT", "0"]).unwrap();
    assert_eq!(keeper.call(&["DBSIZE"]).unwrap().integer(), Some(0));
}

async fn until_unconnected_or_answered(store: &tollkeeper_redis::RedisStore) {
    let _ = ask_soon(store).await;
    until_answered(store).await;
}

#[tokio::test]
async fn a_socket_in_the_file_system() {
    for program in peers::servers().unwrap() {
        let server = Launch::new(program).password(PASSWORD).start().unwrap();
        let address = RedisAddress::Unix { path: server.socket() };
        let login = url_as(1, None, Some(PASSWORD));
        let store = store_on(&RedisUrl { address, database: 2, ..login }, patient()).await;
        ask_soon(&store).await.unwrap();
        assert_eq!(clients(&server)[0]["db"], "2");
        assert_eq!(clients(&server)[0]["flags"], "U");
    }
}

#[tokio::test]
async fn an_address_of_the_sixth_version() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let server = RedisServer::start("redis-server", &["--bind", "127.0.0.1", "::1"]).unwrap();
    let store = store_on(&url_at("::1", server.port()), patient()).await;
    ask_soon(&store).await.unwrap();
    assert!(clients(&server)[0]["addr"].starts_with("[::1]:"));
    // A name may lead to both versions, of which one is enough.
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let store = store_on(&url_at("localhost", server.port()), patient()).await;
    ask_soon(&store).await.unwrap();
}
