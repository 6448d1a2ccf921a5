//! What gets advice, what does not, and where it points.

use tollkeeper_core::Quota;
use tollkeeper_policy::limits::MAX_ADVICE;
use tollkeeper_policy::{Advice, AdviceCode, Policy, Rule, StoreSettings, render_advice};

fn parse(text: &str) -> Policy {
    let env = |name: &str| {
        Some(if name == "PROXY" { "10.0.0.0/8" } else { "0123456789abcdef" }.to_owned())
    };
    Policy::parse(text, &env).unwrap_or_else(|errors| panic!("{}", errors.render("-", text)))
}

fn advice(text: &str) -> Vec<Advice> {
    parse(text).advice_in(text)
}

/// The codes, and the text of the file that each one points at.
fn pointed(text: &str) -> Vec<(String, String)> {
    let at = |advice: &Advice| {
        let line = text.lines().nth(advice.line.unwrap() - 1).unwrap();
        let meant = line.chars().skip(advice.column.unwrap() - 1).take(advice.length);
        // The parser counts the blanks behind a quoted text.
        meant.collect::<String>().trim_end().to_owned()
    };
    advice(text).iter().map(|one| (one.code.to_string(), at(one))).collect()
}

/// A file with one rule gets one piece of advice, at this place of it.
fn gets(code: &str, at: &str, text: &str) {
    assert_eq!(pointed(text), [(code.to_owned(), at.to_owned())], "{text}");
}

fn gets_none(text: &str) {
    assert_eq!(advice(text), [], "{text}");
}

fn rule(lines: &str) -> String {
    format!("rules:\n  r: {{ limit: 5/s, {lines} }}\n")
}

/// The manual's grown file, but for the doors of a later version.
const GROWN: &str = include_str!("grown.yaml");

#[test]
fn the_files_of_the_manual_get_none() {
    gets_none(GROWN);
    for algorithm in ["token_bucket", "leaking_bucket", "fixed_window", "sliding_window_counter"] {
        gets_none(&format!(
            "rules:
  global:
    algorithm: {algorithm}
    token_bucket:           {{ capacity: 10, refill_rate: 5 }}
    leaking_bucket:         {{ queue_capacity: 10, leak_rate: 5 }}
    fixed_window:           {{ max_requests: 10, window_size: 60 }}
    sliding_window_counter: {{ max_requests: 10, window_size: 60 }}
"
        ));
    }
}

#[test]
fn tk002_what_nobody_meets() {
    gets("TK002", "OPTION", &rule("match: { methods: OPTION }"));
    gets("TK002", "DELTE", &rule("match: { methods: [GET, DELTE] }"));
    gets("TK002", "/users/<id>", &rule("match: { path: /users/<id> }"));
    gets("TK002", "\"/p/[slug]\"", &rule("match: { path: [/ok, \"/p/[slug]\"] }"));
    gets("TK002", "\"[2001:db8:0::1]\"", &rule("match: { host: \"[2001:db8:0::1]\" }"));
    gets("TK002", "\"*\"", &rule("match: { headers: { set-cookie: \"*\" } }"));
    gets("TK002", "a.b:1", &rule("match: { host: c.b, headers: { host: a.b:1 } }"));
    gets("TK002", "ips", &rule("exempt: { ips: [0.0.0.0/0, \"::/0\"] }"));
    gets("TK002", "ips", &rule("exempt: { ips: [0.0.0.0/1, 128.0.0.0/1] }"));
    let dead = |text: &str| advice(&rule(text))[0].message.clone();
    assert!(dead("match: { methods: OPTION }").contains("matches no request"));
    assert!(dead("match: { methods: [GET, OPTION] }").contains("has an alternative that"));
    for fine in [
        "match: { methods: [GET, PURGE, PROPFIND, QUERY, LIST, FROBNICATE] }",
        "match: { path: [\"/users/{id}\", \"/a b\", /café, /OData(1), /%5Bx%5D, /a%7Cb] }",
        "match: { host: [\"[2001:db8::1]\", \"*.example.com\"] }",
        "match: { headers: { upgrade: websocket, accept: \"*\" } }",
        "match: { host: \"*.example.com\", headers: { host: \"a.example.com:8443\" } }",
        "exempt: { ips: [10.0.0.0/8, \"::/0\"] }",
    ] {
        gets_none(&rule(fine));
    }
}

#[test]
fn tk003_what_is_never_there() {
    gets("TK003", "header:connection", &rule("key: [ip, header:connection]"));
    gets("TK003", "header:Set-Cookie", &rule("key: header:Set-Cookie"));
    let door = "listen: { gateway: \"127.0.0.1:8000\" }\nupstream: http://127.0.0.1:3000\n";
    let gateway = |lines: &str| format!("{door}{}", rule(lines));
    gets("TK003", "user", &gateway("key: [ip, user]"));
    gets("TK003", "attribute:org", &gateway("key: attribute:org"));
    gets("TK003", "route", &gateway("key: route"));
    gets("TK003", "tokens", &gateway("cost: { attribute: tokens }"));
    gets("TK003", "attribute:plan", &gateway("tiers: { by: attribute:plan, limits: { a: 9/s } }"));
    gets_none(&gateway("match: { path: /a/** }, key: [route, ip, \"cookie:s\", \"query:q\"]"));
    for told_by_the_app in ["key: user", "key: route", "cost: { attribute: tokens }"] {
        gets_none(&rule(told_by_the_app));
        let both = "listen: { http: \"127.0.0.1:8080\", gateway: \"127.0.0.1:8000\" }\n";
        gets_none(&format!("{both}upstream: http://127.0.0.1:3000\n{}", rule(told_by_the_app)));
    }
    let effect =
        |missing: &str| advice(&rule(&format!("key: header:etag{missing}")))[0].message.clone();
    assert!(effect("").contains("applies to no request"));
    let one_hop = advice(&rule("key: header:te, when_missing: deny"))[0].message.clone();
    assert!(one_hop.contains("does not tell clients apart"), "{one_hop}");
    assert!(effect(", when_missing: deny").contains("denies every request"));
    assert!(effect(", when_missing: anonymous").contains("counts all requests together"));
}

#[test]
fn tk004_users_that_share_an_address() {
    gets("TK004", "ip", &rule("key: ip, match: { headers: { Authorization: \"*\" } }"));
    gets("TK004", "key", &rule("key: [ip, method], match: { headers: { cookie: \"*\" } }"));
    gets("TK004", "ip", &rule("key: ip, tiers: { by: attribute:plan, limits: { pro: 9/s } }"));
    for fine in [
        "key: ip, match: { path: /login }",
        "key: [ip, header:authorization], match: { headers: { authorization: \"*\" } }",
        // One certain key, whoever has it.
        "key: ip, match: { headers: { x-api-key: demo } }",
    ] {
        gets_none(&rule(fine));
    }
    // Who counts users too means to count their networks.
    gets_none(
        "rules:
  net: { key: ip, limit: 900/s, match: { headers: { authorization: '*' }, path: /api/** } }
  user: { key: header:authorization, limit: 9/s, match: { headers: { authorization: '*' } } }
",
    );
}

#[test]
fn tk005_points_at_the_hidden_limit() {
    gets("TK005", "1000/min", "rules:\n  r: { limits: [10/s, 1000/min] }\n");
    gets("TK005", "1000/min", "rules:\n  r: { limits: [1000/min, 10/s] }\n");
    gets("TK005", "200/s", "rules:\n  all: { limit: 100/s }\n  ip: { key: ip, limit: 200/s }\n");
    gets("TK005", "9/s", "rules:\n  a: { key: ip, limit: 9/s }\n  b: { limit: 9/s }\n");
    gets(
        "TK005",
        "token_bucket",
        "rules:
  all: { key: ip, limit: 10/s, match: { path: /api/** } }
  one:
    key: ip
    match: { path: /api/x, methods: [GET] }
    token_bucket: { capacity: 10, refill_rate: 10 }
",
    );
}

#[test]
fn tk005_claims_nothing_that_is_not_sure() {
    for rules in [
        "r: { limits: [20/s, 5000/day] }",
        // Asked by their names, with keys of the caller's: they never meet.
        "api: { limit: 100/s }, login: { limit: 5/min }",
        "a: { limit: 9/s, shadow: true }, b: { key: ip, limit: 9/s }",
        "a: { limit: 9/s }, b: { key: ip, limit: 9/s, shadow: true }",
        "a: { limit: 9/s, refund_on: 5xx }, b: { key: ip, limit: 9/s }",
        "r: { limits: [10/s, 1000/min], refund_on: 5xx }",
        "a: { limit: 9/s, on_failure: open }, b: { key: ip, limit: 9/s }",
        "a: { limit: 9/s, exempt: { ips: 10.0.0.0/8 } }, b: { key: ip, limit: 9/s }",
        "a: { key: ip, limit: 9/s, exempt: { keys: 1.2.3.4 } }, b: { key: ip, limit: 9/s, match: { path: /x } }",
        "a: { limit: 9/s, tiers: { by: attribute:p, limits: { x: 99/s } } }, b: { key: ip, limit: 9/s }",
        "a: { limit: 9/s, match: { path: /a } }, b: { key: ip, limit: 9/s }",
        "a: { limit: 9/s, key: ip }, b: { limit: 9/s, match: { path: /b } }",
        "a: { limit: 9/s }, b: { key: ip, limit: 9/s, cost: 2 }",
        "a: { limit: 9/s, key: 'header:x' }, b: { key: ['header:x', ip], limit: 9/s, when_missing: anonymous }",
        "a: { limit: 9/s, key: route, match: { path: /a/** } }, b: { limit: 9/s, key: route, match: { path: /a/b } }",
    ] {
        gets_none(&format!("rules: {{ {rules} }}"));
    }
}

#[test]
fn tk006_headers_that_do_not_count() {
    gets("TK006", "x-cost", &rule("cost: { header: x-cost }"));
    gets("TK006", "header:x-plan", &rule("tiers: { by: header:x-plan, limits: { pro: 9/s } }"));
    let trusted = "client_ip: { trusted_proxies: \"${PROXY}\" }\n";
    gets_none(&format!("{trusted}{}", rule("cost: { header: x-cost }")));
    gets_none(&rule("cost: { attribute: tokens }"));
}

#[test]
fn tk007_the_whole_limit_in_each_process() {
    let at = |store: &str, lines: &str| format!("store: {{ {store} }}\n{}", rule(lines));
    gets("TK007", "store", &at("url: redis://redis:6379", "key: ip"));
    gets("TK007", "store", &at("url: rediss://10.0.0.1", "on_failure: static"));
    for (store, lines) in [
        ("url: redis://redis:6379, nodes: 3", "key: ip"),
        ("url: redis://redis:6379, nodes: 1", "key: ip"),
        ("url: redis://redis:6379, on_failure: open", "key: ip"),
        ("url: redis://redis:6379", "on_failure: closed"),
        ("url: redis://redis:6379", "shadow: true"),
        ("url: redis://localhost", "key: ip"),
        ("url: \"redis://[::1]:6379\"", "key: ip"),
        ("url: redis+unix:///run/redis.sock", "key: ip"),
        ("url: memory://", "key: ip"),
    ] {
        gets_none(&at(store, lines));
    }
    // Settings that are made in code have said it.
    let url = "redis://redis:6379".parse().unwrap();
    let policy = parse("rules: { r: { limit: 1/s } }");
    assert_eq!(policy.clone().stored_at(url).advice()[0].code, AdviceCode::WholeLimitEach);
    let url = "redis://redis:6379".parse().unwrap();
    let settings = StoreSettings { url, ..StoreSettings::default() };
    assert_eq!(policy.stored_by(settings).unwrap().advice(), []);
}

#[test]
fn tk008_waits_that_nobody_waits() {
    let leak = |block: &str| format!("rules:\n  r: {{ leaking_bucket: {{ {block} }} }}\n");
    gets("TK008", "leaking_bucket", &leak("queue_capacity: 302, leak_rate: 10"));
    gets("TK008", "leaking_bucket", &leak("queue_capacity: 900, leak_rate: 10, max_delay: 31s"));
    for fine in [
        "queue_capacity: 301, leak_rate: 10",
        "queue_capacity: 900, leak_rate: 10, max_delay: 30s",
        "queue_capacity: 900, leak_rate: 10, mode: meter",
    ] {
        gets_none(&leak(fine));
    }
    gets_none(
        "rules: { r: { shadow: true, leaking_bucket: { queue_capacity: 900, leak_rate: 1 } } }",
    );
}

#[test]
fn tk009_clients_with_many_faces() {
    let with =
        |client_ip: &str, lines: &str| format!("client_ip: {{ {client_ip} }}\n{}", rule(lines));
    gets("TK009", "trusted_proxies", &with("trusted_proxies: [0.0.0.0/0]", "key: ip"));
    gets("TK009", "trusted_proxies", &with("trusted_proxies: [\"::/0\"]", "cost: { header: c }"));
    gets("TK009", "128", &with("ipv6_prefix: 128", "key: ip"));
    gets_none(&with("ipv6_prefix: 128", "key: header:x"));
    gets_none(&with("trusted_proxies: [0.0.0.0/0]", "key: header:x"));
    gets_none(&with("trusted_proxies: [10.0.0.0/8, fd00::/8], ipv6_prefix: 56", "key: ip"));
}

#[test]
fn tk010_costs_that_never_fit() {
    gets("TK010", "5/s", &rule("cost: 6"));
    gets("TK010", "5/s", &rule("cost: { attribute: tokens, min: 6 }"));
    gets("TK010", "5/s", &rule("cost: { attribute: tokens, default: 6 }"));
    gets("TK010", "2/s", &rule("cost: 3, tiers: { by: attribute:p, limits: { x: [9/s, 2/s] } }"));
    for fine in ["cost: 5", "cost: { attribute: tokens, max: 6 }", "cost: 6, shadow: true"] {
        gets_none(&rule(fine));
    }
}

#[test]
fn advice_is_in_the_order_of_the_rules_and_bounded() {
    let text = "client_ip: { ipv6_prefix: 128 }
rules:
  b: { limits: [10/s, 1000/min], match: { methods: OPTION } }
  a: { key: ip, limit: 1/s, cost: 2 }
";
    let told: Vec<_> = pointed(text).into_iter().map(|(code, _)| code).collect();
    assert_eq!(told, ["TK009", "TK002", "TK005", "TK010"]);
    let quota = || Quota::fixed_window(1, 1).unwrap();
    let dear = |nth| {
        let cost = tollkeeper_policy::Cost::fixed(2).unwrap();
        Rule::new(format!("r{nth}"), [quota()]).unwrap().costing(cost)
    };
    let many = Policy::from_rules((0..MAX_ADVICE + 9).map(dear)).unwrap().advice();
    assert_eq!(many.len(), MAX_ADVICE);
    assert!(render_advice(&many, "-", "").ends_with("\nonly the first 100 are shown\n"));
}

#[test]
fn a_policy_made_in_code_gets_advice_without_a_place() {
    let quotas = [Quota::fixed_window(10, 1_000).unwrap(), Quota::fixed_window(10, 100).unwrap()];
    let advice = Policy::from_rules([Rule::new("r", quotas).unwrap()]).unwrap().advice();
    assert_eq!(
        (advice[0].code, advice[0].line, advice[0].column),
        (AdviceCode::Hidden, None, None)
    );
    assert_eq!(advice[0].rule.as_deref(), Some("r"));
    let shown = render_advice(&advice, "-", "");
    assert!(shown.starts_with("warning[TK005]: ") && shown.contains("\n  = help: "), "{shown}");
}

#[test]
fn advice_is_shown_as_errors_are_and_hides_secrets() {
    let text = "store: { url: \"redis://u:hunter2@redis:6379\" }\nrules: { r: { limit: 1/s } }\n";
    let shown = render_advice(&advice(text), "p.yaml", text);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(
        shown,
        format!(
            "warning[TK007]: {}
  --> p.yaml:1:1
   |
 1 | store: {{ url: ***}}
   | ^^^^^
   |
   = help: {}
   = see: {}
",
            advice(text)[0].message,
            advice(text)[0].help,
            AdviceCode::WholeLimitEach.page()
        )
    );
}

#[test]
fn what_is_the_same_is_the_same_wherever_it_stands() {
    let before = advice("rules: { r: { limits: [10/s, 1000/min] } }");
    let moved = advice("rules:\n  a: { limit: 1/s }\n  r: { limits: [1000/min, 10/s] }\n");
    assert!(before[0].says_as(&moved[0]) && before[0] != moved[0]);
    let other = advice("rules: { r: { limits: [10/s, 2000/min] } }");
    assert!(!before[0].says_as(&other[0]));
}
