//! Rules and policies that are made in code.

use tollkeeper_core::limits::MAX_NAME_BYTES;
use tollkeeper_core::{Algorithm, LeakMode, Quota, Rate};
use tollkeeper_policy::limits::{MAX_LIMITS, MAX_RULE_NAME_BYTES, MAX_RULES};
use tollkeeper_policy::{Cost, Exempt, Match, Networks, Policy, Rule, RuleError};

fn window(max_requests: u64) -> Quota {
    Quota::fixed_window(max_requests, 60_000_000).unwrap()
}

fn bucket(count: u64, period_us: u64) -> Quota {
    Quota::token_bucket(7, Rate::new(count, period_us).unwrap()).unwrap()
}

fn names(limits: Vec<Quota>) -> Vec<String> {
    let rule = Rule::new("r", limits).unwrap();
    rule.limits().iter().map(|limit| limit.name().to_owned()).collect()
}

#[test]
fn a_single_limit_has_the_name_of_its_rule() {
    let rule = Rule::new("api", [window(10)]).unwrap().shadow(true);
    assert_eq!(rule.limits()[0].name(), "api");
    assert_eq!(rule.limits()[0].quota(), &window(10));
    assert_eq!(rule.algorithm(), Algorithm::FixedWindow);
    assert!(rule.is_shadow());
}

#[test]
fn several_limits_are_named_by_what_tells_them_apart() {
    let leak = Quota::leaking_bucket(5, Rate::new(5, 1_000_000).unwrap(), LeakMode::Meter, None);
    let limits = vec![
        window(10),
        Quota::concurrency(5, 30_000_000).unwrap(),
        bucket(10, 1_000_000),
        bucket(30_000, 1_000_000),
        leak.unwrap(),
        window(20),
    ];
    let named = ["r/1m", "r/30s", "r/100ms", "r/3-per-100us", "r/200ms", "r/1m.2"];
    assert_eq!(names(limits.clone()), named);
    let mut reversed = limits;
    reversed.truncate(5);
    reversed.reverse();
    assert_eq!(names(reversed), named[..5].iter().rev().copied().collect::<Vec<_>>());
}

#[test]
fn the_capacity_of_a_bucket_is_no_part_of_its_name() {
    let rate = Rate::new(10, 1_000_000).unwrap();
    let small = names(vec![Quota::gcra(1, rate).unwrap(), window(1)]);
    assert_eq!(small, names(vec![Quota::gcra(99, rate).unwrap(), window(1)]));
}

#[test]
fn the_longest_names_fit_into_a_key() {
    let rule = "r".repeat(MAX_RULE_NAME_BYTES);
    let rate = Rate::new((1 << 53) - 1, 400 * 86_400 * 1_000_000 - 1).unwrap();
    let limits = (1..=MAX_LIMITS as u64).map(|burst| Quota::gcra(burst, rate).unwrap());
    let rule = Rule::new(rule, limits).unwrap();
    for limit in rule.limits() {
        assert!(limit.name().len() <= MAX_NAME_BYTES, "{}", limit.name());
    }
}

#[test]
fn bad_rules_are_refused() {
    let refused = |name: &str, limits: Vec<Quota>| Rule::new(name, limits).unwrap_err();
    for name in ["", "a b", "ä", "a/b", "a\n", &"x".repeat(65)] {
        assert!(matches!(refused(name, vec![window(1)]), RuleError::BadName { .. }), "{name}");
    }
    assert!(Rule::new("x".repeat(64), [window(1)]).is_ok());
    assert_eq!(refused("inline", vec![window(1)]), RuleError::ReservedName);
    assert!(matches!(refused("r", vec![]), RuleError::NoLimits { .. }));
    assert_eq!(
        refused("r", vec![window(1), window(2), window(1)]).to_string(),
        "limits 1 and 3 of rule `r` are the same"
    );
    let many = |count: u64| (1..=count).map(window).collect::<Vec<_>>();
    assert!(Rule::new("r", many(MAX_LIMITS as u64)).is_ok());
    assert!(matches!(refused("r", many(MAX_LIMITS as u64 + 1)), RuleError::TooManyLimits { .. }));
}

#[test]
fn bad_policies_are_refused() {
    let rule = |name: String| Rule::new(name, [window(1)]).unwrap();
    let twice = Policy::from_rules([rule("a".into()), rule("b".into()), rule("a".into())]);
    assert_eq!(twice.unwrap_err(), RuleError::DuplicateRule { name: "a".into() });
    let many = |count| Policy::from_rules((0..count).map(|i| rule(format!("r{i}"))));
    assert!(many(MAX_RULES).is_ok());
    assert!(matches!(many(MAX_RULES + 1), Err(RuleError::TooManyRules { .. })));
    assert!(Policy::from_rules([]).unwrap().rules().is_empty());
}

fn rule() -> Rule {
    Rule::new("r", [window(1)]).unwrap()
}

#[test]
fn a_rule_made_in_code_is_the_one_of_the_file() {
    let made = rule()
        .matching(
            Match::any()
                .path("/a/**")
                .and_then(|match_| match_.path("/b/{id}"))
                .and_then(|match_| match_.method("GET"))
                .and_then(|match_| match_.host("*.example.com"))
                .and_then(|match_| match_.header("X-A", "*"))
                .unwrap(),
        )
        .keyed_by(["ip", "header:X-B"])
        .unwrap()
        .costing(Cost::told("attribute:n", 0..=9, 2).unwrap())
        .with_tiers("header:x-plan", [("pro", vec![window(5)])])
        .unwrap()
        .refunding(["5xx", "404"])
        .unwrap()
        .exempting(
            Exempt::nobody().ips(Networks::parse(["10.0.0.0/8"]).unwrap()).key("a|b").unwrap(),
        );
    let file = "rules:
  r:
    algorithm: fixed_window
    limit: 1/min
    match: { path: [/a/**, \"/b/{id}\"], methods: GET, host: \"*.example.com\", headers: { x-a: \"*\" } }
    key: [ip, header:x-b]
    cost: { attribute: n, min: 0, max: 9, default: 2 }
    tiers: { by: header:x-plan, limits: { pro: 5/min } }
    refund_on: [5xx, 404]
    exempt: { ips: 10.0.0.0/8, keys: a|b }";
    let policy = Policy::parse(file, &|_| None).unwrap();
    let shown = |rule: &Rule| format!("{rule:?}").replace("label: \"\"", "");
    assert_eq!(shown(&made), shown(&policy.rules()[0]));
    assert_eq!(made.match_(), policy.rules()[0].match_());
    assert_eq!(made.exempt(), policy.rules()[0].exempt());
}

#[test]
fn parts_of_rules_that_are_refused_in_code() {
    let told = |refused: Result<Rule, RuleError>| refused.unwrap_err().to_string();
    assert_eq!(
        told(rule().keyed_by(["ip", "hedaer:x"])),
        "`key` is `hedaer:x`, which is not known; expected `ip`, `header:NAME`, `cookie:NAME`, \
         `query:NAME`, `route`, `method`, `host`, `user` or `attribute:NAME`; \
         did you mean `header:x`?"
    );
    assert!(
        told(rule().refunding(["6xx"])).starts_with("`refund_on` is `6xx`, which is no status")
    );
    let tiers = |by: &str, tiers: Vec<(String, Vec<Quota>)>| told(rule().with_tiers(by, tiers));
    let pro = || vec![("pro".to_owned(), vec![window(5)])];
    assert!(tiers("plan", pro()).starts_with("`by` is `plan`"));
    assert_eq!(tiers("attribute:p", vec![]), "rule `r` has 0 tiers; expected 1 to 64");
    let twice = [pro(), pro()].concat();
    assert_eq!(tiers("attribute:p", twice), "rule `r` has two tiers with the name `pro`");
    let nameless = vec![(String::new(), vec![window(5)])];
    assert!(tiers("attribute:p", nameless).contains("whose name has 0 bytes"));
    let empty = vec![("pro".to_owned(), vec![])];
    assert_eq!(tiers("attribute:p", empty), "tier `pro`: rule `r` has no limit");
    let many = (0..65).map(|i| (i.to_string(), vec![window(5)])).collect();
    assert_eq!(tiers("attribute:p", many), "rule `r` has 65 tiers; expected 1 to 64");
    for cost in [0, 1 << 53] {
        assert!(Cost::fixed(cost).is_err());
    }
    assert!(Cost::fixed((1 << 53) - 1).is_ok());
    for (min, max, default) in [(5, 4, 5), (0, 0, 0), (1, 5, 6), (1, 5, 0), (0, 1 << 53, 1)] {
        assert!(Cost::told("attribute:n", min..=max, default).is_err());
    }
}
