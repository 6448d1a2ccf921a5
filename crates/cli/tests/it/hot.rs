//! `/debug/hot` of a running service: who is asked for most comes first, and is shown to operators
//! alone.

use serde_json::{Value, json};

use crate::kit::Service;

const POLICY: &str = "rules: { api: { limit: 10/h }, other: { match: { path: /o }, limit: 9/h } }";

fn ask(service: &Service, rule: &str, key: &str, times: usize) {
    let body = json!({ "rule": rule, "key": key }).to_string();
    for _ in 0..times {
        service.post("/v1/check", &body);
    }
}

fn names(shown: &Value) -> Vec<(&str, &str)> {
    let keys = shown["keys"].as_array().unwrap().iter();
    keys.map(|hot| (hot["rule"].as_str().unwrap(), hot["key"].as_str().unwrap())).collect()
}

#[test]
fn who_is_asked_for_most_comes_first_by_whichever_call() {
    let service = Service::start("hot", POLICY);
    let none = service.get("/debug/hot").json();
    assert_eq!((&none["keys"], &none["per_second"]), (&json!([]), &json!(0.0)));
    ask(&service, "api", "warm", 8);
    ask(&service, "api", "hot", 40);
    ask(&service, "other", "hot", 2);
    let checks: Vec<Value> =
        (0..20).map(|_| json!({ "key": "in a batch", "limit": "5/h" })).collect();
    service.post("/v1/check/batch", &json!({ "checks": checks }).to_string());
    for _ in 0..4 {
        service.send("GET", "/v1/authz", &[("x-original-uri", "/")], b"");
    }

    let shown = service.get("/debug/hot").json();
    let expected = [
        ("api", "hot"),
        ("inline", "in a batch"),
        ("api", "warm"),
        ("api", "global"),
        ("other", "hot"),
    ];
    assert_eq!(names(&shown), expected, "{shown}");
    // So little is counted whole.
    assert_eq!((&shown["sampled"], &shown["missed_per_second"]), (&json!(1), &json!(0.0)));
    let rate = |nth: usize, field: &str| shown["keys"][nth][field].as_f64().unwrap();
    assert!(0.0 < rate(0, "denied_per_second"));
    assert!(rate(0, "denied_per_second") < rate(0, "per_second"));
    assert_eq!(rate(0, "per_second"), rate(0, "at_least_per_second"));
    assert_eq!(rate(2, "denied_per_second"), 0.0);

    let of = |query: &str| service.get(&format!("/debug/hot?{query}")).json();
    assert_eq!(names(&of("limit=2")), expected[..2]);
    assert_eq!(names(&of("rule=other")), expected[4..]);
    assert_eq!(names(&of("rule=inline&limit=256")), expected[1..2]);
}

#[test]
fn under_load_from_many_the_hot_key_is_found_among_thousands() {
    let service = Service::start("hot-load", POLICY);
    let batch = |thread: usize, nth: usize| {
        let one = |check: usize| match check % 2 {
            0 => json!({ "key": "hot", "limit": "5/h" }),
            _ => json!({ "key": format!("{thread} {nth} {check}"), "limit": "5/h" }),
        };
        json!({ "checks": (0..1000).map(one).collect::<Vec<_>>() }).to_string()
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (service, batch) = (&service, &batch);
            scope.spawn(move || {
                for nth in 0..4 {
                    assert_eq!(service.post("/v1/check/batch", &batch(thread, nth)).status, 200);
                }
            });
        }
    });
    let shown = service.get("/debug/hot?limit=256").json();
    assert_eq!(shown["keys"].as_array().unwrap().len(), 256);
    assert_eq!(names(&shown)[0], ("inline", "hot"));
    // Of 16 000 half are its own, and sampling is off by a few of a hundred.
    let rate = |of: &Value| of.as_f64().unwrap();
    let part = rate(&shown["keys"][0]["at_least_per_second"]) / rate(&shown["per_second"]);
    assert!((0.45..0.55).contains(&part), "{part} of {}", shown["per_second"]);
    assert!(rate(&shown["keys"][1]["at_least_per_second"]) < rate(&shown["per_second"]) / 50.0);
}

#[test]
fn it_is_an_admin_call_and_no_key_is_told_elsewhere() {
    let args = ["--log", "trace"];
    let service = Service::start_with("hot-closed", POLICY, &args);
    ask(&service, "api", "secret-key", 30);
    for header in [("x-forwarded-for", "127.0.0.1"), ("host", "evil.example")] {
        assert_eq!(service.send("GET", "/debug/hot", &[header], b"").status, 403, "{header:?}");
    }
    assert!(service.get("/debug/hot").body.contains("secret-key"));
    assert!(!service.get("/metrics").body.contains("secret-key"));
    assert!(!service.log().contains("secret-key"));

    let policy = format!("admin: {{ token: correct-horse-battery }}\n{POLICY}");
    let service = Service::start("hot-token", &policy);
    let get = |headers: &[(&str, &str)]| service.send("GET", "/debug/hot", headers, b"").status;
    let right = ("authorization", "Bearer correct-horse-battery");
    assert_eq!((get(&[]), get(&[("authorization", "Bearer x")]), get(&[right])), (401, 401, 200));

    let policy = format!("listen: {{ http: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\n{POLICY}");
    let service = Service::start("hot-door", &policy);
    ask(&service, "api", "k", 2);
    assert_eq!(service.get("/debug/hot").status, 404);
    let there = Service::get_at(service.admin.unwrap(), "/debug/hot").json();
    assert_eq!(names(&there), [("api", "k")]);
}

#[test]
fn what_is_asked_wrongly_is_refused_by_name() {
    let service = Service::start("hot-wrong", POLICY);
    for (query, told) in [
        ("limit=0", "`limit` is `0`; expected a whole number from 1 to 256"),
        ("limit=257", "`limit` is `257`; expected a whole number from 1 to 256"),
        ("limit=-1", "`limit` is `-1`; expected"),
        ("limit=", "`limit` is ``; expected"),
        ("rule=ap", "`rule` is `ap`, which the policy does not have; did you mean `api`?"),
        ("key=alice", "unknown parameter `key`; expected `rule`, `limit`"),
        ("limit=5&limits=5", "unknown parameter `limits`"),
    ] {
        let reply = service.get(&format!("/debug/hot?{query}"));
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(reply.status == 400 && detail.contains(told), "{query}: {detail}");
    }
    assert_eq!(service.post("/debug/hot", "").status, 405);
}
