//! The matcher and a naive one agree on random rules and random requests, and what is explained is
//! what is decided.

mod naive;
mod random;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use tollkeeper_policy::{Meeting, Policy};

fn parse(text: &str) -> Policy {
    Policy::parse(text, &|_| None).unwrap_or_else(|errors| panic!("{}", errors.render("-", text)))
}

fn check(policy: &Policy, rules: &[random::RuleSpec], told: &random::Told) -> Meeting {
    let prefix = policy.client_ip().ipv6_prefix;
    let meeting = policy.meet(told);
    let (met, denied) = naive::meet(rules, told, prefix);
    let ours: Vec<naive::Met> =
        meeting.met.iter().map(|met| (met.rule, met.tier, met.key.to_string(), met.cost)).collect();
    assert_eq!(ours, met);
    let ours: Vec<_> = meeting.denied.iter().map(|denied| (denied.rule, denied.part)).collect();
    assert_eq!(ours, denied);
    for denied in &meeting.denied {
        assert_eq!(denied.shadow, rules[denied.rule].shadow);
    }
    meeting
}

/// What is explained is what is decided, and each rule is explained.
fn check_explained(policy: &Policy, told: &random::Told, meeting: &Meeting) {
    let explained = policy.explain(told);
    assert_eq!(explained.len(), policy.rules().len());
    let met: Vec<_> = explained.iter().filter_map(|explained| explained.met.clone()).collect();
    assert_eq!(met, meeting.met.to_vec());
    for (place, explained) in explained.iter().enumerate() {
        assert_eq!(explained.rule.name(), policy.rules()[place].name());
        let denied = meeting.denied.iter().any(|denied| denied.rule == place);
        assert_eq!(explained.denied, denied);
        assert!(!(explained.denied && explained.applies()));
        assert_eq!(explained.limits().is_empty(), !explained.applies());
        assert!(!explained.why.is_empty() && !explained.why.ends_with('.'));
    }
    let limits: usize = explained.iter().map(|explained| explained.limits().len()).sum();
    assert_eq!(policy.checks(meeting).count(), limits);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_matcher_and_the_naive_one(
        rules in vec(random::rule(), 1..9),
        requests in vec(random::request(), 1..6),
        prefix in select(&[64_u8, 48, 1, 128][..]),
    ) {
        let policy = parse(&random::file(&rules, prefix));
        for told in &requests {
            let meeting = check(&policy, &rules, told);
            check_explained(&policy, told, &meeting);
        }
    }
}

#[test]
fn random_requests_do_meet_rules() {
    // A property over requests that meet nothing would show nothing.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut met, mut denied, mut none, mut several) = (0, 0, 0, 0);
    for _ in 0..500 {
        let tree = (vec(random::rule(), 1..9), random::request()).new_tree(&mut runner).unwrap();
        let (rules, told) = tree.current();
        let meeting = check(&parse(&random::file(&rules, 64)), &rules, &told);
        met += meeting.met.len();
        denied += meeting.denied.len();
        none += usize::from(meeting.is_empty());
        several += usize::from(meeting.met.len() > 1);
    }
    assert!(met > 300 && denied > 50, "{met} {denied}");
    assert!(none > 50 && several > 50, "{none} {several}");
}
