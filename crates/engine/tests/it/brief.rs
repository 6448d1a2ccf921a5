//! What is judged briefly: a request that goes, whose only limit leaves nothing to be done.

use std::sync::Arc;

use tollkeeper_core::ManualClock;
use tollkeeper_engine::{Brief, Engine, Judgement, Observer};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::{Attributes, Policy};

use crate::kit::{Bench, Heard};

type Judges = Engine<MemoryStore<ManualClock>>;

fn engine(rules: &str) -> Judges {
    let text = format!("rules: {{ {rules} }}");
    let policy = Policy::parse(&text, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let clock = ManualClock::at(1_700_000_000_000_000);
    Engine::new(policy, MemoryStore::new(Settings::default(), clock))
}

fn judge(engine: &Judges) -> Brief {
    let request = Attributes::from_pairs([("ip", "1.2.3.4")]).unwrap();
    engine.with_policy(|policy| engine.judge_briefly(policy, &mut policy.meet(&request)))
}

#[test]
fn one_limit_is_decided_as_it_is_at_length() {
    for rule in ["limit: 2/min", "limit: 5/h, key: ip, cost: 2", "limit: 1/s, shadow: true"] {
        let rule = format!("api: {{ {rule} }}");
        let (short, long) = (engine(&rule), engine(&rule));
        let request = Attributes::from_pairs([("ip", "1.2.3.4")]).unwrap();
        for _ in 0..4 {
            let judged = long.judge_at_once(long.meet(&request)).unwrap().unwrap();
            let Judgement::Decided(verdict) = judged else { panic!("{judged:?}") };
            match judge(&short) {
                Brief::Goes { decision, cost } => {
                    assert_eq!((&decision, cost), (verdict.decision(), verdict.cost()), "{rule}");
                    assert!(verdict.allowed());
                }
                Brief::Judged(Ok(Judgement::Decided(denied))) => {
                    assert_eq!(denied.decision(), verdict.decision(), "{rule}");
                    assert_eq!(denied.rule(), "api");
                    assert!(!denied.allowed());
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn what_is_asked_for_later_has_a_verdict() {
    for rules in [
        "api: { limits: [2/s, 9/min] }",
        "api: { limit: 2/s }, ip: { key: ip, limit: 2/s }",
        "api: { limit: 2/s, refund_on: [5xx] }",
        "api: { concurrency: { max_in_flight: 1, lease: 1h } }",
    ] {
        let judged = judge(&engine(rules));
        let Brief::Judged(Ok(Judgement::Decided(verdict))) = judged else { panic!("{judged:?}") };
        assert!(verdict.allowed(), "{rules}");
    }
    // The first goes, the second would wait.
    let leaking = engine("api: { leaking_bucket: { queue_capacity: 3, leak_rate: 1/s } }");
    assert!(matches!(judge(&leaking), Brief::Goes { .. }));
    let judged = judge(&leaking);
    let Brief::Judged(Ok(Judgement::Decided(verdict))) = judged else { panic!("{judged:?}") };
    assert_eq!((verdict.decision().delay_us, verdict.decision().remaining), (1_000_000, 1));
    let free = judge(&engine("api: { limit: 2/s, match: { path: /api } }"));
    assert!(matches!(free, Brief::Judged(Ok(Judgement::Free))), "{free:?}");
    let lacking = judge(&engine("api: { limit: 2/s, key: user, when_missing: deny }"));
    assert!(matches!(lacking, Brief::Judged(Ok(Judgement::Missing { .. }))), "{lacking:?}");
}

#[test]
fn who_hears_hears_of_every_request() {
    let heard = Arc::new(Heard::default());
    let engine = engine("api: { limit: 2/s }").observed(Arc::clone(&heard) as Arc<dyn Observer>);
    for _ in 0..3 {
        assert!(matches!(judge(&engine), Brief::Judged(Ok(Judgement::Decided(_)))));
    }
    assert_eq!(*heard.decided.lock().unwrap(), 3);
}

#[test]
fn a_store_that_can_fail_is_waited_for() {
    let bench = Bench::new("rules: { api: { limit: 2/s } }");
    let engine = &bench.engine;
    let request = Attributes::from_pairs([("ip", "1.2.3.4")]).unwrap();
    let judged =
        engine.with_policy(|policy| engine.judge_briefly(policy, &mut policy.meet(&request)));
    assert!(matches!(judged, Brief::Undecided(_)), "{judged:?}");
}
