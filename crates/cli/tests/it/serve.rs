//! `serve`: the protected route by every algorithm, the demo, and how it stops.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::kit::{Folder, Reply, Service, policy_of, read_reply, request, run, text};

#[allow(clippy::disallowed_methods, reason = "these tests watch a real process")]
fn now() -> Instant {
    Instant::now()
}

/// Eleven requests in one write on one connection; the answers, and how long it all took.
fn eleven(service: &Service) -> (Vec<Reply>, Duration) {
    let started = now();
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.write_all(&request("GET", "/api/resource", &[], b"").repeat(11)).unwrap();
    let mut reader = BufReader::new(stream);
    let replies = (0..11).map(|_| read_reply(&mut reader)).collect();
    (replies, started.elapsed())
}

#[test]
fn of_eleven_requests_ten_pass_and_one_is_told_when_to_come_back() {
    for algorithm in
        ["token_bucket", "gcra", "fixed_window", "sliding_window_log", "sliding_window_counter"]
    {
        let service = Service::start(&format!("eleven-{algorithm}"), &policy_of(algorithm));
        let (replies, took) = eleven(&service);
        let passed = replies.iter().filter(|reply| reply.status == 200).count() as u128;
        // A slow machine refills a bucket meanwhile, by a token every 200 ms and no sooner.
        let most = if algorithm.contains("window") { 10 } else { 10 + took.as_millis() / 200 };
        assert!((10..=most).contains(&passed), "{algorithm}: {passed} in {took:?}");
        for (nth, reply) in replies.iter().enumerate() {
            assert_eq!(reply.header("x-ratelimit-limit"), Some("10"));
            let remaining: usize = reply.header("x-ratelimit-remaining").unwrap().parse().unwrap();
            assert!(remaining <= 10 - nth.min(10) + 1, "{algorithm}: {remaining} after {nth}");
            let reset: u64 = reply.header("x-ratelimit-reset").unwrap().parse().unwrap();
            assert!(reset > 1_700_000_000, "{reset} is not in Unix seconds");
        }
        if let Some(denied) = replies.iter().find(|reply| reply.status == 429) {
            is_a_good_429(denied);
        }
    }
}

fn is_a_good_429(reply: &Reply) {
    let retry: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!(retry >= 1);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let body = reply.json();
    assert_eq!(body["error"], "rate_limited");
    assert_eq!(body["message"], format!("Try again in {retry}s"));
    assert_eq!(body["status"], 429);
    assert_eq!(body["violated-policies"], serde_json::json!(["global"]));
    assert_eq!(
        (&body["allowed"], &body["limit"], &body["remaining"]),
        (&false.into(), &10.into(), &0.into())
    );
}

#[test]
fn a_client_that_asks_for_a_problem_document_gets_one() {
    let service = Service::start("problem", "rules: { api: { limit: 1/h } }");
    assert_eq!(service.get("/api/resource").status, 200);
    let headers = [("accept", "application/problem+json, application/json;q=0.5")];
    let reply = service.send("GET", "/api/resource", &headers, b"");
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (429, Some("application/problem+json"))
    );
}

#[test]
fn shaped_requests_leave_200_ms_apart() {
    let service = Service::start("shape", &policy_of("leaking_bucket"));
    let started = now();
    let mut answers: Vec<(u16, Duration)> = thread::scope(|scope| {
        let calls: Vec<_> = (0..11)
            .map(|_| scope.spawn(|| (service.get("/api/resource").status, started.elapsed())))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    answers.sort_by_key(|(_, at)| *at);
    let passed: Vec<Duration> =
        answers.iter().filter(|(status, _)| *status == 200).map(|(_, at)| *at).collect();
    assert!(passed.len() >= 10, "{answers:?}");
    // Never sooner than its turn; the first one has none to wait for.
    for (nth, at) in (0u32..).zip(&passed) {
        assert!(*at >= Duration::from_millis(200) * nth, "{passed:?}");
    }
    // Who is over the queue is told at once, not after a wait.
    for (_, at) in answers.iter().filter(|(status, _)| *status == 429) {
        assert!(*at < passed[passed.len() - 1], "{answers:?}");
    }
}

/// The wait used to be left out, so that behind a proxy nothing was shaped.
#[test]
fn a_proxy_hears_of_a_shaped_request_when_its_turn_comes() {
    let service = Service::start("shape-authz", &policy_of("leaking_bucket"));
    let started = now();
    for _ in 0..3 {
        let headers = [("x-forwarded-uri", "/"), ("x-forwarded-method", "GET")];
        assert_eq!(service.send("GET", "/v1/authz", &headers, b"").status, 200);
    }
    assert!(started.elapsed() >= Duration::from_millis(400), "{:?}", started.elapsed());
}

#[test]
fn permits_of_the_demo_route_come_back_with_the_answer() {
    let service = Service::start(
        "permits",
        "rules: { jobs: { concurrency: { max_in_flight: 1, lease: 1h } } }",
    );
    for _ in 0..3 {
        assert_eq!(service.get("/api/resource").status, 200);
    }
    assert_eq!(service.get("/debug/state").json()["keys"], serde_json::json!({}));
}

#[test]
fn every_rule_guards_the_demo_route_and_all_or_nothing_is_charged() {
    let policy = "rules:
  wide: { fixed_window: { max_requests: 100, window_size: 1d } }
  narrow: { fixed_window: { max_requests: 2, window_size: 1d } }
  watching: { shadow: true, fixed_window: { max_requests: 1, window_size: 1d } }
";
    let service = Service::start("every-rule", policy);
    let replies: Vec<u16> = (0..5).map(|_| service.get("/api/resource").status).collect();
    assert_eq!(replies, [200, 200, 429, 429, 429]);
    let rules = &service.get("/debug/state").json()["rules"];
    let count =
        |rule: &str| rules[rule]["keys"][format!("rl:{{global}}:{rule}:fw")]["count"].clone();
    assert_eq!((count("wide"), count("narrow"), count("watching")), (2.into(), 2.into(), 1.into()));
}

#[test]
fn sigterm_lets_requests_under_way_finish_and_ends_with_0() {
    let mut service = Service::start(
        "drain",
        "rules: { q: { leaking_bucket: { queue_capacity: 5, leak_rate: 1 } } }",
    );
    assert_eq!(service.get("/api/resource").status, 200);
    let address = service.address;
    // This one is told to wait a second; the signal comes while it waits.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&request("GET", "/api/resource", &[], b"")).unwrap();
    while service.get("/debug/state").json()["keys"]["rl:{global}:q:lb"]["queue_size"]
        .as_str()
        .is_none_or(|size| size < "1.")
    {
        // Until the second one has been admitted.
    }
    let killed = Command::new("kill").args(["-TERM", &service.pid().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(read_reply(&mut BufReader::new(stream)).status, 200);
    assert_eq!(service.wait().code(), Some(0));
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn a_connection_that_never_finishes_its_request_is_closed() {
    let service = Service::start("slow", "rules: { api: { limit: 5/s } }");
    let mut slow: Vec<TcpStream> = ["", "GET /h", "GET /healthz HTTP/1.1\r\nhost: x\r\n"]
        .iter()
        .map(|begun| {
            let mut stream = TcpStream::connect(service.address).unwrap();
            stream.write_all(begun.as_bytes()).unwrap();
            stream
        })
        .collect();
    // One that had its answer and then says nothing more.
    let mut idle = TcpStream::connect(service.address).unwrap();
    idle.write_all(&request("GET", "/healthz", &[], b"")).unwrap();
    assert_eq!(read_reply(&mut BufReader::new(idle.try_clone().unwrap())).status, 200);
    slow.push(idle);
    for mut stream in slow {
        // Reads until the service closes.
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn what_prevents_serving_is_told_with_exit_code_2() {
    let folder = Folder::new("serve-errors");
    let missing = run(&["serve", "-c", "nowhere.yaml"], &folder);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("cannot read nowhere.yaml"), "{missing:?}");
    folder.write("broken.yaml", "rules: { api: { limt: 5/s } }");
    let broken = run(&["serve", "-c", "broken.yaml"], &folder);
    assert_eq!(broken.status.code(), Some(2));
    assert!(text(&broken.stderr).contains("did you mean `limit`?"), "{broken:?}");
    // As a system does that counts what is asked for as if it were used.
    folder.write("large.yaml", "store: { max_keys: 1000000000 }\nrules: { api: { limit: 5/s } }");
    let serve = "ulimit -v 8000000; exec \"$0\" serve -c large.yaml --listen 127.0.0.1:0";
    let mut large = Command::new("sh");
    large.args(["-c", serve, env!("CARGO_BIN_EXE_tollkeeper")]).current_dir(&folder.path);
    let large = large.output().unwrap();
    assert_eq!(large.status.code(), Some(2));
    let told = "`store.max_keys` is 1000000000, a table that the system has not the memory for";
    assert!(text(&large.stderr).contains(told), "{large:?}");
    let service = Service::start("taken", "rules: { api: { limit: 5/s } }");
    let taken = run(&["serve", "--listen", &service.address.to_string()], &folder);
    assert_eq!(taken.status.code(), Some(2));
    assert!(text(&taken.stderr).contains("cannot listen on 127.0.0.1"), "{taken:?}");
}
