//! For whom a verdict was counted: each rule once, with its key, and whether that rule said no,
//! whoever decided.

use tollkeeper_engine::{Ask, Judgement, Source, Target, Verdict};
use tollkeeper_policy::Attributes;
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Bench, ready};

const POLICY: &str = "
rules:
  per-ip: { key: ip, limit: 100/day }
  per-key:
    match: { path: /api }
    key: header:x-api-key
    limits: [50/day, 2/min, 50/h]
    on_failure: closed
  quiet: { match: { path: /api }, limit: 1/day, shadow: true }
";

fn decided(bench: &Bench, key: &str) -> Verdict {
    let pairs = [("ip", "1.2.3.4"), ("path", "/api"), ("header.x-api-key", key)];
    let request = Attributes::from_pairs(pairs).unwrap_or_else(|error| panic!("{error}"));
    match ready(bench.engine.judge(bench.engine.meet(&request))).unwrap() {
        Judgement::Decided(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

fn counted(verdict: &Verdict) -> Vec<(&str, &str, bool)> {
    verdict.counted().map(|counted| (counted.rule, counted.key, counted.refused)).collect()
}

#[test]
fn each_rule_counts_once_and_only_the_one_that_refuses_has_refused() {
    let bench = Bench::new(POLICY);
    let expected = |refused| {
        [("per-ip", "1.2.3.4", false), ("per-key", "k", refused), ("quiet", "global", false)]
    };
    for source in [Source::Store, Source::Store, Source::Store, Source::Cache] {
        let verdict = decided(&bench, "k");
        assert_eq!(verdict.source(), source);
        assert_eq!(counted(&verdict), expected(!verdict.allowed()));
    }
    assert!(!decided(&bench, "k").allowed());
    bench.mood(Mood::Refusing);
    let verdict = decided(&bench, "other");
    assert!(!verdict.allowed() && verdict.source() == Source::Fallback);
    assert_eq!(counted(&verdict)[1], ("per-key", "other", true));
}

#[test]
fn a_limit_that_came_along_and_a_rule_by_its_name_have_the_key_of_the_request() {
    let bench = Bench::new(POLICY);
    let inline = Target::Inline { limit: "1/h", algorithm: None };
    let check = |target, key| ready(bench.engine.check(Ask { target, key, cost: 1 })).unwrap();
    assert_eq!(counted(&check(inline, Some("a"))), [("inline", "a", false)]);
    assert_eq!(counted(&check(inline, Some("a"))), [("inline", "a", true)]);
    assert_eq!(counted(&check(Target::Rule("per-ip"), None)), [("per-ip", "global", false)]);
}
