//! The local limiter begins where the store ended: switching gives no free burst.

use std::sync::Arc;

use tollkeeper_core::{Answer, Check, ManualClock, Outcome, Request, Store, StoreError};
use tollkeeper_engine::{Ask, Engine, ManualTimer, Source, Target};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::relay::{Relay, Relayed};

use crate::kit::{Bench, Memory, ready};

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

/// A store whose processes have counted each other.
#[derive(Debug)]
struct OfFour(FaultyStore<Memory>);

impl Relay for OfFour {
    type To = FaultyStore<Memory>;

    fn to(&self) -> &Self::To {
        &self.0
    }

    fn nodes(&self) -> Option<u64> {
        Some(4)
    }
}

#[test]
fn a_share_is_one_of_as_many_as_were_counted() {
    let policy = "
store: { denied_cache: 0, nodes: 2 }
rules: { api: { token_bucket: { capacity: 40, refill_rate: 40/h } } }
";
    let policy = Policy::parse(policy, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let clock = ManualClock::at(1_700_000_000_000_000);
    let memory = || MemoryStore::new(Settings::default(), clock.clone());
    let (store, timer) = (Relayed(OfFour(FaultyStore::new(memory()))), ManualTimer::default());
    let engine = Engine::guarded(policy, store, memory(), Arc::new(timer)).unwrap();
    let check = |key| {
        let ask = Ask { target: Target::Rule("api"), key: Some(key), cost: 1 };
        ready(engine.check(ask)).unwrap()
    };
    (0..20).for_each(|_| assert!(check("alice").allowed()));
    engine.store().0.to().set(Mood::Refusing);
    let admitted = |key| (0..40).filter(|_| check(key).allowed()).count();
    // Half is left of the one, and nobody has asked for the other; a part has ten.
    assert_eq!((admitted("alice"), admitted("bob")), (5, 10));
    assert_eq!(check("bob").decision().limit, 10);
}

/// A store that decides in this process, which has nothing left until the server gives it more.
#[derive(Debug)]
struct Spent(FaultyStore<Memory>);

impl Relay for Spent {
    type To = FaultyStore<Memory>;

    fn to(&self) -> &Self::To {
        &self.0
    }

    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        let answers = self.0.decide(requests).await.into_iter();
        let here = |outcome: &Outcome| Outcome { remaining: 0, here: true, ..*outcome };
        let here = |answer: Answer| {
            let is_charged = answer.charged_at_us.is_some();
            Answer::new(answer.now_us, is_charged, answer.outcomes().iter().map(here))
        };
        answers.map(|answer| answer.map(here)).collect()
    }
}

/// Whoever had waited for units in this process taught it that the limit was used up.
#[test]
fn what_this_process_had_left_says_nothing_of_the_limit() {
    let rules = "
rules:
  told: { limit: 10/h, consistency: sync, period: 1s }
";
    let policy = Policy::parse(rules, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let clock = ManualClock::at(1_700_000_000_000_000);
    let memory = || MemoryStore::new(Settings::default(), clock.clone());
    let (store, timer) = (Relayed(Spent(FaultyStore::new(memory()))), ManualTimer::default());
    let engine = Engine::guarded(policy, store, memory(), Arc::new(timer)).unwrap();
    let ask = Ask { target: Target::Rule("told"), key: Some("alice"), cost: 1 };
    let check = || ready(engine.check(ask)).unwrap();
    let verdict = check();
    assert_eq!((verdict.source(), verdict.remaining_is_at_least()), (Source::Sync, true));
    engine.store().0.to().set(Mood::Refusing);
    let admitted = (0..30).filter(|_| check().allowed()).count();
    assert_eq!(admitted, 10);
}
