//! A request that meets a limit of which this process has leave and one that only the store decides,
//! while the store gives no answer: the first is decided by that leave, the second as its rule says, and
//! both or neither are charged.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{Amended, Clock, Filter};
use tollkeeper_engine::{Ask, Engine, Judgement, Source, SystemTimer, Target, Verdict};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::{Attributes, Policy};
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::fleet::judge;
use tollkeeper_testkit::parted::Parted;
use tollkeeper_testkit::passing::Passing;

type Memory = MemoryStore<Passing>;
type Servers = Parted<FaultyStore<Memory>>;

/// A thousand a second are leased for 50 ms at a time. What is leased admits nobody without its units.
const LEASED: &str = "{ limit: 1000/s, consistency: lease, on_failure: closed }";

/// An engine on two servers, in time that passes as it is told to.
struct Bench {
    engine: Engine<Hybrid<Servers>, Memory>,
    clock: Passing,
}

impl Bench {
    /// `patience` is that of the calls by which units are drawn.
    fn new(rules: &str, patience: Duration) -> Self {
        let policy = Policy::parse(rules, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
        let clock = Passing::new();
        let memory = || MemoryStore::new(Settings::default(), clock.clone());
        let servers = Parted::new((0..2).map(|_| FaultyStore::new(memory())).collect());
        let timing = Arc::new(clock.clone());
        let store = Hybrid::new(servers, timing, patience, Settings::default(), 7);
        let timer = Arc::new(SystemTimer::new());
        let engine = Engine::guarded(policy, store, memory(), timer).unwrap();
        Self { engine, clock }
    }

    /// Two rules for one key: what is leased, and `exact`.
    fn of(exact: &str) -> Self {
        let rules = format!("rules:\n  leased: {LEASED}\n  exact: {exact}\n");
        Self::new(&rules, Duration::from_millis(20))
    }

    fn server(&self, nth: usize) -> &FaultyStore<Memory> {
        self.engine.store().store().shard(nth)
    }

    fn mood(&self, mood: Mood) {
        [0, 1].iter().for_each(|nth| self.server(*nth).set(mood));
    }

    fn calls(&self) -> usize {
        self.server(0).calls() + self.server(1).calls()
    }

    async fn ask(&self, target: Target<'_>) -> Verdict {
        self.engine.check(Ask { target, key: Some("k"), cost: 1 }).await.unwrap()
    }

    async fn both(&self) -> Verdict {
        self.ask(Target::EveryRule).await
    }

    /// What is left of what is leased, by taking one of it.
    async fn leased(&self) -> u64 {
        let verdict = self.ask(Target::Rule("leased")).await;
        assert_eq!((verdict.allowed(), verdict.source()), (true, Source::Lease));
        verdict.decision().remaining
    }

    /// Asks for both for a while, so that units are leased.
    async fn warm(&self) {
        for _ in 0..200 {
            assert!(self.both().await.allowed());
            advance(Duration::from_millis(2)).await;
        }
        // Whatever was on its way is here.
        advance(Duration::from_millis(1)).await;
    }
}

fn sources(verdict: &Verdict) -> Vec<Source> {
    verdict.limits().map(|limit| limit.source()).collect()
}

fn remaining(verdict: &Verdict) -> Vec<u64> {
    verdict.limits().map(|limit| limit.outcome.remaining).collect()
}

/// All of it was left to the rules' `on_failure`, and what was leased ended unused.
#[tokio::test(start_paused = true)]
async fn what_is_leased_is_spent_beside_what_the_store_would_decide() {
    for (choice, left) in [("open", 300), ("static", 99)] {
        let bench = Bench::of(&format!("{{ limit: 300/day, on_failure: {choice} }}"));
        bench.warm().await;
        bench.mood(Mood::Refusing);
        let before = bench.leased().await;
        assert!(before > 10, "{before}");
        let verdict = bench.both().await;
        assert!(verdict.allowed(), "{choice}: {verdict:?}");
        assert_eq!(sources(&verdict), [Source::Lease, Source::Fallback]);
        assert_eq!(remaining(&verdict), [before - 1, left], "{choice}");
        // Not the lease alone has decided, whichever binds.
        assert_eq!((verdict.source(), verdict.is_apart()), (Source::Fallback, true));
        let times: Vec<_> = verdict.limits().map(|limit| limit.charged_at_us).collect();
        let now_us = bench.clock.now_us();
        assert!(times[0].is_some_and(|at_us| at_us < now_us), "drawn before: {times:?}");
        assert_eq!(times[1], (choice == "static").then_some(now_us), "{choice}");
        // Then the lease is used up, and does as its own rule says.
        let mut spent = 0;
        let last = loop {
            let verdict = bench.both().await;
            if !verdict.allowed() {
                break verdict;
            }
            spent += 1;
        };
        assert_eq!(spent, before - 1, "{choice}");
        assert!(last.failed_closed() && last.rule() == "leased", "{choice}: {last:?}");
        assert_eq!(sources(&last), [Source::Fallback; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_closed_leaves_the_lease_as_it_was() {
    let bench = Bench::of("{ limit: 300/day, on_failure: closed }");
    bench.warm().await;
    bench.mood(Mood::Refusing);
    let before = bench.leased().await;
    for _ in 0..20 {
        let denied = bench.both().await;
        assert!(denied.failed_closed() && denied.rule() == "exact", "{denied:?}");
        assert_eq!(sources(&denied), [Source::Lease, Source::Fallback]);
        assert_eq!((denied.source(), denied.decision().charged_at_us), (Source::Fallback, None));
        assert_eq!(remaining(&denied), [before, 0], "nothing is charged");
    }
    assert_eq!(bench.leased().await, before - 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_static_limiter_denies_leaves_the_lease_as_it_was() {
    // The local limiter has as much left as the store had.
    let bench = Bench::of("{ limit: 203/day }");
    bench.warm().await;
    bench.mood(Mood::Refusing);
    let admitted = [bench.both().await, bench.both().await, bench.both().await];
    assert!(admitted.iter().all(Verdict::allowed), "{admitted:?}");
    let before = bench.leased().await;
    for _ in 0..5 {
        let denied = bench.both().await;
        assert!(!denied.allowed() && !denied.failed_closed() && denied.rule() == "exact");
        assert_eq!(remaining(&denied), [before, 0]);
    }
    assert_eq!(bench.leased().await, before - 1);
}

/// Whoever meets a leased limit too was asked for each time, however often the exact one had denied him.
#[tokio::test(start_paused = true)]
async fn what_the_store_denied_is_told_again_to_whoever_meets_a_leased_limit_too() {
    let bench = Bench::of("{ limit: 203/day }");
    bench.warm().await;
    while bench.both().await.allowed() {}
    let before = bench.leased().await;
    let calls = bench.calls();
    for _ in 0..20 {
        let denied = bench.both().await;
        assert_eq!((denied.source(), denied.rule()), (Source::Cache, "exact"), "{denied:?}");
    }
    assert_eq!(bench.calls(), calls);
    assert_eq!(bench.leased().await, before - 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_denied_here_charges_no_local_limiter() {
    // The call for the exact rule has 600 ms, longer than units live; those that are drawn have more.
    let rules = format!(
        "store: {{ timeout: 600ms }}\nrules:\n  leased: {LEASED}\n  exact: {{ limit: 9000/day }}\n"
    );
    let bench = Bench::new(&rules, Duration::from_secs(5));
    for _ in 0..20_000 {
        bench.both().await;
        advance(Duration::from_micros(100)).await;
    }
    // More is wanted than there is: some are left, and no more are on their way.
    while !bench.both().await.allowed() {
        advance(Duration::from_millis(1)).await;
    }
    bench.mood(Mood::Silent);
    let used = |bench: &Bench| {
        let states = bench.engine.local().unwrap().inspect_now(Filter::default(), 9);
        states.into_iter().find(|entry| entry.limit == "exact").map(|entry| entry.state)
    };
    let before = used(&bench);
    // One of them waits for the call by which more is asked for.
    let (one, other) = tokio::join!(bench.both(), bench.both());
    let mut both = [one, other];
    both.sort_by_key(Verdict::failed_closed);
    let [denied, asking] = both;
    assert!(asking.failed_closed() && asking.rule() == "leased", "{asking:?}");
    assert!(!denied.allowed() && !denied.failed_closed(), "{denied:?}");
    assert_eq!((denied.source(), denied.rule()), (Source::Lease, "leased"));
    let limits: Vec<_> = denied.limits().map(|limit| limit.on_failure).collect();
    assert_eq!(limits, [None, None], "no rule had to do without the store");
    assert_eq!(used(&bench), before);
}

#[tokio::test(start_paused = true)]
async fn a_batch_spends_what_is_leased_as_a_check_does() {
    let bench = Bench::of("{ limit: 300/day }");
    bench.warm().await;
    bench.mood(Mood::Refusing);
    let before = bench.leased().await;
    let ask = Ask { target: Target::EveryRule, key: Some("k"), cost: 1 };
    let verdicts = bench.engine.check_many(&[ask; 90]).await;
    let verdicts: Vec<Verdict> = verdicts.into_iter().map(Result::unwrap).collect();
    let admitted = verdicts.iter().filter(|verdict| verdict.allowed());
    assert_eq!(admitted.clone().count() as u64, before.min(90));
    assert!(admitted.clone().count() > 10);
    for verdict in admitted {
        assert_eq!(sources(verdict), [Source::Lease, Source::Fallback]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_is_not_sent_again() {
    let bench = Bench::of("{ limit: 300/day }");
    bench.warm().await;
    let before = bench.leased().await;
    bench.mood(Mood::RanSilent);
    let calls = bench.calls();
    let begun_us = bench.clock.now_us();
    let verdict = bench.both().await;
    assert_eq!(bench.clock.now_us() - begun_us, 20_000, "it waits until the deadline");
    assert_eq!(bench.calls(), calls + 1);
    // It was charged there, and is decided here too: by what the store had left when it last said so.
    assert_eq!((verdict.allowed(), remaining(&verdict)), (true, vec![before - 1, 99]));
    bench.mood(Mood::Well);
    assert_eq!(bench.ask(Target::Rule("exact")).await.decision().remaining, 98);
    assert_eq!(bench.leased().await, before - 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_of_and_what_is_shared_goes_on_by_its_bounds() {
    let rules = "
store: { nodes: 2 }
rules:
  told: { limit: 1000/s, consistency: sync, on_failure: closed }
  part: { limit: 1000/s, consistency: share, on_failure: closed }
  exact: { limit: 900/day, on_failure: open }
";
    let bench = Bench::new(rules, Duration::from_millis(20));
    // Who begins has nothing of a share.
    advance(Duration::from_secs(1)).await;
    bench.warm().await;
    bench.mood(Mood::Refusing);
    let verdict = bench.both().await;
    assert!(verdict.allowed(), "{verdict:?}");
    assert_eq!(sources(&verdict), [Source::Sync, Source::Share, Source::Fallback]);
    // What the store said last counts for two periods of 100 ms; a share needs nobody.
    advance(Duration::from_millis(200)).await;
    let verdict = bench.both().await;
    assert!(verdict.failed_closed() && verdict.rule() == "told", "{verdict:?}");
    assert_eq!(sources(&verdict), [Source::Fallback, Source::Share, Source::Fallback]);
    let left = |verdict: &Verdict| verdict.limits().nth(1).unwrap().outcome.remaining;
    assert_eq!(left(&bench.both().await), left(&verdict), "it is put back");
}

#[tokio::test(start_paused = true)]
async fn a_permit_beside_a_lease_is_held_here() {
    let bench = Bench::of("{ concurrency: { max_in_flight: 1, lease: 1h } }");
    for _ in 0..200 {
        let verdict = bench.both().await;
        assert!(verdict.allowed());
        bench.engine.release(verdict.handle().unwrap()).await.unwrap();
        advance(Duration::from_millis(2)).await;
    }
    bench.mood(Mood::Refusing);
    let held = bench.both().await;
    assert_eq!(sources(&held), [Source::Lease, Source::Fallback]);
    let before = bench.leased().await;
    assert!(!bench.both().await.allowed());
    assert_eq!(bench.leased().await, before - 1);
    let released = bench.engine.release(held.handle().unwrap()).await;
    assert_eq!(released, Ok(Amended::Done { forgiven: 0 }));
    assert!(bench.both().await.allowed());
}

#[tokio::test(start_paused = true)]
async fn what_was_reserved_needs_the_store_or_is_held_here_whole() {
    let bench = Bench::of("{ limit: 300/day }");
    bench.warm().await;
    bench.mood(Mood::Refusing);
    let before = bench.leased().await;
    let ask = Ask { target: Target::EveryRule, key: Some("k"), cost: 1 };
    let denied = bench.engine.reserve(ask, None).await.unwrap();
    assert!(denied.failed_closed() && denied.rule() == "leased");
    assert_eq!(sources(&denied), [Source::Fallback; 2]);
    assert_eq!(bench.leased().await, before - 1);
}

#[tokio::test(start_paused = true)]
async fn each_half_is_given_back_where_it_was_charged() {
    let bench = Bench::of("{ algorithm: sliding_window_log, limit: 300/day, refund_on: [5xx] }");
    bench.warm().await;
    bench.mood(Mood::Refusing);
    let verdict = bench.both().await;
    assert_eq!(remaining(&verdict)[1], 99);
    bench.mood(Mood::Well);
    advance(Duration::from_secs(1)).await;
    bench.engine.undo(&verdict).await.unwrap();
    bench.mood(Mood::Refusing);
    let again = bench.ask(Target::Rule("exact")).await;
    assert_eq!((again.source(), again.decision().remaining), (Source::Fallback, 99));
}

/// A limit on one server that denies, and on another, which is down, one that is leased and one that is
/// not: both get back what they gave.
#[tokio::test(start_paused = true)]
async fn a_denial_of_another_server_puts_back_what_was_leased() {
    let rules = format!(
        "rules:
  leased: {}
  beside: {{ key: attribute:a, limit: 300/day }}
  there: {{ key: attribute:b, limit: 203/day }}
",
        LEASED.replacen('{', "{ key: attribute:a,", 1)
    );
    let bench = Bench::new(&rules, Duration::from_millis(20));
    let servers = bench.engine.store().store();
    let (a, b) = (servers.key_on(0, "a"), servers.key_on(1, "b"));
    let judge = async || {
        let attributes = Attributes::from_pairs([("a", a.as_str()), ("b", b.as_str())]).unwrap();
        match bench.engine.judge(bench.engine.meet(&attributes)).await.unwrap() {
            Judgement::Decided(verdict) => verdict,
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..200 {
        assert!(judge().await.allowed());
        advance(Duration::from_millis(2)).await;
    }
    bench.server(0).set(Mood::Refusing);
    let mut last = judge().await;
    assert_eq!(sources(&last), [Source::Lease, Source::Fallback, Source::Store]);
    for _ in 0..2 {
        let next = judge().await;
        assert!(next.allowed() && remaining(&next)[0] < remaining(&last)[0]);
        last = next;
    }
    assert_eq!(remaining(&last)[1..], [97, 0]);
    for _ in 0..5 {
        let denied = judge().await;
        assert!(!denied.allowed() && denied.rule() == "there");
        assert_eq!(remaining(&denied), remaining(&last), "it is put back");
    }
}

/// However often the store fails and in whichever way, what is leased admits no more than the limit.
#[tokio::test(start_paused = true)]
async fn through_outages_no_interval_admits_more_than_the_limit() {
    let bench = Bench::of("{ limit: 1000000/s, on_failure: open }");
    let moods = [Mood::Well, Mood::Refusing, Mood::Well, Mood::RanSilent, Mood::Well, Mood::Silent];
    let (mut admitted, mut mixed) = (Vec::new(), 0);
    for nth in 0..30_000_usize {
        if nth % 1_000 == 0 {
            bench.mood(moods[nth / 1_000 % moods.len()]);
        }
        let verdict = bench.both().await;
        if verdict.allowed() {
            admitted.push((bench.clock.now_us(), 1));
            mixed += u64::from(sources(&verdict) == [Source::Lease, Source::Fallback]);
        }
        advance(Duration::from_micros(300)).await;
    }
    let policy = bench.engine.policy();
    let quota = policy.quota("leased").unwrap();
    assert_eq!(judge::over_bucket(quota.bucket().unwrap(), &admitted), 0);
    assert!(mixed > 100, "{mixed} without the store");
}
