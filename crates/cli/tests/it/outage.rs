//! The service when its server is gone, wrong, or not there yet: it goes on, and says so.

use std::time::Instant;

use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};

use crate::kit::{PATIENCE, Reply, Service};

const RULES: &str = "
rules:
  usual: { limit: 5/day }
  lenient: { limit: 5/day, on_failure: open }
  strict: { limit: 5/day, on_failure: closed }
";

fn policy(url: &str) -> String {
    format!("store: {{ url: \"{url}\" }}{RULES}")
}

fn check(service: &Service, rule: &str) -> Reply {
    service.post("/v1/check", &format!(r#"{{"rule":"{rule}","key":"alice"}}"#))
}

/// Asks until an answer is as it should be.
#[expect(clippy::disallowed_methods, reason = "a real service is waited for, with a bound")]
fn ask_until(ask: impl Fn() -> Reply, holds: impl Fn(&Reply) -> bool) -> Reply {
    let begun = Instant::now();
    loop {
        let reply = ask();
        if holds(&reply) {
            return reply;
        }
        assert!(begun.elapsed() < PATIENCE, "{reply:?}");
    }
}

fn metric(service: &Service, name: &str) -> f64 {
    let text = service.get("/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
}

fn from(source: &'static str) -> impl Fn(&Reply) -> bool {
    move |reply| reply.json()["source"] == source
}

#[test]
fn an_outage_from_its_beginning_to_its_end() {
    let mut server = RedisServer::start("redis-server", &[]).unwrap();
    let service = Service::start("outage", &policy(&server.url()));
    ask_until(|| check(&service, "usual"), from("store"));
    assert_eq!(service.get("/readyz").json()["store"], "up");
    let breaker = format!("tollkeeper_breaker_state{{shard=\"127.0.0.1:{}\"}}", server.port());
    assert!(metric(&service, &breaker) < 0.5);

    server.kill();
    ask_until(|| check(&service, "usual"), from("fallback"));
    let strict = ask_until(|| check(&service, "strict"), from("fallback"));
    assert_eq!((strict.status, strict.header("retry-after")), (503, Some("1")));
    assert_eq!(strict.header("cache-control"), Some("no-store"));
    let body = strict.json();
    assert_eq!((&body["allowed"], &body["rule"]), (&false.into(), &"strict".into()));
    let lenient = ask_until(|| check(&service, "lenient"), from("fallback"));
    assert_eq!((lenient.status, lenient.json()["allowed"].as_bool()), (200, Some(true)));
    // Of a limit of five, at least one was used in the store, and at most four are left here.
    let admitted = (0..20).filter(|_| check(&service, "usual").status == 200).count();
    assert!(admitted <= 4, "{admitted}");

    // A rule fails closed, so not everything can be decided.
    let ready = service.get("/readyz");
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &false.into()));
    assert_eq!(ready.json()["closed_rules"][0], "strict");
    assert_eq!(service.get("/healthz").status, 200);
    assert!(metric(&service, &breaker) > 1.5);
    assert!(metric(&service, "tollkeeper_store_down_seconds") > 0.0);
    for name in ["fail_open_total{rule=\"lenient\"}", "fail_closed_total{rule=\"strict\"}"] {
        assert!(metric(&service, &format!("tollkeeper_{name}")) > 0.5, "{name}");
    }
    assert!(metric(&service, "tollkeeper_fail_static_total{rule=\"usual\"}") >= 20.0);

    server.restart().unwrap();
    ask_until(|| check(&service, "usual"), from("store"));
    ask_until(|| service.get("/metrics"), |reply| reply.body.contains(&format!("{breaker} 0\n")));
    let ready = ask_until(|| service.get("/readyz"), |reply| reply.status == 200);
    assert_eq!(ready.json()["down_ms"], 0);
    let log = service.log();
    let said = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!((said("the store is down"), said("the store is back")), (1, 1), "{log}");
    assert!(log.contains("down_seconds="), "{log}");
}

/// What a server still answers does not make it well: it takes no writes, or says nothing at all.
#[test]
fn a_server_that_is_full_or_read_only_or_frozen_is_not_ready() {
    type Act = fn(&RedisServer);
    let sicknesses: [(&str, Act, Act); 3] = [
        (
            "OOM",
            |server| _ = server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap(),
            |server| _ = server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap(),
        ),
        (
            "READONLY",
            |server| _ = server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap(),
            |server| _ = server.command(&["REPLICAOF", "NO", "ONE"]).unwrap(),
        ),
        ("no answer within 20ms", |server| server.stop().unwrap(), |server| server.cont().unwrap()),
    ];
    for (nth, (reason, begin, end)) in sicknesses.into_iter().enumerate() {
        let server = RedisServer::start("redis-server", &[]).unwrap();
        let service = Service::start(&format!("sick-{nth}"), &policy(&server.url()));
        for rule in ["usual", "lenient", "strict"] {
            ask_until(|| check(&service, rule), from("store"));
        }
        assert_eq!(service.get("/readyz").status, 200);

        begin(&server);
        let ready = ask_until(|| service.get("/readyz"), |reply| reply.status == 503);
        assert_eq!(ready.json()["closed_rules"][0], "strict", "{reason}");
        for (rule, told) in [("usual", 200), ("lenient", 200), ("strict", 503)] {
            let reply = ask_until(|| check(&service, rule), from("fallback"));
            assert_eq!(reply.status, told, "{reason}: {rule}");
        }
        for counted in [
            "static_total{rule=\"usual\"}",
            "open_total{rule=\"lenient\"}",
            "closed_total{rule=\"strict\"}",
        ] {
            assert!(metric(&service, &format!("tollkeeper_fail_{counted}")) > 0.5, "{reason}");
        }
        // Looks do not take it for well: it takes writes that fail to know that it is down.
        ask_until(|| check(&service, "lenient"), |_| service.log().contains("the store is down"));
        assert!(service.log().contains(reason), "{}", service.log());

        end(&server);
        ask_until(|| service.get("/readyz"), |reply| reply.status == 200);
        ask_until(|| check(&service, "usual"), from("store"));
        let down_seconds = || metric(&service, "tollkeeper_store_down_seconds");
        ask_until(|| service.get("/readyz"), |_| down_seconds() == 0.0);
    }
}

#[test]
fn a_service_starts_without_its_server_and_finds_it_later() {
    let mut server = RedisServer::start("redis-server", &[]).unwrap();
    server.kill();
    let service = Service::start("later", &policy(&server.url()));
    let log = service.log();
    assert!(log.contains(" WARN the store cannot be used yet"), "{log}");
    assert!(log.contains("cannot use 127.0.0.1:") && log.contains("on_failure=static"), "{log}");
    let first = check(&service, "usual");
    assert_eq!((first.status, &first.json()["source"]), (200, &"fallback".into()));
    server.restart().unwrap();
    ask_until(|| check(&service, "usual"), from("store"));
}

#[test]
fn a_wrong_password_is_told_and_never_shown() {
    let server = Launch::new("redis-server").password("right").start().unwrap();
    let url = server.url_as("", "hunter2");
    let service = Service::start("password", &policy(&url));
    let log = service.log();
    assert!(log.contains("WRONGPASS") && log.contains("store.url"), "{log}");
    assert_eq!(check(&service, "usual").json()["source"], "fallback");
    let everything = [service.log(), service.get("/metrics").body, service.get("/readyz").body];
    assert!(everything.iter().all(|text| !text.contains("hunter2")), "{everything:?}");
}

#[test]
fn a_node_of_a_cluster_is_refused_by_name() {
    let server = Launch::new("redis-server").cluster().unwrap().start().unwrap();
    let service = Service::start("cluster", &policy(&server.url()));
    assert!(service.log().contains("write redis+cluster://HOST:PORT"), "{}", service.log());
    assert_answers_by_policy(&service);
}

#[test]
fn a_server_that_is_too_old_is_refused_by_its_version() {
    let server = RedisServer::start(peers::too_old_redis().unwrap(), &[]).unwrap();
    let service = Service::start("old", &policy(&server.url()));
    let log = service.log();
    let told = "the server is Redis 5.0.6; expected Redis 6.2 or newer, or Valkey";
    assert!(log.contains(" WARN the store cannot be used yet") && log.contains(told), "{log}");
    assert_answers_by_policy(&service);
    // Nothing was written there, by any of that.
    assert_eq!(server.command(&["DBSIZE"]).unwrap().integer(), Some(0));
}

/// A server that is refused is one that gives no answer: each rule does as it says.
fn assert_answers_by_policy(service: &Service) {
    let told = |rule| {
        let told = (0..7).map(|_| check(service, rule)).inspect(|reply| {
            assert_eq!(reply.json()["source"], "fallback", "{rule}: {reply:?}");
        });
        told.map(|reply| reply.status).collect::<Vec<u16>>()
    };
    assert_eq!(told("usual"), [200, 200, 200, 200, 200, 429, 429]);
    assert_eq!(told("lenient"), [200; 7]);
    assert_eq!(told("strict"), [503; 7]);
}

#[test]
fn a_key_that_is_not_ours_is_told_and_harms_no_other() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    server.holds_others();
    let service = Service::start("stranger", &policy(&server.url()));
    ask_until(|| check(&service, "lenient"), from("store"));
    server.command(&["SET", "rl:{alice}:usual:tb", "not ours"]).unwrap();
    for _ in 0..20 {
        assert_eq!(check(&service, "usual").json()["source"], "fallback");
    }
    assert_eq!(check(&service, "lenient").json()["source"], "store");
    assert!(metric(&service, "tollkeeper_unusable_states_total") >= 20.0);
    // Each limit is told of once, and no key by its name.
    server.command(&["SET", "rl:{alice}:strict:tb", "not ours"]).unwrap();
    (0..5).for_each(|_| assert_eq!(check(&service, "strict").status, 503));
    let log = service.log();
    assert_eq!(log.matches("WRONGTYPE").count(), 2, "{log}");
    assert!(log.contains("store.prefix"), "{log}");
    assert!(log.contains("`usual`") && log.contains("`strict`") && !log.contains("alice"), "{log}");
    assert_eq!(server.command(&["GET", "rl:{alice}:usual:tb"]).unwrap().to_string(), "not ours");
}
