//! The local limiter begins where the store ended: switching gives no free burst.

use tollkeeper_core::{Check, Request, Store};
use tollkeeper_engine::Source;
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Bench, ready};

/// Every algorithm, ten units, and nothing comes back during a test. What the store has denied is
/// not told again: here the local limiter is to deny.
const POLICY: &str = "
store: { denied_cache: 0 }
rules:
  token_bucket: { token_bucket: { capacity: 10, refill_rate: 10/h } }
  gcra: { gcra: { burst: 10, rate: 10/h } }
  leaking_bucket: { leaking_bucket: { queue_capacity: 10, leak_rate: 10/h } }
  fixed_window: { fixed_window: { max_requests: 10, window_size: 1h } }
  sliding_window_log: { sliding_window_log: { max_requests: 10, window_size: 1h } }
  sliding_window_counter: { sliding_window_counter: { max_requests: 10, window_size: 1h } }
  concurrency: { concurrency: { max_in_flight: 10, lease: 1h } }
";

const RULES: [&str; 7] = [
    "token_bucket",
    "gcra",
    "leaking_bucket",
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "concurrency",
];

fn admitted_after_the_store_is_gone(bench: &Bench, rule: &str) -> usize {
    bench.mood(Mood::Refusing);
    (0..30)
        .filter(|_| {
            let verdict = bench.at_once(rule, "alice");
            assert_eq!(verdict.source(), Source::Fallback);
            verdict.allowed()
        })
        .count()
}

#[test]
fn what_this_node_has_used_is_used() {
    for rule in RULES {
        for used in 0..=10 {
            let bench = Bench::new(POLICY);
            for _ in 0..used {
                assert_eq!(bench.at_once(rule, "alice").source(), Source::Store);
            }
            assert_eq!(admitted_after_the_store_is_gone(&bench, rule), 10 - used, "{rule}");
        }
    }
}

#[test]
fn what_other_nodes_have_used_is_used_too() {
    for rule in RULES.iter().filter(|rule| **rule != "concurrency") {
        let bench = Bench::new(POLICY);
        let quota = bench.engine.policy().quota(rule).copied().unwrap();
        let check = Check::new(rule, &quota, "alice", 7);
        let elsewhere = Request::new([check], None).unwrap();
        assert!(ready(bench.engine.store().behind().decide(&[elsewhere]))[0].is_ok());
        assert_eq!(bench.at_once(rule, "alice").decision().remaining, 2);
        assert_eq!(admitted_after_the_store_is_gone(&bench, rule), 2, "{rule}");
    }
}

#[test]
fn a_denial_warms_as_an_admission_does() {
    for rule in RULES.iter().filter(|rule| **rule != "concurrency") {
        let bench = Bench::new(POLICY);
        let quota = bench.engine.policy().quota(rule).copied().unwrap();
        let check = Check::new(rule, &quota, "alice", 10);
        let elsewhere = Request::new([check], None).unwrap();
        assert!(ready(bench.engine.store().behind().decide(&[elsewhere]))[0].is_ok());
        assert!(!bench.at_once(rule, "alice").allowed());
        assert_eq!(admitted_after_the_store_is_gone(&bench, rule), 0, "{rule}");
    }
}

#[test]
fn a_share_is_warmed_in_proportion() {
    let policy = POLICY.replace("denied_cache: 0", "denied_cache: 0, nodes: 2");
    for rule in RULES.iter().filter(|rule| **rule != "concurrency") {
        let bench = Bench::new(&policy);
        for _ in 0..4 {
            let _ = bench.at_once(rule, "alice");
        }
        // 6 of 10 are left; of a share of 5 that is 3.
        assert_eq!(admitted_after_the_store_is_gone(&bench, rule), 3, "{rule}");
    }
}
