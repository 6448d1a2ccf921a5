//! What is explained of a request, in words.

use tollkeeper_policy::{Attributes, Policy};

/// The sentence about the one rule of a file, for a request.
fn why(rule: &str, pairs: &[(&str, &str)]) -> String {
    let policy = Policy::parse(&format!("rules: {{ r: {{ limit: 1/s, {rule} }} }}"), &|_| None);
    let request = Attributes::from_pairs(pairs.iter().copied()).unwrap();
    let policy = policy.unwrap();
    let explained = policy.explain(&request);
    explained[0].why.clone()
}

#[test]
fn why_a_rule_does_not_apply() {
    let path = "match: { path: \"/api/**\" }";
    assert_eq!(why(path, &[("path", "/x")]), "path /x does not match /api/**");
    assert_eq!(why(path, &[]), "the request has no path; the rule takes /api/**");
    let paths = "match: { path: [/a, /b, /c, /d, /e, /f, /g] }";
    assert_eq!(
        why(paths, &[("path", "/x")]),
        "path /x does not match /a, /b, /c, /d, /e or 2 more"
    );
    let methods = "match: { methods: [POST, PUT] }";
    assert_eq!(why(methods, &[("method", "GET")]), "method is GET; the rule takes POST or PUT");
    assert_eq!(why(methods, &[]), "the request has no method; the rule takes POST or PUT");
    let host = "match: { host: \"*.example.com\" }";
    assert_eq!(
        why(host, &[("host", "Example.com:80")]),
        "host is example.com; the rule takes *.example.com"
    );
    let header = "match: { headers: { x-internal: \"hunter2\" } }";
    assert_eq!(why(header, &[]), "header x-internal is missing");
    let told = why(header, &[("header.x-internal", "no")]);
    assert_eq!(told, "header x-internal has another value than the rule takes");
    let key = "key: [ip, header:x-api-key]";
    assert_eq!(
        why(key, &[("ip", "::1")]),
        "header x-api-key is missing, which is a part of the key"
    );
    assert_eq!(why(key, &[]), "the client's address is missing, which is a part of the key");
    let exempt = "key: user, exempt: { ips: 10.0.0.0/8, keys: root }";
    assert_eq!(why(exempt, &[("ip", "::ffff:10.0.0.1")]), "address 10.0.0.1 is exempt");
    assert_eq!(why(exempt, &[("user", "root")]), "the key is exempt");
}

#[test]
fn why_a_rule_denies() {
    let told = why("key: cookie:s, when_missing: deny", &[]);
    assert_eq!(
        told,
        "cookie s is missing, which is a part of the key: the rule denies such requests"
    );
    let told = why("key: query:q, when_missing: deny, shadow: true", &[]);
    assert!(told.ends_with("the rule would deny such requests"), "{told}");
}

#[test]
fn why_a_rule_applies() {
    assert_eq!(why("key: ip", &[("ip", "::1")]), "the rule takes every request");
    let rule = "match: { path: [/x, \"/api/{id}\"], methods: GET, host: a.test, headers: { x-a: \"1\", x-b: \"*\" } }";
    let pairs = [
        ("path", "/api/7"),
        ("method", "get"),
        ("host", "A.test"),
        ("header.x-a", "1"),
        ("header.x-b", "2"),
    ];
    assert_eq!(
        why(rule, &pairs),
        "path /api/7 matches /api/{id}, method is get, host is a.test, \
         header x-a has the value asked for, header x-b is there"
    );
}

#[test]
fn what_results_and_what_is_left_out_of_account() {
    let file = "rules:
  r:
    limit: 1/s
    key: user
    cost: { header: x-cost, max: 9 }
    tiers: { by: header:x-plan, limits: { pro: [5/s, 6/min] } }
  s: { limit: 1/s, tiers: { by: attribute:plan, limits: { pro: 2/s } } }";
    let policy = Policy::parse(file, &|_| None).unwrap();
    let request = Attributes::from_pairs([
        ("user", "alice"),
        ("header.x-cost", "5"),
        ("header.x-plan", "pro"),
        ("plan", "gold"),
    ])
    .unwrap();
    let explained = policy.explain(&request);
    let met = explained[0].met.as_ref().unwrap();
    assert_eq!((met.key.as_str(), met.cost, met.tier), ("alice", 5, Some(0)));
    assert_eq!(explained[0].tier().unwrap().name(), "pro");
    assert_eq!(explained[0].limits().len(), 2);
    assert!(explained[0].notes.is_empty() && !explained[0].denied);
    assert_eq!(explained[1].notes, ["attribute plan is gold, which is no tier of the rule"]);

    let request = request.untrusted();
    let explained = policy.explain(&request);
    let met = explained[0].met.as_ref().unwrap();
    assert_eq!((met.cost, met.tier, explained[0].limits().len()), (1, None, 1));
    assert_eq!(
        explained[0].notes,
        [
            "header x-cost sets no cost: the request is not from a trusted proxy",
            "header x-plan sets no tier: the request is not from a trusted proxy",
        ]
    );
}

#[test]
fn no_value_of_the_policy_and_no_command_is_told() {
    let rule = "match: { headers: { x-a: hunter2 } }, key: user, exempt: { keys: hunter3 }";
    let policy = Policy::parse(&format!("rules: {{ r: {{ limit: 1/s, {rule} }} }}"), &|_| None);
    let shown = format!("{:?} {:#?}", policy.as_ref().unwrap(), policy.as_ref().unwrap());
    assert!(!shown.contains("hunter"), "{shown}");
    for value in ["hunter2", "other"] {
        let told = why(rule, &[("header.x-a", value), ("user", "hunter3")]);
        assert!(!told.contains("hunter"), "{told}");
    }
    let long = format!("/\u{9b}{}", "x".repeat(500));
    struct Odd(String);
    impl tollkeeper_policy::RequestView for Odd {
        fn path(&self) -> Option<&str> {
            Some(&self.0)
        }
    }
    let policy = Policy::parse("rules: { r: { limit: 1/s, match: { path: /y } } }", &|_| None);
    let told = policy.unwrap().explain(&Odd(long))[0].why.clone();
    assert!(told.len() < 200 && !told.contains(char::is_control), "{told}");
}
