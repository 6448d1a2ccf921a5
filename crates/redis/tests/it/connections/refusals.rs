//! Servers that are not there, or not for us.

use tollkeeper_core::{Ran, RedisAddress, RedisUrl};
use tollkeeper_testkit::folder::Folder;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::port::Port;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};

use super::kit::*;

#[tokio::test]
async fn nobody_listens() {
    let port = Port::reserve().unwrap();
    let place = format!("cannot use 127.0.0.1:{}: ", port.number());
    let error = refusal_of(&url_of(port.number()), patient()).await;
    check_told(&error, Ran::No, &[&place, "Connection refused", "is the server running?"]);

    let folder = Folder::new().unwrap();
    let path = folder.path().join("socket");
    let place = format!("cannot use {}: ", path.display());
    let address = RedisAddress::Unix { path };
    let error = refusal_of(&RedisUrl { address, ..url_of(1) }, patient()).await;
    check_told(&error, Ran::No, &[&place, "No such file", "is the server running?"]);
}

#[tokio::test]
async fn a_name_that_leads_nowhere() {
    let error = refusal_of(&url_at("tollkeeper.invalid", 6379), patient()).await;
    let words = ["cannot use tollkeeper.invalid:6379: its name leads nowhere", "`store.url`"];
    check_told(&error, Ran::No, &words);
}

#[tokio::test]
async fn a_wrong_password_a_missing_one_and_one_too_many() {
    for program in peers::servers().unwrap() {
        let server = Launch::new(&program).password("another").start().unwrap();
        let port = server.port();
        for url in [
            url_as(port, None, Some(PASSWORD)),
            url_as(port, Some(USER), Some(PASSWORD)),
            url_as(port, Some(USER), None),
        ] {
            let error = refusal_of(&url, patient()).await;
            let words = ["cannot use 127.0.0.1:", "WRONGPASS", "the user and the password"];
            check_told(&error, Ran::No, &words);
        }
        for database in [0, 3] {
            let error = refusal_of(&RedisUrl { database, ..url_of(port) }, patient()).await;
            check_told(&error, Ran::No, &["NOAUTH", "put the password into `store.url`"]);
        }

        let open = RedisServer::start(program, &[]).unwrap();
        let error = refusal_of(&url_as(open.port(), None, Some(PASSWORD)), patient()).await;
        check_told(&error, Ran::No, &["without any password", "remove the password from"]);
    }
}

#[tokio::test]
async fn a_server_that_has_no_auth_does_not_make_us_tell_the_password() {
    let server = RedisServer::start("redis-server", &["--rename-command", "AUTH", ""]).unwrap();
    let error = refusal_of(&url_as(server.port(), Some(USER), Some(PASSWORD)), patient()).await;
    check_told(&error, Ran::No, &["cannot use 127.0.0.1:", "unknown command"]);
}

#[tokio::test]
async fn a_database_that_is_not_there() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let url = RedisUrl { database: 99, ..url_of(server.port()) };
    let error = refusal_of(&url, patient()).await;
    let place = format!("cannot use 127.0.0.1:{}/99: ", server.port());
    check_told(&error, Ran::No, &[&place, "DB index is out of range", "check the database"]);
}

#[tokio::test]
async fn a_server_that_has_too_many_clients() {
    for password in [None, Some(PASSWORD)] {
        let mut launch = Launch::new("redis-server").args(&["--maxclients", "1"]);
        launch = password.into_iter().fold(launch, Launch::password);
        let server = launch.start().unwrap();
        let keeper = server.keeper().unwrap();
        let error = refusal_of(&url_as(server.port(), None, password), patient()).await;
        let words = ["cannot use 127.0.0.1:", "max number of clients", "`maxclients`"];
        check_told(&error, Ran::No, &words);
        drop(keeper);
    }
}

#[tokio::test]
async fn a_node_of_a_cluster() {
    for program in peers::servers().unwrap() {
        let bus = Port::reserve().unwrap();
        let args = ["--cluster-enabled", "yes", "--cluster-port", &bus.number().to_string()];
        let server = RedisServer::start(program, &args).unwrap();
        let error = refusal_of(&url_of(server.port()), patient()).await;
        let words = ["cannot use 127.0.0.1:", "node of a cluster", "redis+cluster://HOST:PORT"];
        check_told(&error, Ran::No, &words);
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_and_one_just_new_enough() {
    let server = RedisServer::start(peers::too_old_redis().unwrap(), &[]).unwrap();
    let error = refusal_of(&url_of(server.port()), patient()).await;
    let words =
        ["cannot use 127.0.0.1:", "the server is Redis 5.0", "Redis 6.2 or newer", "Valkey"];
    check_told(&error, Ran::No, &words);

    let server = RedisServer::start(peers::oldest_redis().unwrap(), &[]).unwrap();
    let store = store_on(&url_of(server.port()), patient()).await;
    ask_soon(&store).await.unwrap();
}
