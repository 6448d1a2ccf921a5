//! Files that are valid, in all their spellings, and what becomes of them.

use tollkeeper_core::{Algorithm, LeakMode, Quota, Rate, WhenFull};
use tollkeeper_policy::{Policy, StoreUrl};

const FIRST: &str = "\
rules:
  global:
    algorithm: token_bucket
    token_bucket:           { capacity: 10, refill_rate: 5 }      # a bare number is per second
    leaking_bucket:         { queue_capacity: 10, leak_rate: 5 }
    fixed_window:           { max_requests: 10, window_size: 60 } # a bare number is seconds
    sliding_window_log:     { max_requests: 10, window_size: 60 }
    sliding_window_counter: { max_requests: 10, window_size: 60 }
";

const OTHERS: &str = "    gcra: { burst: 10, rate: 5/s }
    concurrency: { max_in_flight: 20, lease: 30s }
";

fn parse(text: &str) -> Policy {
    Policy::parse(text, &|_| None).unwrap_or_else(|errors| panic!("{}", errors.render("-", text)))
}

/// The quota of a rule with these lines.
fn quota(lines: &[&str]) -> Quota {
    let text = format!("rules:\n  r:\n    {}\n", lines.join("\n    "));
    *parse(&text).rules()[0].limits()[0].quota()
}

fn rate(count: u64, period_us: u64) -> Rate {
    Rate::new(count, period_us).unwrap()
}

#[test]
fn the_first_file_of_the_manual() {
    let policy = parse(FIRST);
    let rule = policy.rule("global").unwrap();
    assert_eq!(rule.limits().len(), 1);
    assert_eq!(rule.limits()[0].name(), "global");
    assert_eq!(rule.limits()[0].quota(), &Quota::token_bucket(10, rate(5, 1_000_000)).unwrap());
    assert!(!rule.is_shadow());
}

#[test]
fn another_algorithm_makes_the_other_block_count() {
    let minute = 60_000_000;
    for (algorithm, quota) in [
        (Algorithm::TokenBucket, Quota::token_bucket(10, rate(5, 1_000_000))),
        (Algorithm::Gcra, Quota::gcra(10, rate(5, 1_000_000))),
        (
            Algorithm::LeakingBucket,
            Quota::leaking_bucket(10, rate(5, 1_000_000), LeakMode::Shape, None),
        ),
        (Algorithm::FixedWindow, Quota::fixed_window(10, minute)),
        (Algorithm::SlidingWindowLog, Quota::sliding_window_log(10, minute)),
        (Algorithm::SlidingWindowCounter, Quota::sliding_window_counter(10, minute)),
        (Algorithm::Concurrency, Quota::concurrency(20, 30_000_000)),
    ] {
        let named = format!("algorithm: {algorithm}");
        let policy = parse(&(FIRST.replace("algorithm: token_bucket", &named) + OTHERS));
        let rule = &policy.rules()[0];
        assert_eq!(rule.algorithm(), algorithm);
        assert_eq!(rule.limits()[0].quota(), &quota.unwrap(), "{algorithm}");
    }
}

#[test]
fn a_single_block_needs_no_algorithm() {
    assert_eq!(
        quota(&["gcra: { burst: 10, rate: 5/s }"]),
        Quota::gcra(10, rate(5, 1_000_000)).unwrap()
    );
    assert_eq!(
        quota(&[
            "leaking_bucket: { queue_capacity: 50, leak_rate: 10/s, mode: meter, max_delay: 2s }"
        ]),
        Quota::leaking_bucket(50, rate(10, 1_000_000), LeakMode::Meter, Some(2_000_000)).unwrap()
    );
}

#[test]
fn rates_and_durations_in_all_their_spellings() {
    for (written, expected) in [
        ("5", rate(5, 1_000_000)),
        ("\"5\"", rate(5, 1_000_000)),
        ("2.5", rate(5, 2_000_000)),
        ("2.5/s", rate(5, 2_000_000)),
        ("300/min", rate(5, 1_000_000)),
        ("1000/h", rate(1000, 3_600_000_000)),
        ("5000/day", rate(5000, 86_400_000_000)),
        ("10/10s", rate(1, 1_000_000)),
        ("10 per 10 s", rate(1, 1_000_000)),
        ("'10 per 10 s'", rate(1, 1_000_000)),
    ] {
        let block = format!("token_bucket: {{ capacity: 10, refill_rate: {written} }}");
        assert_eq!(quota(&[&block]), Quota::token_bucket(10, expected).unwrap(), "{written}");
    }
    for (written, us) in
        [("60", 60_000_000), ("250ms", 250_000), ("1m30s", 90_000_000), ("7d", 604_800_000_000)]
    {
        let block = format!("fixed_window: {{ max_requests: \"10\", window_size: {written} }}");
        assert_eq!(quota(&[&block]), Quota::fixed_window(10, us).unwrap(), "{written}");
    }
}

#[test]
fn the_short_form() {
    let minute = 60_000_000;
    let bucket = |capacity| Quota::token_bucket(capacity, rate(100, minute)).unwrap();
    assert_eq!(quota(&["limit: 100/min"]), bucket(100));
    assert_eq!(quota(&["limit: 100/min burst 20"]), bucket(20));
    assert_eq!(quota(&["limits: [100/min]"]), bucket(100));
    assert_eq!(quota(&["limits:", "  - 100/min burst 20"]), bucket(20));
    assert_eq!(
        quota(&["algorithm: fixed_window", "limit: 100/min"]),
        Quota::fixed_window(100, minute).unwrap()
    );
    // A block that does not count may stand beside.
    assert_eq!(
        quota(&[
            "algorithm: gcra",
            "limit: 100/min",
            "fixed_window: { max_requests: 1, window_size: 1 }"
        ]),
        Quota::gcra(100, rate(100, minute)).unwrap()
    );
}

#[test]
fn limits_are_named_by_their_period() {
    let names = |limits: &str| -> Vec<String> {
        let policy = parse(&format!("rules: {{ per-key: {{ limits: {limits} }} }}"));
        policy.rules()[0].limits().iter().map(|limit| limit.name().to_owned()).collect()
    };
    assert_eq!(names("[20/s]"), ["per-key"]);
    assert_eq!(names("[20/s, 5000/day]"), ["per-key/1s", "per-key/1d"]);
    assert_eq!(names("[5000/day, 100/min, 20/s]"), ["per-key/1d", "per-key/1m", "per-key/1s"]);
    assert_eq!(
        names("[20/s, 30/60s, 40/min, 9/1000ms]"),
        ["per-key/1s", "per-key/1m", "per-key/1m.2", "per-key/1s.2"]
    );
}

#[test]
fn settings_and_their_defaults() {
    let policy = parse("rules: { a: { limit: 1/s, shadow: true } }");
    assert!(policy.rules()[0].is_shadow());
    assert_eq!(policy.store().url, StoreUrl::Memory);
    assert_eq!(policy.store().max_keys, 1_000_000);
    assert_eq!(policy.store().when_full, WhenFull::Evict);
    assert_eq!(policy.listen().http, Some("127.0.0.1:8080".parse().unwrap()));

    let policy = parse(
        "listen: { http: \"[::1]:9000\" }\n\
         store: { url: \"memory://\", max_keys: 5, when_full: deny }\n\
         rules: { a: { limit: 1/s } }",
    );
    assert_eq!(policy.store().max_keys, 5);
    assert_eq!(policy.store().when_full, WhenFull::Deny);
    assert_eq!(policy.listen().http, Some("[::1]:9000".parse().unwrap()));

    let policy = parse("listen: {}\nstore: {}\nrules: { a: { limit: 1/s } }");
    assert_eq!(policy.listen().http, None, "a door not named stays closed");
}

#[test]
fn rules_are_found_by_name_and_kept_in_order() {
    let policy =
        parse("rules: { zeta: { limit: 1/s }, per-ip: { limit: 2/s }, alpha: { limit: 3/s } }");
    let names: Vec<&str> = policy.rules().iter().map(|rule| rule.name()).collect();
    assert_eq!(names, ["zeta", "per-ip", "alpha"]);
    assert_eq!(policy.rule("alpha").unwrap().limits()[0].quota().limit(), 3);
    assert!(policy.rule("beta").is_none());
    assert_eq!(policy.suggest("per-i"), Some("per-ip"));
    assert_eq!(policy.suggest("alhpa"), Some("alpha"));
    assert_eq!(policy.suggest("something else"), None);
}

#[test]
fn yaml_of_every_kind() {
    let policy = parse("\u{feff}---\r\nrules:\r\n  a: &a { limit: 1/s }\r\n  b: *a\r\n...\r\n");
    assert_eq!(policy.rules().len(), 2);
    let policy = parse("{\"rules\": {\"a\": {\"limit\": \"1/s\"}}}");
    assert_eq!(policy.rules().len(), 1);
}

#[test]
fn variables_stand_for_values_but_not_for_structure() {
    let env = |name: &str| match name {
        "LIMIT" => Some("7/s".to_owned()),
        "YAML" => Some("7/s, shadow: true }".to_owned()),
        _ => None,
    };
    let text = "rules: { a: { limit: \"${LIMIT}\", shadow: \"${SHADOW:-true}\" } }";
    let policy = Policy::parse(text, &env).unwrap();
    assert_eq!(policy.rules()[0].limits()[0].quota().limit(), 7);
    assert!(policy.rules()[0].is_shadow());

    let text = "rules: { a: { limit: \"${YAML}\" } }";
    assert!(Policy::parse(text, &env).is_err());
    let text = "rules: { \"${LIMIT}\": { limit: 1/s } }";
    assert!(Policy::parse(text, &env).unwrap_err().to_string().contains("`${LIMIT}`"));
}
