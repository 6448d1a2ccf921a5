//! What one service reserves and another one settles, of limits that services decide by themselves; and
//! what they say of what is left.

use serde_json::{Value, json};
use tollkeeper_testkit::moment::until;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{PATIENCE, Service, run, text};

/// Two have twenty each of what is shared, and five a second flow in.
const POLICY: &str = "
rules:
  shared: { limit: 10/s burst 40, consistency: share }
  split:  { limit: 1000/day, consistency: sync, sub_shards: 4 }
  leased: { limit: 1000/min, consistency: lease }
  exact:  { limit: 1000/day }
";

fn services(server: &RedisServer, name: &str) -> [Service; 2] {
    let store = format!("store: {{ url: \"{}\", nodes: 2, timeout: 5s }}", server.url());
    let policy = format!("{store}{POLICY}");
    ["one", "other"].map(|which| Service::start(&format!("{name}-{which}"), &policy))
}

fn post(service: &Service, path: &str, body: &Value) -> Value {
    service.post(path, &body.to_string()).json()
}

fn reserve(service: &Service, rule: &str, cost: u64) -> Value {
    let reserved = post(service, "/v1/reserve", &json!({ "rule": rule, "key": "k", "cost": cost }));
    assert_eq!(reserved["allowed"], true, "{reserved}");
    reserved
}

fn check(service: &Service, rule: &str, cost: u64) -> Value {
    post(service, "/v1/check", &json!({ "rule": rule, "key": "k", "cost": cost }))
}

fn left(service: &Service, rule: &str) -> u64 {
    let look = check(service, rule, 0);
    look["remaining"].as_u64().unwrap_or_else(|| panic!("{look}"))
}

#[test]
fn what_one_service_reserves_of_its_part_the_other_settles() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let services = services(&server, "share");
    // They begin with nothing.
    for service in &services {
        until(PATIENCE, || (left(service, "shared") == 20).then_some(())).unwrap();
    }
    let [one, other] = &services;
    let reserved = reserve(one, "shared", 20);
    assert_eq!((&reserved["source"], &reserved["at_least"]), (&json!("share"), &json!(true)));
    assert_eq!(check(other, "shared", 20)["allowed"], true);
    let cancel = json!({ "reservation": reserved["reservation"] });
    assert_eq!(post(other, "/v1/cancel", &cancel)["result"], "done");
    // But for what has flown in since at the one.
    assert!(left(other, "shared") >= 10, "{}", left(other, "shared"));
    assert_eq!(post(one, "/v1/cancel", &cancel)["result"], "repeated");
    // What is used on top is charged where it is told.
    for service in &services {
        until(PATIENCE, || (left(service, "shared") == 20).then_some(())).unwrap();
    }
    let reserved = reserve(one, "shared", 1);
    let settle = json!({ "reservation": reserved["reservation"], "actual": 41 });
    let settled = post(other, "/v1/settle", &settle);
    // As much again as it has is what it can owe.
    assert_eq!(
        (&settled["result"], &settled["forgiven"]),
        (&json!("done"), &json!(0)),
        "{settled}"
    );
    assert_eq!(check(other, "shared", 1)["allowed"], false);
    // Of the key, both are shown, and both forget it.
    let states = other.get("/debug/state?rule=shared&key=k").json();
    assert_eq!(states["keys"].as_object().unwrap().len(), 1, "{states}");
    assert_eq!(other.post("/debug/reset?rule=shared&key=k", "").status, 200);
    let states = other.get("/debug/state?rule=shared&key=k").json();
    assert_eq!(states["keys"], json!({}), "{states}");
    assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
}

#[test]
fn what_one_service_reserves_of_a_part_of_a_key_the_other_settles() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let [one, other] = services(&server, "split");
    for nth in 0..8 {
        let reserved = reserve(&one, "split", 200 - 25 * nth);
        let settle = json!({ "reservation": reserved["reservation"], "actual": nth % 2 });
        assert_eq!(post(&other, "/v1/settle", &settle)["result"], "done");
        assert_eq!(post(&one, "/v1/settle", &settle)["result"], "repeated");
    }
    let states = other.get("/debug/state?rule=split&key=k").json();
    let keys: Vec<&String> = states["keys"].as_object().unwrap().keys().collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.contains("k#")), "{keys:?}");
}

#[test]
fn who_decides_by_itself_says_that_at_least_so_much_is_left() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let [one, other] = services(&server, "bound");
    let is_leased = |answer: &Value| answer["source"] == "lease";
    let answers: Vec<Value> = (0..40).map(|_| check(&one, "leased", 1)).collect();
    assert!(answers.iter().any(is_leased), "{answers:?}");
    for answer in &answers {
        let is_bound = is_leased(answer).then_some(json!(true));
        assert_eq!(answer.get("at_least"), is_bound.as_ref(), "{answer}");
        assert_eq!(answer["limits"][0].get("at_least"), is_bound.as_ref(), "{answer}");
    }
    assert_eq!(check(&one, "exact", 1).get("at_least"), None);
    until(PATIENCE, || (left(&other, "shared") == 20).then_some(())).unwrap();
    for (rule, told) in [("shared", "allowed: at least "), ("exact", "allowed: 9")] {
        let url = format!("http://{}", other.address);
        let args = ["check", "--url", &url, "--rule", rule, "--key", "k"];
        let output = run(&args, &other.folder);
        assert!(text(&output.stdout).starts_with(told), "{output:?}");
    }
}
