//! The commands on a real server.

use serde_json::Value;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{Folder, Service, policy_of, run, text};

/// So long that only a server that never answers misses it.
fn policy(server: &RedisServer, algorithm: &str) -> String {
    let rules = policy_of(algorithm);
    format!("store: {{ url: \"{}\", timeout: 5s }}\n{rules}", server.url())
}

#[test]
fn two_services_share_one_limit() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let rules = "rules: { api: { limit: 10/day } }";
    let policy = format!("store: {{ url: \"{}\", timeout: 5s }}\n{rules}", server.url());
    let services = [Service::start("one", &policy), Service::start("other", &policy)];
    let admitted = (0..30)
        .map(|nth| services[nth % 2].post("/v1/check", r#"{"rule":"api","key":"alice"}"#))
        .filter(|reply| {
            let allowed = reply.status == 200;
            // A denial may be told again without asking, an admission never.
            let source = reply.json()["source"].clone();
            assert!(source == "store" || source == "denied_cache" && !allowed, "{source}");
            allowed
        })
        .count();
    assert_eq!(admitted, 10);
    assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
}

#[test]
fn a_denial_that_is_told_again_is_counted_as_such() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let store = format!("store: {{ url: \"{}\", timeout: 5s, denied_cache: 10s }}", server.url());
    let service =
        Service::start("again", &format!("{store}\nrules: {{ api: {{ limit: 1/day }} }}"));
    let sources = ["alice", "alice", "alice", "alice", "bob", "bob"].map(|key| {
        let body = format!(r#"{{"rule":"api","key":"{key}"}}"#);
        service.post("/v1/check", &body).json()["source"].as_str().unwrap().to_owned()
    });
    let (store, again) = ("store", "denied_cache");
    assert_eq!(sources, [store, store, again, again, store, store]);
    let metrics = service.get("/metrics").body;
    for (result, source, count) in
        [("allowed", store, 2), ("denied", store, 2), ("denied", again, 2)]
    {
        let labels = format!(r#"rule="api",result="{result}",source="{source}""#);
        let line = format!("tollkeeper_decisions_total{{{labels}}} {count}\n");
        assert!(metrics.contains(&line), "{line}is not in {metrics}");
    }
    assert!(metrics.contains("\ntollkeeper_denied_cache_entries 2\n"), "{metrics}");
}

#[test]
fn states_are_shown_decoded_and_raw_and_forgotten_for_every_algorithm() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let fields =
        |state: &Value| -> Vec<String> { state.as_object().unwrap().keys().cloned().collect() };
    for (algorithm, suffix) in [
        ("token_bucket", "tb"),
        ("gcra", "gcra"),
        ("leaking_bucket", "lb"),
        ("fixed_window", "fw"),
        ("sliding_window_log", "swl"),
        ("sliding_window_counter", "swc"),
        ("concurrency", "cc"),
    ] {
        let shared = Service::start(&format!("state-{algorithm}"), &policy(&server, algorithm));
        let embedded = Service::start(&format!("own-{algorithm}"), &policy_of(algorithm));
        let body = r#"{"rule":"global","key":"alice"}"#;
        let states = [&shared, &embedded].map(|service| {
            assert_eq!(service.post("/v1/check", body).status, 200, "{algorithm}");
            service.get("/debug/state?rule=global&key=alice").json()
        });
        assert_eq!((&states[0]["store"], &states[1]["store"]), (&"redis".into(), &"memory".into()));
        let name = format!("rl:{{alice}}:{suffix}");
        let [on_server, in_memory] = states.map(|state| state["keys"][&name].clone());
        assert_eq!(fields(&on_server), fields(&in_memory), "{algorithm}");
        assert_eq!(fields(&on_server["raw"]), fields(&in_memory["raw"]), "{algorithm}");
        assert!(on_server["ttl_ms"].as_u64().unwrap() > 0, "{algorithm}: {on_server}");
        let reset = shared.post("/debug/reset?rule=global&key=alice", "");
        assert_eq!(reset.json()["reset"], 1, "{algorithm}");
        let left = server.command(&["EXISTS", &name]).unwrap();
        assert_eq!(left.to_string(), "0", "{algorithm}");
    }
}

#[test]
fn check_decides_in_a_store_and_says_why_it_cannot() {
    let folder = Folder::new("check-store");
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let check = |store: &str| {
        run(&["check", "--key", "alice", "--limit", "1/day", "--store", store], &folder)
    };
    assert_eq!(check(&server.url()).status.code(), Some(0));
    let denied = check(&server.url());
    assert_eq!(denied.status.code(), Some(1), "{}", text(&denied.stdout));
    for (store, said) in [
        ("redis://127.0.0.1:1", "cannot use 127.0.0.1:1"),
        ("redis://no-such-host.invalid", "cannot use no-such-host.invalid:6379"),
        ("reddis://localhost", "did you mean `redis://`?"),
        ("redis://localhost:99999", "port"),
    ] {
        let failed = check(store);
        assert_eq!(failed.status.code(), Some(2), "{store}");
        let error = text(&failed.stderr);
        assert!(error.contains(said), "{store}: {error}");
    }
}

#[test]
fn a_service_takes_another_store_from_the_command_line() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let service =
        Service::start_with("store-flag", &policy_of("gcra"), &["--store", &server.url()]);
    let body = r#"{"rule":"global","key":"alice"}"#;
    assert_eq!(service.post("/v1/check", body).status, 200);
    assert_eq!(service.get("/debug/state").json()["store"], "redis");
}
