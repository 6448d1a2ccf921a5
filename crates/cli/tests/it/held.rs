//! Permits on a server, of clients that do not wait for them and of a service that ends.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

use tollkeeper_testkit::redis_server::RedisServer;

use crate::app::App;
use crate::kit::{Service, request, until};

fn policy(server: &RedisServer, rest: &str) -> String {
    let rules = "rules: { few: { concurrency: { max_in_flight: 1, lease: 1h } } }";
    // So long that a busy machine does not miss it.
    format!("{rest}store: {{ url: \"{}\", timeout: 10s }}\n{rules}", server.url())
}

/// Whether nobody holds the only permit.
fn is_free(service: &Service) -> bool {
    let asked = r#"{"rule":"few","cost":0}"#;
    service.post("/v1/check", asked).json()["remaining"] == 1
}

fn decisions(service: &Service) -> u64 {
    let metrics = service.get("/metrics").body;
    let count = |line: &str| {
        line.strip_prefix("tollkeeper_decisions_total{rule=\"few\"")?
            .rsplit(' ')
            .next()?
            .parse::<u64>()
            .ok()
    };
    metrics.lines().filter_map(count).sum()
}

/// Of each connection to a service that it has not closed, how many bytes it has not read.
fn unread(service: &Service) -> Vec<u64> {
    unread_at(service.address.port())
}

/// The same of whoever listens at a port.
fn unread_at(port: u16) -> Vec<u64> {
    let port = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let unread = |line: &str| -> Option<u64> {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, state) = (words.next()?, words.next()?, words.next()?);
        let (_, unread) = words.next()?.split_once(':')?;
        // Both ends are open, or only this one.
        let is_open = local.ends_with(&port) && ["01", "08"].contains(&state);
        is_open.then(|| u64::from_str_radix(unread, 16).unwrap())
    };
    table.lines().filter_map(unread).collect()
}

/// The server gave it to somebody who was gone, and nobody else had it for an hour.
#[test]
fn a_permit_of_a_client_that_hung_up_is_free() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let service = Service::start("held-hung-up", &policy(&server, ""));
    for (path, body) in [
        ("/v1/check", r#"{"rule":"few"}"#),
        // What is not spelled as usual takes a longer way.
        ("/v1/check", r#"{"rule":"f\u0065w"}"#),
        ("/v1/check", r#"{"attributes":{"method":"GET","path":"/"}}"#),
        ("/v1/check/batch", r#"{"checks":[{"rule":"few"}]}"#),
        ("/v1/check/batch", r#"{"checks":[{"attributes":{"method":"GET","path":"/"}}]}"#),
        ("/api/resource", ""),
    ] {
        let before = decisions(&service);
        until("nobody is there", || unread(&service).is_empty());
        server.stop().unwrap();
        let asked = || unread_at(server.port()).iter().sum::<u64>();
        let before_it = asked();
        let mut client = TcpStream::connect(service.address).unwrap();
        client.write_all(&request("POST", path, &[], body.as_bytes())).unwrap();
        // Whoever hangs up before that has not asked for anything.
        until("the server is asked", || asked() > before_it);
        drop(client);
        until("its connection is closed", || unread(&service).is_empty());
        server.cont().unwrap();
        until("it was decided all the same", || decisions(&service) > before);
        until(&format!("the permit of {path} {body} came back"), || is_free(&service));
    }
}

/// What a WebSocket held, and what was given back in the last moment, stayed for an hour.
#[test]
fn a_service_that_ends_leaves_no_permit_behind() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let app = App::start();
    let rest = format!("listen: {{ gateway: \"127.0.0.1:0\" }}\nupstream: {}\n", app.url());
    let policy = policy(&server, &rest);
    let mut service = Service::start("held-ends", &policy);
    let other = Service::start("held-other", &policy);
    let gateway = service.gateway.unwrap();
    let stream = TcpStream::connect(gateway).unwrap();
    let (mut socket, _) = tungstenite::client(format!("ws://{gateway}/ws"), stream).unwrap();
    assert!(!is_free(&other));
    let pid = service.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(service.wait().success());
    assert!(is_free(&other));
    assert!(socket.read().is_err(), "it was cut off");
}
