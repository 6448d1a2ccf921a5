//! Encrypted connections, and those that should have been.

use std::fs;

use tollkeeper_core::{Ran, RedisAddress, RedisUrl};
use tollkeeper_redis::Settings;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};
use tollkeeper_testkit::tls::Tls;

use super::kit::*;

fn secured(host: &str, port: u16) -> RedisUrl {
    let address = RedisAddress::Tcp { host: host.to_owned(), port, tls: true };
    RedisUrl { address, ..RedisUrl::default() }
}

fn trusting(tls: &Tls) -> Settings {
    Settings { ca: Some(fs::read(tls.ca()).unwrap()), ..patient() }
}

#[tokio::test]
async fn a_server_with_a_certificate_that_the_ca_signed() {
    let tls = Tls::new().unwrap();
    let mut server = Launch::new("redis-server").password(PASSWORD).tls(&tls).start().unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let login = url_as(1, None, Some(PASSWORD));
        let url = RedisUrl { address: secured(host, server.port()).address, ..login };
        let store = store_on(&url, trusting(&tls)).await;
        ask_soon(&store).await.unwrap();
        server.kill();
        let error = until_unconnected(&store).await;
        check_told(&error, Ran::No, &["cannot use", host]);
        server.restart().unwrap();
        until_answered(&store).await;
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted() {
    let (tls, other) = (Tls::new().unwrap(), Tls::new().unwrap());
    let server = Launch::new("redis-server").tls(&tls).start().unwrap();
    let url = secured("127.0.0.1", server.port());
    for settings in [patient(), trusting(&other)] {
        let error = refusal_of(&url, settings).await;
        let place = format!("cannot use 127.0.0.1:{}", server.port());
        check_told(&error, Ran::No, &[&place, "certificate", "not trusted", "`store.ca`"]);
    }
}

#[tokio::test]
async fn a_certificate_for_another_name() {
    let tls = Tls::new().unwrap();
    let launch = Launch::new("redis-server").tls(&tls).args(&["--bind", "127.0.0.1", "127.0.0.2"]);
    let server = launch.start().unwrap();
    let error = refusal_of(&secured("127.0.0.2", server.port()), trusting(&tls)).await;
    check_told(&error, Ran::No, &["cannot use 127.0.0.2:", "certificate", "not valid for"]);
}

#[tokio::test]
async fn tls_to_a_server_that_does_not_speak_it() {
    let tls = Tls::new().unwrap();
    let server = RedisServer::start("redis-server", &[]).unwrap();
    // Such a server may wait for the end of what it takes for a line.
    let settings =
        Settings { connect_patience: Settings::default().connect_patience, ..trusting(&tls) };
    let error = refusal_of(&secured("127.0.0.1", server.port()), settings).await;
    check_told(&error, Ran::No, &["cannot use 127.0.0.1:", "speak TLS", "redis://"]);
}

#[tokio::test]
async fn a_plain_url_to_a_server_that_speaks_tls() {
    let tls = Tls::new().unwrap();
    let server = Launch::new("redis-server").password(PASSWORD).tls(&tls).start().unwrap();
    for url in [url_of(server.port()), url_as(server.port(), None, Some(PASSWORD))] {
        let error = refusal_of(&url, patient()).await;
        check_told(&error, Ran::No, &["cannot use 127.0.0.1:", "speaks TLS", "rediss://"]);
    }
}

#[tokio::test]
async fn a_ca_that_holds_no_certificate() {
    let settings = Settings { ca: Some(b"nothing".to_vec()), ..patient() };
    let error = refusal_of(&secured("127.0.0.1", 1), settings).await;
    check_told(&error, Ran::No, &["cannot use 127.0.0.1:1", "`store.ca`", "no certificate"]);
}
