//! The gateway: a reverse proxy with limits, before a real app.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use tollkeeper_testkit::tls::Tls;
use tungstenite::Message;

use crate::app::App;
use crate::kit::{PATIENCE, Reply, Service, read_reply, request, until};

const GB: u64 = 1 << 30;

/// What the service may need more for a body of any length.
const MOST_GROWTH_KB: u64 = 16 << 10;

fn policy(upstream: &str, rest: &str) -> String {
    format!("listen: {{ gateway: \"127.0.0.1:0\" }}\nupstream: {upstream}\n{rest}")
}

fn start(name: &str, app: &App, rest: &str) -> Service {
    Service::start(name, &policy(&app.url(), rest))
}

fn connect(service: &Service) -> TcpStream {
    let stream = TcpStream::connect(gateway(service)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn gateway(service: &Service) -> SocketAddr {
    service.gateway.unwrap()
}

fn send(service: &Service, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut stream = connect(service);
    stream.write_all(&request(method, path, headers, b"")).unwrap();
    read_reply(&mut BufReader::new(stream))
}

fn get(service: &Service, path: &str) -> Reply {
    send(service, "GET", path, &[])
}

/// The most memory that a process ever had.
fn peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn requests_pass_until_the_limit_says_no() {
    let app = App::start();
    let service = start(
        "gateway-limit",
        &app,
        "headers: [legacy, ietf]\nrules: { per-ip: { key: ip, limit: 2/day } }",
    );
    for left in ["1", "0"] {
        let reply = get(&service, "/orders?page=2&x=%20");
        assert_eq!(reply.status, 200);
        assert!(reply.body.starts_with("GET /orders?page=2&x=%20 HTTP/1.1\n"), "{}", reply.body);
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(left));
        assert!(reply.header("ratelimit-policy").is_some());
    }
    let refused = get(&service, "/orders");
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.json()["error"], "rate_limited");
    assert_eq!(app.calls(), 2, "the app never sees what is refused");
    // The API has its own port, and hides nothing of the app.
    assert_eq!(service.get("/healthz").body, "ok\n");
}

#[test]
fn the_app_is_told_who_asks_and_by_whom_that_is_known() {
    let app = App::start();
    let service = start("gateway-headers", &app, "rules: { r: { limit: 1000/s } }");
    let headers = [
        ("host", "shop.example"),
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-host", "evil"),
        ("forwarded", "for=1.1.1.1"),
        ("x-real-ip", "1.1.1.1"),
        ("connection", "close, x-hop"),
        ("x-hop", "secret"),
        ("te", "trailers"),
        ("keep-alive", "timeout=9"),
        ("x-kept", "yes"),
    ];
    let told = send(&service, "GET", "/", &headers).body;
    for expected in [
        "host: shop.example",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-host: shop.example",
        "x-forwarded-proto: http",
        "x-real-ip: 127.0.0.1",
        "x-kept: yes",
    ] {
        assert!(told.lines().any(|line| line == expected), "no `{expected}` in\n{told}");
    }
    for taken in ["1.1.1.1", "evil", "x-hop", "keep-alive", "connection", "\nforwarded:"] {
        assert!(!told.contains(taken), "`{taken}` in\n{told}");
    }

    let trusting = "client_ip: { trusted_proxies: [127.0.0.0/8] }\nrules: { r: { limit: 1000/s } }";
    let service = start("gateway-trusting", &app, trusting);
    let headers = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-proto", "https")];
    let told = send(&service, "GET", "/", &headers).body;
    for expected in
        ["x-forwarded-for: 1.1.1.1, 127.0.0.1", "x-forwarded-proto: https", "x-real-ip: 1.1.1.1"]
    {
        assert!(told.lines().any(|line| line == expected), "no `{expected}` in\n{told}");
    }
}

#[test]
fn every_form_of_a_target_is_passed_on_or_refused() {
    let app = App::start();
    let service = start("gateway-forms", &app, "rules: { r: { limit: 1000/s } }");
    let told = send(&service, "GET", "http://other.example/path?q", &[("host", "this")]).body;
    assert!(told.starts_with("GET /path?q HTTP/1.1\n"), "{told}");
    assert!(told.contains("\nhost: other.example\n"), "{told}");
    let told = send(&service, "PROPFIND", "//a/../b%2f", &[]).body;
    assert!(told.starts_with("PROPFIND //a/../b%2f HTTP/1.1\n"), "{told}");
    let calls = app.calls();
    assert_eq!(send(&service, "CONNECT", "evil.example:443", &[]).status, 405);
    assert_eq!(send(&service, "OPTIONS", "*", &[]).status, 400);
    assert_eq!(app.calls(), calls);
    let mut old = connect(&service);
    old.write_all(b"GET /old HTTP/1.0\r\n\r\n").unwrap();
    let reply = read_reply(&mut BufReader::new(old));
    assert!(reply.body.starts_with("GET /old HTTP/1.1\n"), "{}", reply.body);
}

#[test]
fn an_answer_that_should_not_count_is_given_back() {
    let app = App::start();
    let rest = "rules: { r: { limit: 2/day, refund_on: [5xx] } }";
    let service = start("gateway-refund", &app, rest);
    for _ in 0..5 {
        assert_eq!(get(&service, "/status/503").status, 503);
    }
    assert_eq!(get(&service, "/status/404").status, 404);
    assert_eq!(get(&service, "/status/204").status, 204);
    assert_eq!(get(&service, "/status/200").status, 429);
}

#[test]
fn a_gigabyte_passes_both_ways_and_memory_stays_flat() {
    let app = App::start();
    let service = start("gateway-gigabyte", &app, "rules: { r: { limit: 1000/s } }");
    assert_eq!(get(&service, "/").status, 200);
    let before_kb = peak_kb(service.pid());

    let mut stream = connect(&service);
    let head = format!("POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: {GB}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let part = vec![b'x'; 1 << 20];
    for _ in 0..GB >> 20 {
        stream.write_all(&part).unwrap();
    }
    assert_eq!(read_reply(&mut BufReader::new(stream)).body, GB.to_string());

    let mut stream = connect(&service);
    stream.write_all(&request("GET", &format!("/download/{GB}"), &[], b"")).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        line.clear();
    }
    assert_eq!(std::io::copy(&mut reader.take(GB), &mut std::io::sink()).unwrap(), GB);

    let grown_kb = peak_kb(service.pid()) - before_kb;
    assert!(grown_kb < MOST_GROWTH_KB, "{grown_kb} kB more for two bodies of a gigabyte");
}

#[test]
fn the_parts_of_a_stream_pass_as_they_come() {
    let app = App::start();
    let service = start("gateway-stream", &app, "rules: { r: { limit: 1000/s } }");
    let mut stream = connect(&service);
    stream.write_all(&request("GET", "/stream", &[], b"")).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.is_empty()), "the head comes before any part");
    for part in ["one", "two", "three"] {
        // The app sends this part now, and none after it: it comes through by itself.
        app.go_on();
        assert!(lines.by_ref().any(|line| line == part));
    }
}

#[test]
fn trailers_pass_to_clients_that_take_them() {
    let app = App::start();
    let service = start("gateway-trailers", &app, "rules: { r: { limit: 1000/s } }");
    let mut stream = connect(&service);
    let headers = [("te", "trailers"), ("connection", "te, close")];
    stream.write_all(&request("GET", "/trailers", &headers, b"")).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("all of it") && answer.contains("x-check: right"), "{answer}");
}

#[test]
fn a_web_socket_passes_and_holds_its_permit_until_it_ends() {
    let app = App::start();
    let rest = "rules: { sockets: { concurrency: { max_in_flight: 1, lease: 1h } } }";
    let service = start("gateway-socket", &app, rest);
    let url = format!("ws://{}/ws", gateway(&service));
    let (mut socket, response) = tungstenite::client(url, connect(&service)).unwrap();
    assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
    for text in ["hello", &"long ".repeat(100_000)] {
        socket.send(Message::text(text)).unwrap();
        assert_eq!(socket.read().unwrap(), Message::text(text));
    }
    let refused = get(&service, "/");
    assert_eq!(refused.status, 429, "the socket is still there");
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
    // Its client has not hung up yet: what counts is that the WebSocket has ended.
    until("the permit is free", || get(&service, "/").status == 200);
    drop(socket);
}

#[test]
fn silence_is_not_waited_for() {
    let app = App::start();
    let rest = "gateway: { timeout: 50ms, tunnel_timeout: 50ms }\nrules: { r: { limit: 1000/s } }";
    let service = start("gateway-silence", &app, rest);
    // An app that does not answer.
    let reply = get(&service, "/silent");
    assert_eq!(reply.status, 504);
    assert_eq!(reply.json()["detail"], "the app did not answer in time");
    // An app that stops in the middle of its answer.
    app.go_on();
    let mut stream = connect(&service);
    stream.write_all(&request("GET", "/stream", &[("connection", "close")], b"")).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("one") && !answer.ends_with("0\r\n\r\n"), "cut, not ended:\n{answer}");
    // A client that stops in the middle of its request.
    let mut stream = connect(&service);
    stream.write_all(b"POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf").unwrap();
    assert_eq!(read_reply(&mut BufReader::new(stream)).status, 408);
    // A WebSocket on which nobody says anything.
    let url = format!("ws://{}/ws", gateway(&service));
    let (mut socket, _) = tungstenite::client(url, connect(&service)).unwrap();
    assert!(socket.read().is_err(), "it ends by itself");
}

#[test]
fn an_app_that_is_away_is_told_as_that_and_its_return_too() {
    let away = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = away.local_addr().unwrap();
    drop(away);
    let rules = "rules: { r: { limit: 1000/s } }";
    let service = Service::start("gateway-away", &policy(&format!("http://{address}"), rules));
    for _ in 0..3 {
        let reply = get(&service, "/");
        assert_eq!(reply.status, 502);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        assert_eq!(reply.json()["detail"], "the app cannot be reached");
    }
    // The file names another app; no restart is needed.
    let app = App::start();
    service.folder.write("tollkeeper.yaml", policy(&app.url(), rules));
    until("the other app answers", || get(&service, "/").status == 200);
    let log = service.log();
    assert_eq!(log.matches("cannot be reached").count(), 1, "{log}");
    assert_eq!(log.matches("is reached again").count(), 1, "{log}");
    // An app that breaks off.
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", rude.local_addr().unwrap());
    let service = Service::start("gateway-rude", &policy(&url, rules));
    let rudeness = std::thread::spawn(move || drop(rude.accept().unwrap()));
    assert_eq!(get(&service, "/").status, 502);
    rudeness.join().unwrap();
}

#[test]
fn a_gateway_before_nothing_says_so() {
    let rules = "listen: { gateway: \"127.0.0.1:0\" }\nrules: { r: { limit: 1000/s } }";
    let service = Service::start("gateway-nothing", rules);
    let reply = get(&service, "/");
    assert_eq!(
        (reply.status, reply.json()["detail"].as_str()),
        (502, Some("the policy names no `upstream`"))
    );
}

#[test]
fn the_doors_speak_tls_and_a_renewed_certificate_is_shown() {
    let app = App::start();
    let (old, new) = (Tls::new().unwrap(), Tls::new().unwrap());
    let rest = "tls: { certificate: cert.pem, key: key.pem }\nrules: { r: { limit: 1000/s } }";
    let files = [("cert.pem", old.certificate()), ("key.pem", old.key())];
    let files = files.map(|(name, path)| (name, std::fs::read(path).unwrap()));
    let service = Service::start_beside("gateway-tls", &policy(&app.url(), rest), &files, &[]);
    let curl = |tls: &Tls, address: SocketAddr, path: &str| {
        let url = format!("https://localhost:{}{path}", address.port());
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "30", "--cacert"]).arg(tls.ca()).arg(url);
        let output = curl.output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(curl(&old, service.address, "/healthz").unwrap(), "ok\n");
    let told = curl(&old, gateway(&service), "/").unwrap();
    assert!(told.contains("x-forwarded-proto: https\n"), "{told}");
    assert!(curl(&new, gateway(&service), "/").is_none(), "of another authority");
    // Plain HTTP gets no further.
    let mut plain = connect(&service);
    plain.write_all(&request("GET", "/", &[], b"")).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    service.folder.write("cert.pem", std::fs::read(new.certificate()).unwrap());
    service.folder.write("key.pem", std::fs::read(new.key()).unwrap());
    // With a policy that is refused nothing changes, the certificate included.
    let refused = policy(&app.url(), &format!("store: {{ max_keys: 5 }}\n{rest}"));
    service.folder.write("tollkeeper.yaml", refused);
    until("it is refused", || service.log().contains("the old one stays"));
    assert!(curl(&old, gateway(&service), "/").is_some());
    service.folder.write("tollkeeper.yaml", policy(&app.url(), rest));
    let hangup = Command::new("kill").args(["-HUP", &service.pid().to_string()]).status().unwrap();
    assert!(hangup.success());
    until("the new certificate is shown", || curl(&new, gateway(&service), "/").is_some());
    assert!(curl(&old, gateway(&service), "/").is_none());
}
