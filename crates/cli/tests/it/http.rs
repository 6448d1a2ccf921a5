//! The HTTP API of a running service: what it decides, and what it refuses.

use serde_json::{Value, json};

use crate::kit::{Reply, Service, policy_of};

fn service(name: &str) -> Service {
    Service::start(
        name,
        "rules: { api: { limits: [3/h, 5/day] }, jobs: { concurrency: { max_in_flight: 2, lease: 1h } } }",
    )
}

fn post(service: &Service, path: &str, body: &Value) -> Reply {
    service.post(path, &body.to_string())
}

#[test]
fn a_check_by_an_inline_limit_and_by_a_rule() {
    let service = service("check-api");
    let ask = json!({ "key": "alice", "limit": "2/h", "algorithm": "sliding_window_counter" });
    let first = post(&service, "/v1/check", &ask);
    assert_eq!(first.status, 200);
    assert_eq!(first.header("x-ratelimit-remaining"), Some("1"));
    let body = first.json();
    assert_eq!(
        (&body["allowed"], &body["rule"], &body["source"]),
        (&true.into(), &"inline".into(), &"store".into())
    );
    assert_eq!(post(&service, "/v1/check", &ask).status, 200);
    let denied = post(&service, "/v1/check", &ask);
    assert_eq!(denied.status, 429);
    assert!(denied.header("retry-after").is_some());
    assert!(denied.json()["retry_after_ms"].as_u64().unwrap() > 0);

    let rule = json!({ "key": "alice", "rule": "api" });
    let body = post(&service, "/v1/check", &rule).json();
    let names: Vec<&str> =
        body["limits"].as_array().unwrap().iter().map(|l| l["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["api/1h", "api/1d"]);
    assert_eq!((&body["limit"], &body["remaining"]), (&3.into(), &2.into()), "the tighter binds");

    let never = post(&service, "/v1/check", &json!({ "key": "bob", "rule": "api", "cost": 4 }));
    assert_eq!((never.status, never.header("retry-after")), (429, None));
    assert_eq!(never.json()["retry_after_ms"], Value::Null);
    assert_eq!(
        never.json()["message"],
        "A cost of 4 can never fit a limit of 3; ask for less at a time"
    );
}

#[test]
fn the_period_tells_inline_limits_of_one_key_apart() {
    let service = service("inline");
    let ask =
        |limit: &str| post(&service, "/v1/check", &json!({ "key": "k", "limit": limit })).json();
    ask("5/h");
    assert_eq!(ask("9/day")["remaining"], 8);
    assert_eq!(ask("10/h")["remaining"], 8, "usage survives where only the count differs");
}

#[test]
fn a_batch_decides_each_by_itself() {
    let service = service("batch");
    let one = json!({ "key": "alice", "limit": "1/h" });
    let checks = json!({ "checks": [one, one, { "key": "", "limit": "1/h" }, { "rule": "apu" }, { "cost": 1 }] });
    let reply = post(&service, "/v1/check/batch", &checks);
    assert_eq!(reply.status, 200);
    let body = reply.json();
    let results = body["results"].as_array().unwrap();
    assert_eq!((&results[0]["allowed"], &results[1]["allowed"]), (&true.into(), &false.into()));
    assert_eq!((&results[2]["field"], &results[3]["field"]), (&"key".into(), &"rule".into()));
    assert_eq!(
        results[3]["detail"],
        "`rule` is `apu`, which the policy does not have; did you mean `api`?"
    );
    assert_eq!(results[4]["status"], 400);
}

#[test]
fn a_reservation_is_settled_once() {
    let service = service("reserve");
    let looked = |key: &str| {
        let ask = json!({ "key": key, "limit": "100/day", "cost": 0 });
        post(&service, "/v1/check", &ask).json()["remaining"].as_u64().unwrap()
    };
    let reserve = json!({ "key": "llm", "limit": "100/day", "cost": 60, "ttl": "10m" });
    let id = post(&service, "/v1/reserve", &reserve).json()["reservation"].clone();
    assert_eq!(looked("llm"), 40);
    let settle = json!({ "reservation": id, "actual": 10 });
    let done = post(&service, "/v1/settle", &settle).json();
    assert_eq!((&done["result"], &done["forgiven"]), (&"done".into(), &0.into()));
    assert_eq!(looked("llm"), 90);
    assert_eq!(post(&service, "/v1/settle", &settle).json()["result"], "repeated");
    assert_eq!(looked("llm"), 90);

    let id = post(&service, "/v1/reserve", &reserve).json()["reservation"].clone();
    assert_eq!(
        post(&service, "/v1/cancel", &json!({ "reservation": id })).json()["result"],
        "done"
    );
    assert_eq!(looked("llm"), 90);
    let id = post(&service, "/v1/reserve", &reserve).json()["reservation"].clone();
    let over = post(&service, "/v1/settle", &json!({ "reservation": id, "actual": 1000 })).json();
    assert_eq!(over["forgiven"], 810, "1000 asked, 190 were left to two capacities");
    assert_eq!(looked("llm"), 0);
}

#[test]
fn permits_and_refunds() {
    let service = service("after");
    let hold = json!({ "rule": "jobs", "key": "a" });
    let permit = post(&service, "/v1/check", &hold).json()["permit"].clone();
    assert_eq!(post(&service, "/v1/check", &hold).status, 200);
    assert_eq!(post(&service, "/v1/check", &hold).status, 429);
    let named = json!({ "permit": permit });
    assert_eq!(post(&service, "/v1/renew", &named).json()["result"], "done");
    assert_eq!(post(&service, "/v1/release", &named).json()["result"], "done");
    assert_eq!(post(&service, "/v1/release", &named).json()["result"], "unknown");
    assert_eq!(post(&service, "/v1/renew", &named).json()["result"], "unknown");
    assert_eq!(post(&service, "/v1/check", &hold).status, 200);

    let charged =
        post(&service, "/v1/check", &json!({ "rule": "api", "key": "r", "cost": 3 })).json();
    let refund =
        json!({ "rule": "api", "key": "r", "cost": 3, "charged_at_us": charged["charged_at_us"] });
    assert_eq!(post(&service, "/v1/refund", &refund).json()["result"], "done");
    let left = post(&service, "/v1/check", &json!({ "rule": "api", "key": "r", "cost": 0 })).json();
    assert_eq!(left["remaining"], 3);
    assert_eq!(post(&service, "/v1/refund", &json!({ "rule": "jobs", "key": "a" })).status, 400);
    assert_eq!(post(&service, "/v1/reserve", &json!({ "rule": "jobs", "key": "a" })).status, 400);
}

#[test]
fn debug_state_shows_each_algorithm_in_its_own_terms_and_reset_clears_it() {
    for (algorithm, suffix, fields) in [
        ("token_bucket", "tb", vec!["tokens", "last_refill"]),
        ("gcra", "gcra", vec!["theoretical_arrival", "last"]),
        ("leaking_bucket", "lb", vec!["queue_size", "last_leak"]),
        ("fixed_window", "fw", vec!["window", "count"]),
        ("sliding_window_log", "swl", vec!["entries"]),
        ("sliding_window_counter", "swc", vec!["window", "current", "previous"]),
        ("concurrency", "cc", vec!["leases"]),
    ] {
        let service = Service::start(&format!("debug-{algorithm}"), &policy_of(algorithm));
        let ask = json!({ "rule": "global", "key": "global", "cost": 2 });
        assert_eq!(post(&service, "/v1/check", &ask).status, 200);
        let shown = service.get("/debug/state?rule=global&key=global&limit=5").json();
        assert_eq!((&shown["algorithm"], &shown["store"]), (&algorithm.into(), &"memory".into()));
        let state = &shown["keys"][format!("rl:{{global}}:{suffix}")];
        for field in fields.iter().chain(&["ttl_ms", "raw"]) {
            assert!(!state[*field].is_null(), "{algorithm}: no {field} in {shown}");
        }
        if algorithm == "token_bucket" {
            assert_eq!(state["tokens"], "8.000000");
        }
        assert_eq!(service.get("/debug/state?key=other").json()["keys"], json!({}));
        assert_eq!(service.post("/debug/reset?key=other", "").json()["reset"], 0);
        assert_eq!(service.post("/debug/reset?rule=global", "").json()["reset"], 1);
        assert_eq!(service.get("/debug/state").json()["keys"], json!({}));
    }
}

#[test]
fn debug_calls_are_closed_to_whoever_was_sent_here() {
    let service = service("admin");
    for header in [
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1"),
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
    ] {
        let reply = service.send("POST", "/debug/reset", &[header], b"");
        assert_eq!(reply.status, 403, "{header:?}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    }
    assert_eq!(service.get("/debug/state").status, 200);
}

#[test]
fn bad_input_is_refused_by_name_and_the_service_lives_on() {
    let service = service("bad-input");
    let key = |key: &str| format!("{{\"key\":\"{key}\",\"limit\":\"1/s\"}}").into_bytes();
    let with = |field: &str| format!("{{\"key\":\"a\",\"limit\":\"1/s\",{field}}}").into_bytes();
    let cases: Vec<(Vec<u8>, u16, &str)> = vec![
        (b"".to_vec(), 400, "the body is empty"),
        (b"nonsense".to_vec(), 400, "not valid JSON"),
        (b"[1]".to_vec(), 400, "expected a JSON object"),
        (b"{\"key\":\"a\",\"limit\":\"1/s\"".to_vec(), 400, "EOF"),
        (key(""), 400, "`key` is empty"),
        (key(&"k".repeat(1025)), 400, "`key` has 1025 bytes; expected 1 to 1024"),
        (key(&"k".repeat(10_000_000)), 413, "a `key` may have 1024"),
        (b"{\"key\":\"\xff\",\"limit\":\"1/s\"}".to_vec(), 400, "invalid unicode"),
        (b"{\"key\":7,\"limit\":\"1/s\"}".to_vec(), 400, "`key` is `7`; expected a string"),
        (b"[".repeat(10_000), 400, "JSON object"),
        (b"{\"k\":".repeat(10_000), 400, "recursion limit"),
        (vec![b' '; 100_000_000], 413, "larger than the 65536 bytes"),
        (with("\"cost\":-1"), 400, "`cost` is `-1`; expected a whole number"),
        (with("\"cost\":1.5"), 400, "`cost` is `1.5`"),
        (with("\"cost\":\"1\""), 400, "`cost` is `\"1\"`"),
        (with("\"cost\":null"), 400, "`cost` is `null`"),
        (b"{\"rule\":\"api\",\"key\":null}".to_vec(), 400, "`key` is `null`; expected a string"),
        (with("\"cost\":1000000000000000000000000000000"), 400, "`cost` is `1e+30`"),
        (with("\"algorithm\":\"gcr\""), 400, "did you mean `gcra`?"),
        (with("\"cots\":1"), 400, "did you mean `cost`?"),
        (with("\"rule\":\"api\""), 400, "`rule` and `limit` exclude each other"),
        (with("\"key\":\"b\""), 400, "`key` comes twice"),
        (with("\"attributes\":{}"), 400, "`attributes`"),
        // A map would keep the second, and a proxy may have gone by the first.
        (b"{\"attributes\":{\"ip\":\"::1\",\"ip\":\"::2\"}}".to_vec(), 400, "`ip` comes twice"),
        (b"{\"key\":\"a\"}".to_vec(), 400, "`rule` is missing"),
        (b"{\"limit\":\"1/s\"}".to_vec(), 400, "`key` is missing"),
        (b"{\"key\":\"a\",\"limit\":\"0/s\"}".to_vec(), 400, "its count is 0"),
        (b"{\"key\":\"a\",\"limit\":\"1/401d\"}".to_vec(), 400, "at most 400d"),
        (b"{\"key\":\"a\",\"limit\":\"2.5/s\"}".to_vec(), 400, "needs a burst"),
    ];
    for (body, status, told) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let reply = service.send("POST", "/v1/check", &[], &body);
        assert_eq!(reply.status, status, "{shown}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(reply.body.contains(told) || detail.contains(told), "{shown}: {detail}");
    }
    assert_eq!(service.post("/v1/settle", "{\"reservation\":\"x\",\"actual\":1}").status, 400);
    assert_eq!(service.post("/v1/release", "{}").status, 400);
    assert_eq!(
        service.post("/v1/reserve", "{\"key\":\"a\",\"limit\":\"1/s\",\"ttl\":\"2d\"}").status,
        400
    );
    assert_eq!(service.post("/v1/check/batch", "{\"checks\":[]}").status, 400);
    let twice = "{\"checks\":[{\"key\":\"a\",\"key\":\"b\",\"limit\":\"1/s\"}]}";
    let reply = service.post("/v1/check/batch", twice);
    assert!(reply.status == 400 && reply.body.contains("`key` comes twice"), "{reply:?}");
    // What a caller named is given back in part.
    let long = format!("{{\"attributes\":{{\"{}\":7}}}}", "x".repeat(50_000));
    let reply = service.post("/v1/check", &long);
    assert!(reply.status == 400 && reply.body.len() < 1000, "{reply:?}");
    assert_eq!(service.get("/v1/check").status, 405);
    assert_eq!(service.get("/nothing").status, 404);
    assert_eq!(service.get("/debug/state?limit=0").status, 400);
    let health = service.get("/healthz");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    assert_eq!(
        service.get("/debug/state").json()["rules"]["api"]["keys"],
        json!({}),
        "nothing changed"
    );
}
