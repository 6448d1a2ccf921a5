//! What `/metrics` tells of limits that a service decides by leave of its server.

use tollkeeper_testkit::moment::until;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{PATIENCE, Service};

const RULES: &str = "
rules:
  hot:    { limit: 1000000/day, algorithm: fixed_window, consistency: lease }
  told:   { limit: 1000/min, consistency: sync, period: 1s }
  shared: { limit: 1000/min, consistency: share }
";

fn metric(service: &Service, name: &str) -> Option<u64> {
    let text = service.get("/metrics").body;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn keys(service: &Service, consistency: &str) -> Option<u64> {
    metric(service, &format!("tollkeeper_local_keys{{consistency=\"{consistency}\"}}"))
}

fn made(service: &Service, kind: &str) -> u64 {
    metric(service, &format!("tollkeeper_local_calls_total{{kind=\"{kind}\"}}")).unwrap()
}

fn failed(service: &Service, kind: &str) -> u64 {
    metric(service, &format!("tollkeeper_local_failed_calls_total{{kind=\"{kind}\"}}")).unwrap()
}

fn wait(what: &str, holds: impl Fn() -> bool) {
    assert!(until(PATIENCE, || holds().then_some(())).is_some(), "it is not so: {what}");
}

fn ask(service: &Service, rule: &str, times: usize) {
    for _ in 0..times {
        let body = format!(r#"{{"rule":"{rule}","key":"secret-key"}}"#);
        assert_eq!(service.post("/v1/check", &body).json()["rule"], rule);
    }
}

#[test]
fn how_local_decisions_do_is_told_without_a_key() {
    let mut server = RedisServer::start("redis-server", &[]).unwrap();
    let policy = format!("store: {{ url: \"{}\", timeout: 2s }}{RULES}", server.url());
    let [one, other] = ["one", "other"].map(|name| Service::start(name, &policy));
    ask(&one, "hot", 40);
    ask(&one, "told", 40);
    assert_eq!((keys(&one, "lease"), keys(&one, "sync")), (Some(1), Some(1)));
    assert_eq!((keys(&other, "lease"), keys(&other, "sync")), (Some(0), Some(0)));
    assert!(made(&one, "draw") >= 2, "one for each");
    wait("what was admitted is told", || made(&one, "report") > 0);
    // What was just drawn lives for so long that it is found when nobody comes.
    let drawn = made(&one, "draw");
    wait("more is drawn", || {
        ask(&one, "hot", 1);
        made(&one, "draw") > drawn
    });
    wait("units that nobody wants are given back", || made(&one, "give_back") > 0);
    wait("nobody is busy any more", || keys(&one, "lease") == Some(0));
    wait("both are counted", || metric(&one, "tollkeeper_nodes") == Some(2));
    for kind in ["draw", "report", "give_back", "count"] {
        assert_eq!(failed(&one, kind), 0, "{kind}");
    }
    wait("it has a part", || {
        ask(&one, "shared", 1);
        keys(&one, "share") == Some(1)
    });

    server.kill();
    wait("counting fails", || failed(&one, "count") > 0);
    wait("drawing fails", || {
        ask(&one, "hot", 10);
        failed(&one, "draw") > 0
    });
    assert!(failed(&one, "draw") <= made(&one, "draw"));
    assert!(!one.get("/metrics").body.contains("secret-key"));
}

#[test]
fn who_decides_everything_here_has_no_leave_to_tell_of() {
    let service = Service::start("alone", RULES);
    ask(&service, "hot", 10);
    let text = service.get("/metrics").body;
    assert!(!text.contains("tollkeeper_local_") && !text.contains("tollkeeper_nodes"), "{text}");
}
