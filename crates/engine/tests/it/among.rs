//! A limit that denies requests which meet other limits besides, each of them different ones: it denies
//! whatever the others say, so that one call tells them all.

use std::future::Future;
use std::pin::Pin;

use tollkeeper_engine::{EngineError, Judgement, Source, Verdict};
use tollkeeper_policy::Attributes;
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Bench, now, ready};

/// What everybody shares, and what each has for himself.
const POLICY: &str = "
store: { url: redis://127.0.0.1:1 }
rules:
  all: { limit: 10/s }
  user: { limit: 100/h, key: attribute:user }
";

type Judged<'a> = Pin<Box<dyn Future<Output = Result<Judgement, EngineError>> + 'a>>;

/// A request by `user`, begun and not waited for.
fn begin(bench: &Bench, user: usize) -> Judged<'_> {
    let user = user.to_string();
    let attributes = Attributes::from_pairs([("user", user.as_str())]).unwrap();
    let met = bench.engine.meet(&attributes);
    Box::pin(bench.engine.judge(met))
}

fn decided(judged: Result<Judgement, EngineError>) -> Verdict {
    match judged.unwrap() {
        Judgement::Decided(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

fn at_once(bench: &Bench, user: usize) -> Verdict {
    decided(ready(begin(bench, user)))
}

/// Lets a request take the last unit that everybody shares, and one be denied.
fn exhausted(policy: &str) -> Bench {
    let bench = Bench::new(policy);
    while at_once(&bench, 0).allowed() {}
    bench
}

/// Each used to ask for itself, one after the other: those who came last had no time left, and were
/// decided as if the store had failed.
#[test]
fn one_call_tells_all_whose_other_limits_differ() {
    let bench = exhausted(POLICY);
    bench.clock.advance(100_000);
    bench.timer.advance(100_000);
    let calls = bench.engine.store().calls();
    bench.mood(Mood::Slow);
    let mut all: Vec<_> = (1..=100).map(|user| begin(&bench, user)).collect();
    assert!(all.iter_mut().all(|one| now(one.as_mut()).is_none()));
    assert_eq!(bench.engine.store().calls() - calls, 1);
    bench.mood(Mood::Well);
    let told: Vec<_> = all.iter_mut().map(|one| decided(now(one.as_mut()).unwrap())).collect();
    assert_eq!(told.iter().filter(|told| told.allowed()).count(), 1);
    assert_eq!(told.iter().filter(|told| told.source() == Source::Cache).count(), 99);
    assert_eq!(bench.engine.store().calls() - calls, 1);
    // Nobody was charged for what he did not get.
    bench.clock.advance(1_000_000);
    bench.timer.advance(1_000_000);
    let told = at_once(&bench, 2);
    let left: Vec<_> = told.limits().map(|limit| limit.outcome.remaining).collect();
    assert_eq!(left, [9, 99]);
}

#[test]
fn what_is_not_known_of_the_others_is_told_as_the_least() {
    let bench = exhausted(POLICY);
    let told = at_once(&bench, 1);
    assert_eq!((told.source(), told.allowed()), (Source::Cache, false));
    let outcomes: Vec<_> = told.limits().map(|limit| *limit.outcome).collect();
    assert_eq!((outcomes[0].allowed, outcomes[0].retry_after_us), (false, Some(100_000)));
    assert_eq!((outcomes[1].allowed, outcomes[1].limit, outcomes[1].remaining), (true, 100, 0));
    let decision = told.decision();
    assert_eq!((decision.remaining, decision.retry_after_us), (0, Some(100_000)));
}

#[test]
fn who_waited_for_somebody_that_another_limit_denied_is_told_all_the_same() {
    let permits = "algorithm: concurrency, concurrency: { max_in_flight: 1, lease: 1h }";
    let bench = Bench::new(&POLICY.replace("limit: 100/h", permits));
    assert!((1_000..1_010).all(|user| at_once(&bench, user).allowed()));
    assert!(!at_once(&bench, 1_010).allowed());
    bench.clock.advance(100_000);
    bench.timer.advance(100_000);
    assert!(at_once(&bench, 0).allowed());
    bench.clock.advance(100_000);
    bench.timer.advance(100_000);
    bench.mood(Mood::Slow);
    let calls = bench.engine.store().calls();
    let mut holder = begin(&bench, 0);
    let mut others: Vec<_> = (1..=100).map(|user| begin(&bench, user)).collect();
    assert!(now(holder.as_mut()).is_none());
    assert!(others.iter_mut().all(|one| now(one.as_mut()).is_none()));
    assert_eq!(bench.engine.store().calls() - calls, 1);
    bench.mood(Mood::Well);
    assert!(!decided(now(holder.as_mut()).unwrap()).allowed());
    // One unit was left, for one of them; another asked whether there is more.
    let told: Vec<_> = others.iter_mut().map(|one| decided(now(one.as_mut()).unwrap())).collect();
    assert_eq!(told.iter().filter(|told| told.allowed()).count(), 1);
    assert!(told.iter().all(|told| told.source() != Source::Fallback));
    assert_eq!(bench.engine.store().calls() - calls, 3);
}

/// Those who have waited most of their time and then ask in vain used to count as five calls that the
/// store left unanswered, and nobody asked it any more.
#[test]
fn who_asks_in_his_last_moment_says_nothing_of_the_store() {
    for (late_us, is_asked) in [(10_001, true), (10_000, false)] {
        let bench = Bench::new(&POLICY.replace(":1 }", ":1, timeout: 20ms }"));
        while bench.at_once("all", "alice").allowed() {}
        bench.clock.advance(500_000);
        bench.timer.advance(500_000);
        bench.mood(Mood::Slow);
        let mut first = bench.begin("all", "alice");
        let mut others: Vec<_> = (0..6).map(|_| bench.begin("all", "alice")).collect();
        assert!(first.poll().is_none());
        assert!(others.iter_mut().all(|other| other.poll().is_none()));
        bench.timer.advance(late_us);
        bench.mood(Mood::Well);
        assert!(first.poll().unwrap().unwrap().allowed());
        bench.mood(Mood::Silent);
        // There are more, and each asks for himself.
        assert!(others.iter_mut().all(|other| other.poll().is_none()));
        bench.timer.advance(20_000 - late_us);
        let told = others.iter_mut().map(|other| other.poll().unwrap().unwrap());
        assert!(told.into_iter().all(|told| told.source() == Source::Fallback));
        bench.mood(Mood::Well);
        let source = bench.at_once("all", "bob").source();
        assert_eq!(source == Source::Store, is_asked, "{late_us}: {source:?}");
    }
}
