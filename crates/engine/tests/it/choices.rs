//! Open, closed and static: what each rule tells without the store.

use tollkeeper_engine::{Ask, Source, Target, Verdict};
use tollkeeper_policy::OnFailure;
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Bench, ready};

const POLICY: &str = "
rules:
  lenient: { limit: 2/min, on_failure: open }
  strict: { limit: 2/min, on_failure: closed }
  usual: { limit: 2/min }
  quiet: { limit: 2/min, on_failure: closed, shadow: true }
";

fn refusing(policy: &str) -> Bench {
    let bench = Bench::new(policy);
    bench.mood(Mood::Refusing);
    bench
}

fn all(bench: &Bench, key: &str) -> Verdict {
    let ask = Ask { target: Target::EveryRule, key: Some(key), cost: 1 };
    ready(bench.engine.check(ask)).unwrap()
}

#[test]
fn open_admits_everything() {
    let bench = refusing(POLICY);
    for _ in 0..10 {
        let verdict = bench.at_once("lenient", "alice");
        assert!(verdict.allowed() && verdict.handle().is_none());
        assert_eq!(verdict.source(), Source::Fallback);
        assert_eq!((verdict.decision().limit, verdict.decision().remaining), (2, 2));
        assert_eq!(verdict.decision().charged_at_us, None);
    }
}

#[test]
fn closed_denies_everything_and_says_that_the_limit_is_not_why() {
    let bench = refusing(POLICY);
    let verdict = bench.at_once("strict", "alice");
    assert!(!verdict.allowed() && verdict.failed_closed());
    assert_eq!(verdict.decision().retry_after_us, Some(1_000_000));
    // Denied by its limit, it is an ordinary denial.
    bench.mood(Mood::Well);
    while bench.at_once("strict", "alice").allowed() {}
    let verdict = bench.at_once("strict", "alice");
    assert!(!verdict.allowed() && !verdict.failed_closed());
    assert_eq!(verdict.source(), Source::Cache);
}

#[test]
fn static_keeps_to_the_limit_in_this_process() {
    let bench = refusing(POLICY);
    let allowed: Vec<bool> = (0..4).map(|_| bench.at_once("usual", "alice").allowed()).collect();
    assert_eq!(allowed, [true, true, false, false]);
    let verdict = bench.at_once("usual", "alice");
    assert!(!verdict.failed_closed());
    let retry_us = verdict.decision().retry_after_us.unwrap();
    bench.clock.advance(retry_us - 1);
    assert!(!bench.at_once("usual", "alice").allowed());
    bench.clock.advance(1);
    assert!(bench.at_once("usual", "alice").allowed());
}

#[test]
fn where_rules_differ_the_strictest_wins_and_a_denial_charges_nothing() {
    let bench = refusing(POLICY);
    for _ in 0..5 {
        let verdict = all(&bench, "alice");
        assert!(verdict.failed_closed());
        assert_eq!(verdict.rule(), "strict");
        let choices: Vec<_> = verdict.limits().map(|limit| limit.on_failure.unwrap()).collect();
        let (open, closed) = (OnFailure::Open, OnFailure::Closed);
        assert_eq!(choices, [open, closed, OnFailure::Static, closed]);
    }
    let verdict = bench.at_once("usual", "alice");
    assert_eq!(verdict.decision().remaining, 1, "the denials were charged");
}

#[test]
fn a_shadow_rule_that_fails_closed_denies_nobody() {
    let bench = refusing(POLICY);
    let verdict = bench.at_once("quiet", "alice");
    assert!(verdict.allowed());
    assert!(!verdict.limits().next().unwrap().outcome.allowed);
}

#[test]
fn the_store_says_what_rules_do_that_say_nothing() {
    for (choice, allowed) in [("open", true), ("closed", false), ("static", true)] {
        let policy =
            format!("store: {{ on_failure: {choice} }}\nrules: {{ api: {{ limit: 1/min }} }}");
        let bench = refusing(&policy);
        assert_eq!(bench.at_once("api", "alice").allowed(), allowed, "{choice}");
        let second = choice == "open";
        assert_eq!(bench.at_once("api", "alice").allowed(), second, "{choice}");
    }
}

#[test]
fn each_of_several_nodes_has_its_share_and_at_least_one_unit() {
    for (nodes, share) in [(1, 10), (2, 5), (3, 3), (100, 1)] {
        let policy = format!("store: {{ nodes: {nodes} }}\nrules: {{ api: {{ limit: 10/min }} }}");
        let bench = refusing(&policy);
        let admitted = (0..20).filter(|_| bench.at_once("api", "alice").allowed()).count();
        assert_eq!(admitted, share, "{nodes} nodes");
        assert_eq!(bench.at_once("api", "alice").decision().limit, share as u64);
    }
}

#[test]
fn a_value_that_is_not_ours_is_the_affair_of_its_key() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::WrongState);
    for _ in 0..100 {
        assert_eq!(bench.at_once("usual", "alice").source(), Source::Fallback);
    }
    assert_eq!(*bench.heard.states.lock().unwrap(), 100);
    // Nobody else is kept from the store by it.
    assert_eq!(bench.heard.changes.lock().unwrap().len(), 0);
    bench.mood(Mood::Well);
    assert_eq!(bench.at_once("usual", "bob").source(), Source::Store);
}
