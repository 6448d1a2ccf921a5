//! Requests for which the policy finds the rules: each rule with its own key, cost and tier.

use tollkeeper_core::Amended;
use tollkeeper_engine::{Handle, Judgement, Source, Verdict};
use tollkeeper_policy::Attributes;
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Bench, ready};

const POLICY: &str = "
rules:
  per-ip: { key: ip, limit: 100/day }
  per-key:
    match: { path: /api/** }
    key: [header:x-api-key]
    limit: 10/day
    cost: { attribute: units, min: 1, max: 5, default: 1 }
    tiers: { by: attribute:plan, limits: { pro: 50/day } }
    refund_on: [5xx]
  uploads:
    match: { path: /upload }
    key: user
    when_missing: deny
    concurrency: { max_in_flight: 1, lease: 1h }
";

fn request(pairs: &[(&str, &str)]) -> Attributes {
    Attributes::from_pairs(pairs.iter().copied()).unwrap_or_else(|error| panic!("{error}"))
}

fn judge(bench: &Bench, pairs: &[(&str, &str)]) -> Judgement {
    let encounter = bench.engine.meet(&request(pairs));
    ready(bench.engine.judge(encounter)).unwrap()
}

fn decided(bench: &Bench, pairs: &[(&str, &str)]) -> Verdict {
    match judge(bench, pairs) {
        Judgement::Decided(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

fn remaining(verdict: &Verdict) -> Vec<(&str, u64)> {
    verdict.limits().map(|limit| (limit.name, limit.outcome.remaining)).collect()
}

#[test]
fn each_rule_counts_its_own_key_at_its_own_cost() {
    let bench = Bench::new(POLICY);
    let api = |units: &'static str, key: &'static str| {
        let pairs =
            [("path", "/api/x"), ("ip", "1.2.3.4"), ("header.x-api-key", key), ("units", units)];
        decided(&bench, &pairs)
    };
    assert_eq!(remaining(&api("3", "a")), [("per-ip", 99), ("per-key", 7)]);
    assert_eq!(remaining(&api("9", "b")), [("per-ip", 98), ("per-key", 5)]);
    let verdict = api("5", "a");
    assert_eq!((remaining(&verdict)[1], verdict.cost()), (("per-key", 2), 5));
}

#[test]
fn a_tier_has_limits_of_its_own_and_keeps_what_was_used() {
    let bench = Bench::new(POLICY);
    let with = |plan: &'static str| {
        let pairs = [("path", "/api"), ("header.x-api-key", "a"), ("plan", plan)];
        decided(&bench, &pairs).decision().remaining
    };
    assert_eq!((with("free"), with("pro"), with("free")), (9, 48, 7));
}

#[test]
fn where_no_rule_applies_a_request_is_free_and_where_its_key_is_missing_it_may_be_denied() {
    let bench = Bench::new(POLICY);
    assert!(matches!(judge(&bench, &[("path", "/about")]), Judgement::Free));
    let Judgement::Missing { rule, part } = judge(&bench, &[("path", "/upload")]) else { panic!() };
    assert_eq!((rule.as_str(), part.as_str()), ("uploads", "attribute:user"));
    assert_eq!(bench.engine.store().calls(), 0);
}

#[test]
fn a_permit_of_a_matched_request_is_given_back_by_its_handle() {
    let bench = Bench::new(POLICY);
    let upload = [("path", "/upload"), ("user", "alice"), ("ip", "1.2.3.4")];
    for mood in [Mood::Well, Mood::Refusing] {
        bench.mood(mood);
        let held = decided(&bench, &upload);
        assert!(held.allowed() && !decided(&bench, &upload).allowed(), "{mood:?}");
        let handle: Handle = held.handle().unwrap().to_string().parse().unwrap();
        assert_eq!(ready(bench.engine.release(&handle)), Ok(Amended::Done { forgiven: 0 }));
        let again = decided(&bench, &upload);
        assert!(again.allowed(), "{mood:?}");
        assert!(ready(bench.engine.release(again.handle().unwrap())).is_ok());
    }
}

#[test]
fn an_answer_of_a_kind_that_is_refunded_gives_back_under_those_rules_alone() {
    for (mood, source) in [(Mood::Well, Source::Store), (Mood::Refusing, Source::Fallback)] {
        let bench = Bench::new(POLICY);
        bench.mood(mood);
        let pairs =
            [("path", "/api"), ("ip", "1.2.3.4"), ("header.x-api-key", "a"), ("units", "4")];
        let verdict = decided(&bench, &pairs);
        assert_eq!((verdict.source(), remaining(&verdict)[1].1), (source, 6));
        ready(bench.engine.refund_on(&verdict, 200)).unwrap();
        ready(bench.engine.refund_on(&verdict, 503)).unwrap();
        assert_eq!(remaining(&decided(&bench, &pairs)), [("per-ip", 98), ("per-key", 6)]);
    }
}

/// It was taken off a shadow's count, which had not counted the request.
#[test]
fn a_shadow_that_would_have_denied_gives_nothing_back() {
    let file = "rules: { seen: { shadow: true, algorithm: sliding_window_log, limit: 2/day, refund_on: [5xx] } }";
    let bench = Bench::new(file);
    for left in [1, 0, 0, 0] {
        let verdict = decided(&bench, &[("path", "/")]);
        assert_eq!(remaining(&verdict), [("seen", left)]);
        if !verdict.limits().all(|limit| limit.outcome.allowed) {
            ready(bench.engine.refund_on(&verdict, 500)).unwrap();
        }
    }
}

/// Only the limits of those without a tier were found by their rule's name.
#[test]
fn a_rule_is_reset_with_the_limits_of_its_tiers() {
    let file = "
rules:
  api:
    key: user
    limits: [20/s, 5000/day]
    tiers: { by: attribute:plan, limits: { pro: [200/s, 1000000/30d] } }
";
    let bench = Bench::new(file);
    let pro = [("user", "alice"), ("plan", "pro")];
    let mut names: Vec<String> =
        decided(&bench, &pro).limits().map(|limit| limit.name.to_owned()).collect();
    let shown = ready(bench.engine.inspect(Some("api"), Some("alice"), 9)).unwrap();
    let mut found: Vec<String> = shown.into_iter().map(|entry| entry.limit).collect();
    names.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, names);
    assert_eq!(ready(bench.engine.reset(Some("api"), Some("alice"))), Ok(2));
    let left: Vec<u64> = decided(&bench, &pro).limits().map(|it| it.outcome.remaining).collect();
    assert_eq!(left, [199, 999_999]);
}

#[test]
fn whoever_lacks_what_is_counted_by_is_heard_of() {
    let file = "
rules:
  seen: { key: ip, when_missing: deny, shadow: true, limit: 9/s }
  first: { key: user, when_missing: deny, limit: 9/s }
  second: { key: user, when_missing: deny, limit: 9/s }
";
    let bench = Bench::new(file);
    let lacked = || std::mem::take(&mut *bench.heard.lacked.lock().unwrap());
    assert!(matches!(judge(&bench, &[("path", "/")]), Judgement::Missing { .. }));
    assert_eq!(lacked(), [("seen".to_owned(), true), ("first".to_owned(), false)]);
    assert!(matches!(judge(&bench, &[("user", "alice")]), Judgement::Decided(_)));
    assert_eq!(lacked(), [("seen".to_owned(), true)]);
    assert!(matches!(judge(&bench, &[("user", "a"), ("ip", "1.2.3.4")]), Judgement::Decided(_)));
    assert!(lacked().is_empty());
}
