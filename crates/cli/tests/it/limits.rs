//! `limits`: every limit in a table, or as JSON.

use serde_json::{Value, json};

use crate::kit::{Folder, POLICY, run, text};

const GROWN: &str = r#"
store: { url: "redis://127.0.0.1:6379", on_failure: closed }
client_ip: { trusted_proxies: [10.0.0.0/8] }
rules:
  per-ip:
    key: ip
    limit: 1000/min
    exempt: { ips: [10.0.0.0/8, 192.0.2.1] }
  per-key:
    match: { path: "/api/**", methods: [GET, POST], host: "*.example.com", headers: { x-env: "${SECRET}" } }
    key: [header:x-api-key, route]
    when_missing: deny
    limits: [20/s, 5000/day]
    cost: { header: x-cost, min: 1, max: 100, default: 1 }
    tiers: { by: attribute:plan, limits: { pro: [200/s, 100000/day] } }
  expensive:
    match: { path: /search }
    shadow: true
    on_failure: open
    cost: 5
    algorithm: leaking_bucket
    leaking_bucket: { queue_capacity: 50, leak_rate: 10/s, mode: shape, max_delay: 2s }
"#;

fn grown(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("tollkeeper.yaml", GROWN.replace("${SECRET}", "hunter2"));
    folder
}

#[test]
fn every_limit_is_in_the_table_at_100_columns() {
    let output = run(&["limits"], &grown("limits"));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let told = text(&output.stdout);
    assert!(told.lines().all(|line| line.chars().count() <= 100), "{told}");
    assert!(!told.contains('\u{1b}') && !told.contains(['│', '|', '+']), "{told}");
    let head: Vec<&str> = told.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["rule", "tier", "limit", "key", "match", "cost", "failure", "shadow"]);
    // A limit begins a line with its name.
    let names: Vec<&str> = told
        .lines()
        .skip(1)
        .filter_map(|line| line.split("  ").next())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(
        names,
        ["per-ip", "per-key/1s", "per-key/1d", "per-key/1s", "per-key/1d", "expensive"]
    );
    for word in ["pro", "closed", "open", "shadow", "leaking_bucket", "x-cost", "(else"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn a_small_file_is_a_small_table() {
    let folder = Folder::new("limits-small");
    let window = "{ algorithm: fixed_window, limit: 10/min }";
    let rules = format!(
        "api: {{ key: ip, limit: 100/min }}, all: {{ limit: 5/s burst 20 }}, win: {window}"
    );
    folder.write("p.yaml", format!("rules: {{ {rules} }}"));
    let table = "\
rule  limit                       key          match
api   100/min, token_bucket       ip           every request
all   5/s burst 20, token_bucket  one for all  every request
win   10 per 1m, fixed_window     one for all  every request
";
    for args in [&["limits", "p.yaml"][..], &["limits", "-c", "p.yaml"]] {
        let output = run(args, &folder);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), table));
    }
}

#[test]
fn the_same_as_json() {
    let output = run(&["limits", "--json"], &grown("limits-json"));
    assert_eq!(output.status.code(), Some(0));
    let limits: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |field: &str| limits.iter().map(|limit| limit[field].clone()).collect::<Vec<_>>();
    assert_eq!(
        of("tier"),
        [json!(null), json!(null), json!(null), json!("pro"), json!("pro"), json!(null)]
    );
    assert_eq!(of("most"), [1000, 20, 5000, 200, 100_000, 50].map(Value::from));
    assert_eq!(of("shadow"), [false, false, false, false, false, true].map(Value::from));
    assert_eq!(
        (&limits[0]["on_failure"], &limits[5]["on_failure"]),
        (&json!("closed"), &json!("open"))
    );
    assert_eq!(limits[1]["rule"], "per-key");
    assert_eq!(limits[1]["limit"], "per-key/1s");
    assert_eq!(limits[1]["key"], json!(["header:x-api-key", "route"]));
    assert_eq!(
        limits[1]["match"],
        json!({ "path": ["/api/**"], "methods": ["GET", "POST"], "host": ["*.example.com"], "headers": ["x-env"] })
    );
    assert_eq!(
        limits[1]["cost"],
        json!({ "from": "header:x-cost", "min": 1, "max": 100, "default": 1 })
    );
    assert_eq!(limits[0]["exempt"], json!({ "ips": 2, "keys": 0 }));
    assert!(!text(&output.stdout).contains("hunter2"));
}

#[test]
fn who_decides_is_told_where_it_is_not_the_store_each_time() {
    let folder = Folder::new("limits-decided");
    let rules = "
rules:
  exact: { key: ip, limit: 1000/s }
  hot:   { key: ip, limit: 1000/s, consistency: lease }
  told:  { key: ip, limit: 1000/s, consistency: sync, sub_shards: 16 }
  parts: { key: ip, limit: 1000/s, consistency: share, shadow: true }
";
    let ways = ["exact", "lease, 50ms", "sync, 100ms, 16 sub-shards", "share of 4"];
    folder
        .write("p.yaml", format!("store: {{ url: \"redis://127.0.0.1:6379\", nodes: 4 }}{rules}"));
    let told = text(&run(&["limits", "p.yaml"], &folder).stdout);
    let head: Vec<&str> = told.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["rule", "limit", "key", "match", "consistency", "failure", "shadow"]);
    assert_eq!(told.matches("exact").count(), 1, "a name: {told}");
    let explained = text(&run(&["explain", "--ip", "::1", "p.yaml"], &folder).stdout);
    let validated = text(&run(&["validate", "p.yaml"], &folder).stdout);
    for told in [&told, &explained, &validated] {
        assert!(ways[1..].iter().all(|way| told.contains(way)), "{told}");
    }
    assert!(validated.contains("share of 4, shadow"), "{validated}");

    let json =
        |args: &[&str]| -> Value { serde_json::from_slice(&run(args, &folder).stdout).unwrap() };
    let of = |told: &Value, at: &str| -> Vec<String> {
        let each = told.as_array().unwrap().iter().map(|rule| rule.pointer(at).unwrap());
        each.map(|way| way.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of(&json(&["limits", "--json", "p.yaml"]), "/consistency"), ways);
    let explained = json(&["explain", "--ip", "::1", "--json", "p.yaml"]);
    assert_eq!(of(&explained, "/limits/0/consistency"), ways);
    let validated = json(&["validate", "--json", "p.yaml"]);
    assert_eq!(of(&validated["rules"], "/limits/0/consistency"), ways);

    // A table of this process is asked each time, and processes that are not named are counted.
    folder.write("memory.yaml", rules);
    let told = json(&["limits", "--json", "memory.yaml"]);
    assert_eq!(of(&told, "/consistency"), ["exact"; 4]);
    folder.write("counted.yaml", format!("store: {{ url: \"redis://127.0.0.1:6379\" }}{rules}"));
    let told = text(&run(&["limits", "counted.yaml"], &folder).stdout);
    assert!(told.contains("share, counted"), "{told}");
}

#[test]
fn what_prevents_an_answer_is_exit_code_2() {
    let folder = Folder::new("limits-bad");
    assert_eq!(run(&["limits"], &folder).status.code(), Some(2), "no file");
    folder.write("bad.yaml", POLICY.replace("refill_rate", "refil_rate"));
    let output = run(&["limits", "bad.yaml"], &folder);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(text(&output.stderr).contains("did you mean `refill_rate`?"));
    for args in [
        &["limits", "a.yaml", "b.yaml"][..],
        &["limits", "a.yaml", "-c", "b.yaml"],
        &["limits", "--jsn"],
    ] {
        assert_eq!(run(args, &folder).status.code(), Some(2), "{args:?}");
    }
    let help = text(&run(&["limits", "--help"], &folder).stdout);
    assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
}
