//! Denials that are told again without the store: when they hold, and what ends them.

use tollkeeper_engine::{Ask, Source, Target};
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Bench, ready};

const POLICY: &str = "
store: { url: redis://127.0.0.1:1 }
rules:
  api: { limit: 10/s }
  slow: { limit: 1/h }
  window: { algorithm: fixed_window, limit: 10/s }
  jobs: { algorithm: concurrency, concurrency: { max_in_flight: 1, lease: 1h } }
";

impl Bench {
    /// Lets the store's time and ours pass together.
    fn pass(&self, us: u64) {
        self.clock.advance(us);
        self.timer.advance(us);
    }

    /// Asks until it is denied by the store.
    fn exhaust(&self, rule: &str, key: &str) {
        while self.at_once(rule, key).allowed() {}
    }
}

#[test]
fn a_key_at_a_hundred_times_its_limit_hardly_asks_the_store() {
    let bench = Bench::new(POLICY);
    bench.exhaust("api", "alice");
    let (calls, mut admitted, requests) = (bench.engine.store().calls(), 0, 20_000);
    for _ in 0..requests {
        bench.pass(1_000);
        admitted += usize::from(bench.at_once("api", "alice").allowed());
    }
    // Ten a second, for twenty seconds: nobody is denied wrongly.
    assert_eq!(admitted, 200);
    let asked = bench.engine.store().calls() - calls;
    assert!(asked * 1000 <= requests * 21, "{asked} of {requests} asked the store");
    assert_eq!(bench.heard.decided.lock().map(|decided| *decided).unwrap(), requests + 11);
}

/// Who takes the last unit knows when the next one comes: nobody need be denied by the store for that.
#[test]
fn an_admission_tells_those_who_come_next() {
    for rule in ["api", "window"] {
        let bench = Bench::new(POLICY);
        bench.exhaust(rule, "alice");
        bench.pass(1_000_000);
        while bench.at_once(rule, "alice").source() == Source::Store {}
        bench.pass(1_000_000);
        // Ten come back at once, and are admitted by ten calls.
        let calls = bench.engine.store().calls();
        let admitted = (0..10).filter(|_| bench.at_once(rule, "alice").allowed()).count();
        assert_eq!((admitted, bench.engine.store().calls() - calls), (10, 10));
    }
    let bench = Bench::new(POLICY);
    bench.exhaust("api", "alice");
    bench.pass(100_000);
    assert!(bench.at_once("api", "alice").allowed());
    let told = bench.at_once("api", "alice");
    assert_eq!(told.source(), Source::Cache);
    let numbers = (told.decision().retry_after_us, told.decision().remaining);
    // As the store would have said.
    assert_eq!(numbers, (Some(100_000), 0));
    bench.pass(100_000);
    assert!(bench.at_once("api", "alice").allowed());
}

/// They used to ask as well, each of them: a hundred times as many as were admitted.
#[test]
fn one_asks_for_all_who_come_meanwhile() {
    let bench = Bench::new(POLICY);
    bench.exhaust("api", "alice");
    bench.pass(100_000);
    let calls = bench.engine.store().calls();
    bench.mood(Mood::Slow);
    let mut first = bench.begin("api", "alice");
    assert!(first.poll().is_none());
    let mut others: Vec<_> = (0..100).map(|_| bench.begin("api", "alice")).collect();
    assert!(others.iter_mut().all(|other| other.poll().is_none()));
    // A key that nobody denied waits for nobody.
    let mut stranger = bench.begin("api", "bob");
    assert!(stranger.poll().is_none());
    assert_eq!(bench.engine.store().calls() - calls, 2);
    bench.mood(Mood::Well);
    assert!(first.poll().unwrap().unwrap().allowed());
    for other in &mut others {
        let told = other.poll().unwrap().unwrap();
        assert_eq!((told.allowed(), told.source()), (false, Source::Cache));
    }
    assert!(stranger.poll().unwrap().unwrap().allowed());
    assert_eq!(bench.engine.store().calls() - calls, 2);
}

#[test]
fn whoever_waits_asks_for_himself_if_there_is_more_or_nobody_is_told() {
    let bench = Bench::new(POLICY);
    bench.exhaust("api", "alice");
    bench.pass(500_000);
    bench.mood(Mood::Slow);
    let mut first = bench.begin("api", "alice");
    let mut second = bench.begin("api", "alice");
    assert!(first.poll().is_none() && second.poll().is_none());
    bench.mood(Mood::Well);
    assert!(first.poll().unwrap().unwrap().allowed());
    let told = second.poll().unwrap().unwrap();
    assert_eq!((told.allowed(), told.source()), (true, Source::Store));
    // There was more, so nobody waits for anybody.
    bench.mood(Mood::Slow);
    let calls = bench.engine.store().calls();
    let mut both = [bench.begin("api", "alice"), bench.begin("api", "alice")];
    assert!(both.iter_mut().all(|one| one.poll().is_none()));
    assert_eq!(bench.engine.store().calls() - calls, 2);
    bench.mood(Mood::Well);
    both.iter_mut().for_each(|one| assert!(one.poll().unwrap().unwrap().allowed()));

    // Somebody who goes away lets the others go.
    bench.exhaust("api", "alice");
    bench.pass(100_000);
    bench.mood(Mood::Silent);
    let mut first = bench.begin("api", "alice");
    let mut second = bench.begin("api", "alice");
    assert!(first.poll().is_none() && second.poll().is_none());
    bench.mood(Mood::Well);
    drop(first);
    assert!(second.poll().unwrap().unwrap().allowed());
}

#[test]
fn as_many_ask_as_there_is_left_and_then_one_for_all() {
    let bench = Bench::new(POLICY);
    bench.exhaust("api", "alice");
    bench.pass(300_000);
    assert!(bench.at_once("api", "alice").allowed());
    bench.mood(Mood::Slow);
    let calls = bench.engine.store().calls();
    let mut others: Vec<_> = (0..20).map(|_| bench.begin("api", "alice")).collect();
    assert!(others.iter_mut().all(|other| other.poll().is_none()));
    // Two units were left, and one asks whether there are more.
    assert_eq!(bench.engine.store().calls() - calls, 3);
    bench.mood(Mood::Well);
    let told: Vec<_> = others.iter_mut().map(|other| other.poll().unwrap().unwrap()).collect();
    assert_eq!(told.iter().filter(|told| told.allowed()).count(), 2);
    assert_eq!(told.iter().filter(|told| told.source() == Source::Cache).count(), 17);
    assert_eq!(bench.engine.store().calls() - calls, 3);

    // When most of the limit is there again it is a key like any other.
    bench.pass(900_000);
    assert!(bench.at_once("api", "alice").allowed());
    bench.mood(Mood::Slow);
    let calls = bench.engine.store().calls();
    let mut others: Vec<_> = (0..20).map(|_| bench.begin("api", "alice")).collect();
    assert!(others.iter_mut().all(|other| other.poll().is_none()));
    assert_eq!(bench.engine.store().calls() - calls, 20);
}

#[test]
fn whoever_waits_is_told_at_his_deadline_and_begins_no_call_then() {
    let bench = Bench::new(POLICY);
    bench.exhaust("api", "alice");
    bench.pass(100_000);
    bench.mood(Mood::Silent);
    let mut first = bench.begin("api", "alice");
    assert!(first.poll().is_none());
    bench.timer.advance(5_000);
    let mut second = bench.begin("api", "alice");
    assert!(second.poll().is_none());
    let calls = bench.engine.store().calls();
    bench.timer.advance(14_999);
    assert!(first.poll().is_none() && second.poll().is_none());
    bench.timer.advance(1);
    assert_eq!(first.poll().unwrap().unwrap().source(), Source::Fallback);
    // The second now asks for himself, for as long as he has left.
    assert!(second.poll().is_none());
    assert_eq!(bench.engine.store().calls() - calls, 1);
    bench.timer.advance(4_999);
    assert!(second.poll().is_none());
    bench.timer.advance(1);
    assert_eq!(second.poll().unwrap().unwrap().source(), Source::Fallback);

    let mut first = bench.begin("api", "alice");
    let mut second = bench.begin("api", "alice");
    assert!(first.poll().is_none() && second.poll().is_none());
    let calls = bench.engine.store().calls();
    bench.timer.advance(20_000);
    assert_eq!(second.poll().unwrap().unwrap().source(), Source::Fallback);
    assert_eq!(bench.engine.store().calls(), calls);
    assert_eq!(first.poll().unwrap().unwrap().source(), Source::Fallback);
}

#[test]
fn it_is_told_as_such_and_its_retry_comes_nearer() {
    let bench = Bench::new(POLICY);
    bench.exhaust("window", "alice");
    bench.pass(100_000);
    let verdict = bench.at_once("window", "alice");
    assert_eq!((verdict.source(), verdict.source().name()), (Source::Cache, "denied_cache"));
    let decision = verdict.decision();
    assert_eq!((decision.retry_after_us, decision.remaining), (Some(900_000), 0));
    assert_eq!(verdict.handle(), None);
    // Less was not asked for, and a look takes nothing.
    assert_eq!(bench.at_once_cost("window", "alice", 0).source(), Source::Store);
    assert_eq!(bench.at_once("window", "bob").source(), Source::Store);
}

#[test]
fn the_very_microsecond_of_the_retry_asks_the_store() {
    let bench = Bench::new(POLICY);
    bench.exhaust("window", "alice");
    bench.pass(998_999);
    assert_eq!(bench.at_once("window", "alice").source(), Source::Cache);
    bench.pass(1);
    assert_eq!(bench.at_once("window", "alice").source(), Source::Store);
    bench.pass(1_000);
    assert!(bench.at_once("window", "alice").allowed());
}

#[test]
fn it_is_asked_again_after_what_the_file_says() {
    let bench = Bench::new(&POLICY.replace(":1 }", ":1, denied_cache: 5s }"));
    bench.exhaust("slow", "alice");
    bench.pass(4_999_999);
    assert_eq!(bench.at_once("slow", "alice").source(), Source::Cache);
    bench.pass(1);
    assert_eq!(bench.at_once("slow", "alice").source(), Source::Store);
    let bench = Bench::new(&POLICY.replace(":1 }", ":1, denied_cache: 0 }"));
    bench.exhaust("slow", "alice");
    assert_eq!(bench.at_once("slow", "alice").source(), Source::Store);
}

#[test]
fn what_this_process_gives_back_or_changes_is_seen_at_once() {
    let bench = Bench::new(POLICY);
    let ask = Ask { target: Target::Rule("slow"), key: Some("alice"), cost: 1 };
    bench.exhaust("slow", "alice");
    ready(bench.engine.refund(ask, None)).unwrap();
    assert!(bench.at_once("slow", "alice").allowed());

    let reserved = ready(bench.engine.reserve(Ask { key: Some("bob"), ..ask }, None)).unwrap();
    bench.exhaust("slow", "bob");
    ready(bench.engine.settle(reserved.handle().unwrap(), 0)).unwrap();
    assert!(bench.at_once("slow", "bob").allowed());

    bench.pass(1);
    bench.exhaust("slow", "bob");
    assert_eq!(bench.at_once("slow", "bob").source(), Source::Cache);
    ready(bench.engine.reset(None, None)).unwrap();
    assert!(bench.at_once("slow", "bob").allowed());

    bench.pass(1);
    bench.exhaust("slow", "bob");
    let raised = tollkeeper_policy::Policy::parse(&POLICY.replace("1/h", "5/h"), &|_| None);
    bench.engine.reload(raised.unwrap()).unwrap();
    assert_eq!(bench.at_once("slow", "bob").source(), Source::Store);
}

#[test]
fn a_permit_may_come_back_at_any_moment_so_the_store_is_asked() {
    let bench = Bench::new(POLICY);
    bench.exhaust("jobs", "alice");
    assert_eq!(bench.at_once("jobs", "alice").source(), Source::Store);
}

#[test]
fn a_store_that_fails_ends_no_denial_and_leaves_none() {
    let bench = Bench::new(POLICY);
    bench.exhaust("slow", "alice");
    bench.mood(Mood::Refusing);
    assert_eq!(bench.at_once("slow", "alice").source(), Source::Cache);
    while bench.at_once("slow", "bob").allowed() {}
    bench.mood(Mood::Well);
    assert_eq!(bench.at_once("slow", "bob").source(), Source::Store);
}

/// It used to be told to everybody who asks for the same state, however much they allow.
#[test]
fn who_allows_more_of_the_same_state_asks_the_store() {
    let bench = Bench::new(POLICY);
    let ask =
        |limit| Ask { target: Target::Inline { limit, algorithm: None }, key: Some("a"), cost: 1 };
    while ready(bench.engine.check(ask("2/h"))).unwrap().allowed() {}
    assert_eq!(ready(bench.engine.check(ask("2/h"))).unwrap().source(), Source::Cache);
    let wider = ready(bench.engine.check(ask("5/h"))).unwrap();
    assert_eq!((wider.source(), wider.allowed()), (Source::Store, true));
}
