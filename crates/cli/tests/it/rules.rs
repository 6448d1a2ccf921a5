//! Requests for which the policy finds the rules, over real sockets.

use serde_json::json;

use crate::kit::{Folder, Service, run, text};

const POLICY: &str = "
headers: [legacy-delta, ietf]
client_ip: { trusted_proxies: [127.0.0.0/8] }
rules:
  per-ip: { key: ip, limit: 1000/day }
  per-key:
    match: { path: /api/**, methods: [GET] }
    key: header:x-api-key
    limits: [2/h, 3/day]
    when_missing: deny
";

fn attributes(service: &Service, pairs: serde_json::Value) -> crate::kit::Reply {
    service.post("/v1/check", &json!({ "attributes": pairs }).to_string())
}

#[test]
fn a_described_request_meets_its_rules() {
    let service = Service::start("described", POLICY);
    let api =
        json!({ "method": "GET", "path": "/api/x", "ip": "1.2.3.4", "header.x-api-key": "k" });
    let first = attributes(&service, api.clone());
    assert_eq!(first.status, 200, "{first:?}");
    let names: Vec<String> = first.json()["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| limit["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["per-ip", "per-key/1h", "per-key/1d"]);
    assert_eq!(attributes(&service, api.clone()).status, 200);
    let denied = attributes(&service, api);
    assert_eq!((denied.status, &denied.json()["rule"]), (429, &"per-key".into()));

    let free = attributes(&service, json!({ "path": "/about" }));
    assert_eq!((free.status, free.json()["limits"].as_array().unwrap().len()), (200, 0));
    let missing = attributes(&service, json!({ "method": "GET", "path": "/api" }));
    assert_eq!(missing.status, 429);
    let message = missing.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("header:x-api-key") && message.contains("per-key"), "{message}");
    assert_eq!(missing.json()["retry_after_ms"], serde_json::Value::Null);

    for (pairs, said) in [
        (json!({ "ip": "1.2.3" }), "ip"),
        (json!({ "path": 7 }), "attributes.path"),
        (json!([]), "an object of texts"),
    ] {
        let reply = attributes(&service, pairs);
        assert_eq!(reply.status, 400);
        assert!(reply.json()["detail"].as_str().unwrap().contains(said), "{reply:?}");
    }
}

#[test]
fn a_batch_takes_both_kinds() {
    let service = Service::start("both-kinds", POLICY);
    let checks = json!({ "checks": [
        { "attributes": { "path": "/about", "ip": "1.2.3.4" } },
        { "key": "alice", "limit": "1/day" },
        { "attributes": { "ip": 7 } },
        { "attributes": { "path": "/" } },
        { "key": "alice", "limit": "1/day" },
    ] });
    let reply = service.post("/v1/check/batch", &checks.to_string());
    let results = reply.json()["results"].clone();
    let told: Vec<Option<bool>> = (0..5).map(|nth| results[nth]["allowed"].as_bool()).collect();
    assert_eq!(told, [Some(true), Some(true), None, Some(true), Some(false)], "{reply:?}");
}

#[test]
fn answers_carry_the_headers_that_the_file_asks_for() {
    let service = Service::start("styles", POLICY);
    let api = json!({ "method": "GET", "path": "/api", "ip": "1.2.3.4", "header.x-api-key": "k" });
    let reply = attributes(&service, api);
    assert_eq!(
        reply.header("ratelimit-policy"),
        Some(r#""per-key/1h";q=2;w=3600, "per-ip";q=1000;w=86400, "per-key/1d";q=3;w=86400"#)
    );
    let limits = reply.header("ratelimit").unwrap();
    assert!(limits.starts_with(r#""per-key/1h";r=1;t=1800, "per-ip";r=999;t="#), "{limits}");
    assert_eq!(reply.header("x-ratelimit-reset"), Some("1800"));
}

#[test]
fn a_proxy_asks_about_a_request() {
    let service = Service::start("authz", POLICY);
    let ask = |query: &str, headers: &[(&str, &str)]| {
        service.send("GET", &format!("/v1/authz{query}"), headers, b"")
    };
    let nginx = [
        ("x-original-method", "GET"),
        ("x-original-uri", "/api/x?y=1"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-api-key", "nginx"),
    ];
    let traefik = [
        ("x-forwarded-method", "GET"),
        ("x-forwarded-uri", "/api/x"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-api-key", "traefik"),
    ];
    for headers in [nginx, traefik] {
        let statuses: Vec<u16> = (0..3).map(|_| ask("", &headers).status).collect();
        assert_eq!(statuses, [200, 200, 429]);
        let denied = ask("?deny=403", &headers);
        assert_eq!(denied.status, 403);
        assert!(denied.header("retry-after").is_some(), "{denied:?}");
        // For proxies that throw away a body and a status.
        let told: serde_json::Value =
            serde_json::from_str(denied.header("x-tollkeeper-body").unwrap()).unwrap();
        let mut body = denied.json();
        body.as_object_mut().unwrap().remove("limits").unwrap();
        assert_eq!((denied.header("x-tollkeeper-status"), told), (Some("429"), body));
        assert_eq!(ask("", &headers).header("x-tollkeeper-body"), None);
    }
    // Not a request of that rule, and counted by the client's own address.
    let about = [("x-original-uri", "/about"), ("x-forwarded-for", "203.0.113.10")];
    let reply = ask("", &about);
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (200, Some("999")));
    assert_eq!(ask("", &[]).status, 400);
    assert_eq!(ask("?deny=200", &about).status, 400);
    // A client's own word beside the proxy's, and a client's query that a proxy has left there.
    assert_eq!(ask("", &[nginx.as_slice(), &[("x-forwarded-uri", "/about")]].concat()).status, 400);
    assert_eq!(ask("?deny=500", &[("x-forwarded-uri", "/api?deny=500")]).status, 429);
}

#[test]
fn with_a_token_admin_calls_need_it_and_are_open_to_who_has_it() {
    let policy = format!("admin: {{ token: correct-horse-battery }}\n{POLICY}");
    let service = Service::start("token", &policy);
    let state = |headers: &[(&str, &str)]| service.send("GET", "/debug/state", headers, b"");
    let refused = state(&[]);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    for wrong in
        ["Bearer", "Bearer ", "Bearer correct-horse-batterx", "Basic correct-horse-battery"]
    {
        assert_eq!(state(&[("authorization", wrong)]).status, 401, "{wrong}");
    }
    let right = ("authorization", "bearer correct-horse-battery");
    assert_eq!(state(&[right, ("x-forwarded-for", "1.2.3.4")]).status, 200);
    assert!(!service.log().contains("correct-horse"));
}

#[test]
fn admin_calls_can_have_a_door_of_their_own() {
    let policy = format!("listen: {{ http: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\n{POLICY}");
    let service = Service::start("admin-door", &policy);
    assert_eq!(service.get("/metrics").status, 404);
    assert_eq!(service.get("/healthz").status, 200);
    let admin = service.admin.unwrap();
    let there = Service::get_at(admin, "/metrics");
    assert!(there.status == 200 && there.body.contains("tollkeeper_limit"), "{there:?}");
    assert_eq!(Service::get_at(admin, "/v1/check").status, 404);
}

#[test]
fn explain_tells_why_each_rule_does_or_does_not_apply() {
    let folder = Folder::new("explain");
    folder.write("tollkeeper.yaml", POLICY);
    let explain = |args: &[&str]| run(&[&["explain"], args].concat(), &folder);
    let told = explain(&["--method", "GET", "--path", "/api/x", "--header", "x-api-key: k"]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    let lines = text(&told.stdout);
    assert!(lines.contains("per-ip") && lines.contains("address is missing"), "{lines}");
    assert!(lines.contains("per-key/1h") && lines.contains("key k"), "{lines}");
    let told = explain(&["--method", "POST", "--path", "/api/x", "--ip", "1.2.3.4", "--json"]);
    let rules: serde_json::Value = serde_json::from_str(&text(&told.stdout)).unwrap();
    assert_eq!((&rules[0]["applies"], &rules[0]["key"]), (&true.into(), &"1.2.3.4".into()));
    assert_eq!(rules[1]["applies"], false);
    assert!(rules[1]["why"].as_str().unwrap().contains("POST"), "{rules}");
    for (args, said) in
        [(["--ip", "nonsense"].as_slice(), "ip"), (&["--header", "no colon"], "NAME: VALUE")]
    {
        let failed = explain(args);
        assert_eq!(failed.status.code(), Some(2));
        assert!(text(&failed.stderr).contains(said), "{}", text(&failed.stderr));
    }
}
