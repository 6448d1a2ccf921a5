//! What one service reserves and another one settles, of limits that services decide by themselves; and
//! what they say of what is left.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::moment::until;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{Folder, PATIENCE, Service, run, text, tollkeeper};

/// How long a node of a cluster may be silent.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

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

/// What a bucket has, as the service shows it.
fn tokens(state: &Value) -> f64 {
    state["tokens"].as_str().unwrap().parse().unwrap()
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
    let keys: Vec<&Value> = states["keys"].as_object().unwrap().values().collect();
    assert!(keys.len() == 1 && tokens(keys[0]) <= 0.0, "{states}");
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
    let keys = states["keys"].as_object().unwrap();
    assert!(!keys.is_empty() && keys.keys().all(|key| key.contains("k#")), "{keys:?}");
    // Each has a quarter of the limit.
    assert!(keys.values().all(|state| tokens(state) <= 250.0), "{keys:?}");
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

/// A key that is split and another limit of the request lie in different slots of a cluster, which
/// refuses what is of several.
#[test]
fn on_a_cluster_a_split_key_and_another_limit_are_reserved_together() {
    let cluster = Cluster::start("redis-server", NODE_TIMEOUT).unwrap();
    let policy = format!(
        "store: {{ url: \"{}\", timeout: 5s, on_failure: closed }}
rules:
  split: {{ key: ip, limit: 1000/day, consistency: sync, sub_shards: 4 }}
  few:   {{ key: ip, limit: 3/day }}
",
        cluster.url(),
    );
    let service = Service::start("split-cluster", &policy);
    let body = json!({ "attributes": { "ip": "192.0.2.7" } });
    // A cluster takes a moment to be whole.
    let reserve = || post(&service, "/v1/reserve", &body);
    let first = until(PATIENCE, || {
        let answer = reserve();
        (answer["source"] != "fallback").then_some(answer)
    });
    let answers = [first.unwrap(), reserve(), reserve(), reserve(), reserve()];
    // What the store denied is told again.
    let sources = ["store", "store", "store", "store", "denied_cache"];
    for ((nth, answer), source) in answers.iter().enumerate().zip(sources) {
        assert_eq!((&answer["allowed"], &answer["source"]), (&json!(nth < 3), &json!(source)));
    }
    assert!(answers[3..].iter().all(|answer| answer["rule"] == "few"));
    for answer in &answers[..3] {
        let cancel = json!({ "reservation": answer["reservation"] });
        assert_eq!(post(&service, "/v1/cancel", &cancel)["result"], "done");
    }
    // What was denied was given back to the part, and what was cancelled as well. A state that is as
    // good as new may last for some milliseconds.
    let states = service.get("/debug/state?rule=split&key=192.0.2.7").json();
    for (key, state) in states["keys"].as_object().unwrap() {
        assert!((249.9..=250.0).contains(&tokens(state)), "{key}: {state}");
    }
}

#[test]
fn a_service_says_at_its_start_what_it_decides_itself() {
    let folder = Folder::new("says-here");
    let store = "store: { url: \"redis://127.0.0.1:1\", nodes: 2 }";
    folder.write("tollkeeper.yaml", format!("{store}{POLICY}"));
    let said = |args: &[&str]| {
        let mut child = tollkeeper();
        child.args(["serve", "--listen", "127.0.0.1:0"]).args(args).current_dir(&folder.path);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let lines: Vec<String> = lines.take_while(|line| !line.starts_with("  stop ")).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        lines.into_iter().find(|line| line.trim_start().starts_with("here "))
    };
    let here = "  here   this process decides shared (share of 2), split (sync, 100ms, 4 sub-shards), \
                leased (lease, 1200ms)";
    assert_eq!(said(&[]).as_deref(), Some(here));
    folder.write("memory.yaml", POLICY);
    assert_eq!(said(&["-c", "memory.yaml"]), None);
}
