//! No decision waits past its deadline, and none is given up before.

use std::pin::pin;

use tollkeeper_engine::{Ask, MAX_IN_FLIGHT, Source, Target};
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Bench, now};

const POLICY: &str = "rules: { api: { limit: 100/min } }";

#[test]
fn the_deadline_is_exact_to_the_microsecond() {
    for (timeout, us) in [("1ms", 1_000), ("20ms", 20_000), ("10s", 10_000_000)] {
        let bench = Bench::new(&format!("store: {{ timeout: {timeout} }}\n{POLICY}"));
        bench.mood(Mood::Silent);
        bench.timer.advance(123_457);
        let mut begun = bench.begin("api", "alice");
        assert!(begun.poll().is_none());
        bench.timer.advance(us - 1);
        assert!(begun.poll().is_none(), "given up before {timeout}");
        bench.timer.advance(1);
        let verdict = begun.poll().expect("it waits past its deadline").unwrap();
        assert_eq!(verdict.source(), Source::Fallback);
    }
}

#[test]
fn the_default_deadline_is_20_ms() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Silent);
    let mut begun = bench.begin("api", "alice");
    assert!(begun.poll().is_none());
    bench.timer.advance(19_999);
    assert!(begun.poll().is_none());
    bench.timer.advance(1);
    assert!(begun.poll().is_some());
}

#[test]
fn an_answer_that_is_there_counts_however_late_somebody_looks() {
    let bench = Bench::new(POLICY);
    let mut begun = bench.begin("api", "alice");
    bench.timer.advance(60_000_000);
    let verdict = begun.poll().unwrap().unwrap();
    assert_eq!(verdict.source(), Source::Store);
}

#[test]
fn a_call_that_may_have_run_is_never_made_again() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::RanSilent);
    let mut begun = bench.begin("api", "alice");
    assert!(begun.poll().is_none());
    bench.timer.advance(20_000);
    let verdict = begun.poll().unwrap().unwrap();
    assert_eq!((verdict.source(), verdict.decision().remaining), (Source::Fallback, 99));
    assert_eq!(bench.engine.store().calls(), 1);
    // It was charged once in the store, which said nothing, and once here.
    bench.mood(Mood::Well);
    let look = bench.at_once_cost("api", "alice", 0);
    assert_eq!((look.source(), look.decision().remaining), (Source::Store, 99));
}

#[test]
fn past_the_cap_nobody_waits_at_all() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Silent);
    let mut under_way: Vec<_> = (0..MAX_IN_FLIGHT).map(|_| bench.begin("api", "alice")).collect();
    assert!(under_way.iter_mut().all(|begun| begun.poll().is_none()));
    assert_eq!(bench.at_once("api", "bob").source(), Source::Fallback);
    assert_eq!(bench.engine.store().calls(), MAX_IN_FLIGHT);
    // Whoever gives up makes room.
    under_way.pop();
    assert!(bench.begin("api", "bob").poll().is_none());
    drop(under_way);
    bench.mood(Mood::Well);
    assert_eq!(bench.at_once("api", "bob").source(), Source::Store);
}

#[test]
fn a_batch_on_a_silent_store_waits_once() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Silent);
    let keys: Vec<String> = (0..1000).map(|nth| format!("key{nth}")).collect();
    let asks: Vec<Ask<'_>> = keys
        .iter()
        .map(|key| Ask { target: Target::Rule("api"), key: Some(key), cost: 1 })
        .collect();
    let mut batch = pin!(bench.engine.check_many(&asks));
    assert!(now(batch.as_mut()).is_none());
    bench.timer.advance(19_999);
    assert!(now(batch.as_mut()).is_none());
    bench.timer.advance(1);
    let verdicts = now(batch.as_mut()).expect("it waits past its deadline");
    assert_eq!(verdicts.len(), 1000);
    assert!(verdicts.iter().all(|verdict| verdict.as_ref().unwrap().source() == Source::Fallback));
}
