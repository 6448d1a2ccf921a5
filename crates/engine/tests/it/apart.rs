//! Limits that lie on several servers: each is decided by its own or by its rule's choice, nobody
//! waits longer for several than for one, and what a denied request was charged comes back.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tollkeeper_core::{Amended, Filter, ManualClock, Store, StoreError};
use tollkeeper_engine::{
    Ask, BreakerState, Engine, EngineError, Handle, Judgement, ManualTimer, Observer, Source,
    StoreChange, Target, Verdict,
};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::{Attributes, OnFailure, Policy};
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::parted::Parted;

use crate::kit::{Memory, now, ready};

const POLICY: &str = "
rules:
  here: { key: attribute:here, algorithm: sliding_window_log, limit: 3/day, refund_on: [5xx] }
  there: { key: attribute:there, algorithm: sliding_window_log, limit: 3/day, refund_on: [5xx] }
";

type Two = Parted<FaultyStore<Memory>>;

/// An engine on two servers with clocks of their own.
struct Bench {
    clock: ManualClock,
    engine: Engine<Two, Memory>,
    timer: ManualTimer,
    heard: Arc<Heard>,
    here: String,
    there: String,
}

#[derive(Debug, Default)]
struct Heard {
    kept: Mutex<Vec<String>>,
    changed: Mutex<Vec<String>>,
}

impl Observer for Heard {
    fn kept_charge(&self, shard: &str, _error: &StoreError) {
        self.kept.lock().unwrap().push(shard.to_owned());
    }

    fn store_changed(&self, shard: &str, _change: &StoreChange) {
        self.changed.lock().unwrap().push(shard.to_owned());
    }
}

type Judging<'a> = Pin<Box<dyn Future<Output = Result<Judgement, EngineError>> + 'a>>;

impl Bench {
    fn new(policy: &str) -> Self {
        let policy = Policy::parse(policy, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
        let at = |clock| MemoryStore::new(Settings::default(), clock);
        let memory = |start_us| at(ManualClock::at(start_us));
        let (clock, other) = (ManualClock::at(1_700_000_000_000_000), 1_800_000_000_000_007);
        let store =
            Parted::new(vec![FaultyStore::new(at(clock.clone())), FaultyStore::new(memory(other))]);
        let (here, there) = (store.key_on(0, "h"), store.key_on(1, "t"));
        let (timer, heard) = (ManualTimer::default(), Arc::new(Heard::default()));
        let timing = Arc::new(timer.clone());
        let engine = Engine::guarded(policy, store, memory(5_000_000), timing).unwrap();
        let engine = engine.observed(Arc::clone(&heard) as Arc<dyn Observer>);
        Self { clock, engine, timer, heard, here, there }
    }

    fn mood(&self, shard: usize, mood: Mood) {
        self.engine.store().shard(shard).set(mood);
    }

    fn begin(&self) -> Judging<'_> {
        let pairs = [("here", self.here.as_str()), ("there", self.there.as_str())];
        let attributes = Attributes::from_pairs(pairs).unwrap();
        let encounter = self.engine.meet(&attributes);
        Box::pin(self.engine.judge(encounter))
    }

    fn judge(&self) -> Verdict {
        verdict(ready(self.begin()))
    }

    /// What is counted on a server.
    fn units(&self, shard: usize) -> u64 {
        let states = ready(self.engine.store().shard(shard).behind().inspect(Filter::default(), 9));
        let raw = |entry: &tollkeeper_core::Entry| tollkeeper_core::describe_raw(&entry.state);
        let fields = states.unwrap().iter().flat_map(raw).collect::<Vec<_>>();
        let units = fields.iter().filter(|(name, _)| *name == "units" || *name == "count");
        units
            .map(|(_, field)| match field {
                tollkeeper_core::Field::Whole(units) => *units,
                _ => 0,
            })
            .sum()
    }
}

fn verdict(judged: Result<Judgement, EngineError>) -> Verdict {
    match judged.unwrap() {
        Judgement::Decided(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

fn sources(verdict: &Verdict) -> Vec<Source> {
    verdict.limits().map(|limit| limit.source()).collect()
}

#[test]
fn each_part_has_its_own_time_and_is_given_back_by_it() {
    for way in 0..2 {
        let bench = Bench::new(POLICY);
        let first = bench.judge();
        assert!(first.allowed() && first.is_apart());
        let times: Vec<_> = first.limits().map(|limit| limit.charged_at_us.unwrap()).collect();
        assert_eq!(times, [1_700_000_000_000_000, 1_800_000_000_000_007]);
        let second = bench.judge();
        assert_eq!((bench.units(0), bench.units(1)), (2, 2));
        match way {
            0 => ready(bench.engine.undo(&second)).unwrap(),
            _ => ready(bench.engine.refund_on(&second, 502)).unwrap(),
        }
        assert_eq!((bench.units(0), bench.units(1)), (1, 1));
    }
}

#[test]
fn a_denial_anywhere_leaves_no_charge_and_says_what_is_left() {
    let bench = Bench::new(&POLICY.replace(
        "there: { key: attribute:there, algorithm: sliding_window_log, limit: 3/day",
        "there: { key: attribute:there, limit: 1/day",
    ));
    assert!(bench.judge().allowed());
    for _ in 0..5 {
        let denied = bench.judge();
        assert!(!denied.allowed() && denied.handle().is_none());
        assert_eq!((denied.rule(), denied.decision().charged_at_us), ("there", None));
        assert_eq!(denied.decision().now_us, 1_800_000_000_000_007);
        let left: Vec<u64> = denied.limits().map(|limit| limit.outcome.remaining).collect();
        assert_eq!(left, [2, 0]);
        assert_eq!(bench.units(0), 1);
    }
    assert_eq!(bench.heard.kept.lock().unwrap().len(), 0);
}

#[test]
fn one_server_that_fails_is_the_affair_of_its_own_keys() {
    let bench = Bench::new(POLICY);
    bench.mood(1, Mood::Refusing);
    let verdict = bench.judge();
    assert!(verdict.allowed());
    assert_eq!(sources(&verdict), [Source::Store, Source::Fallback]);
    let choices: Vec<_> = verdict.limits().map(|limit| limit.on_failure).collect();
    assert_eq!(choices, [None, Some(OnFailure::Static)]);
    // Both have 2 of 3 left, and the first of equals binds; but not the store alone has decided.
    assert_eq!((verdict.source(), verdict.rule()), (Source::Fallback, "here"));
    for _ in 0..10 {
        let _ = bench.judge();
    }
    assert_eq!(bench.engine.shard_health(0).breaker, BreakerState::Closed);
    assert_eq!(bench.engine.shard_health(1).breaker, BreakerState::Open);
    assert_eq!(bench.engine.health().breaker, BreakerState::Open);
    assert_eq!(*bench.heard.changed.lock().unwrap(), ["shard-1"]);
    // Three were admitted in all, by both.
    assert_eq!((bench.units(0), bench.units(1)), (3, 0));
}

#[test]
fn what_was_decided_here_and_there_is_given_back_here_and_there() {
    let bench = Bench::new(POLICY);
    bench.mood(1, Mood::Refusing);
    let verdict = bench.judge();
    ready(bench.engine.undo(&verdict)).unwrap();
    assert_eq!(bench.units(0), 0);
    let left = |verdict: &Verdict| -> Vec<u64> {
        verdict.limits().map(|limit| limit.outcome.remaining).collect()
    };
    assert_eq!(left(&bench.judge()), [2, 2]);
}

#[test]
fn a_rule_that_fails_closed_on_a_dead_server_denies_and_the_living_one_keeps_nothing() {
    let policy =
        format!("{POLICY}  strict: {{ key: attribute:there, limit: 9/day, on_failure: closed }}");
    let bench = Bench::new(&policy);
    bench.mood(1, Mood::Refusing);
    let verdict = bench.judge();
    assert!(verdict.failed_closed());
    assert_eq!((verdict.rule(), verdict.source()), ("strict", Source::Fallback));
    assert_eq!(sources(&verdict), [Source::Store, Source::Fallback, Source::Fallback]);
    assert_eq!(bench.units(0), 0);
}

#[test]
fn a_silent_part_keeps_nobody_past_the_deadline_and_what_may_have_run_is_left_alone() {
    let bench = Bench::new(&POLICY.replace("3/day, refund", "1/day, refund"));
    // The local limiter has nothing left of the second limit.
    bench.mood(1, Mood::Refusing);
    assert!(bench.judge().allowed());
    ready(bench.engine.store().shard(0).behind().reset(Filter::default())).unwrap();
    bench.mood(1, Mood::RanSilent);
    let mut judging = bench.begin();
    assert!(now(judging.as_mut()).is_none());
    assert_eq!((bench.units(0), bench.units(1)), (1, 1));
    // Meanwhile another is denied wrongly, since the first server counts what will come back.
    bench.mood(1, Mood::Refusing);
    assert!(!bench.judge().allowed());
    bench.timer.advance(19_999);
    assert!(now(judging.as_mut()).is_none());
    bench.timer.advance(1);
    let denied = verdict(now(judging.as_mut()).expect("it waits past its deadline"));
    assert!(!denied.allowed());
    assert_eq!((bench.units(0), bench.units(1)), (0, 1));
    assert_eq!(bench.heard.kept.lock().unwrap().len(), 0);
}

#[test]
fn a_bucket_gets_back_all_that_has_not_drained() {
    // A thousand a second, and 100 ms from the charge until it is given back.
    let policy = "
store: { on_failure: closed, timeout: 100ms }
rules:
  here: { key: attribute:here, ALGORITHM, cost: 10 }
  there: { key: attribute:there, limit: 1000/s }
";
    for algorithm in [
        "token_bucket: { capacity: 1000, refill_rate: 1000/s }",
        "gcra: { burst: 1000, rate: 1000/s }",
        "leaking_bucket: { queue_capacity: 1000, leak_rate: 1000/s }",
    ] {
        for reserves in [false, true] {
            for (used, left) in [(0, 1000), (5, 1000), (50, 1000), (100, 1000), (500, 600)] {
                let bench = Bench::new(&policy.replace("ALGORITHM", algorithm));
                let ask = Ask { target: Target::Rule("here"), key: Some(&bench.here), cost: used };
                assert!(ready(bench.engine.check(ask)).unwrap().allowed());
                bench.mood(1, Mood::Silent);
                let pairs = [("here", bench.here.as_str()), ("there", bench.there.as_str())];
                let encounter = bench.engine.meet(&Attributes::from_pairs(pairs).unwrap());
                let mut judging: Judging<'_> = match reserves {
                    false => Box::pin(bench.engine.judge(encounter)),
                    true => Box::pin(bench.engine.judge_reserving(encounter, None)),
                };
                assert!(now(judging.as_mut()).is_none());
                bench.clock.advance(100_000);
                bench.timer.advance(100_000);
                assert!(!verdict(now(judging.as_mut()).unwrap()).allowed());
                let look = Ask { cost: 0, ..ask };
                let look = ready(bench.engine.check(look)).unwrap().decision().remaining;
                assert_eq!(look, left, "{algorithm}, {used} used before");
            }
        }
    }
}

#[test]
fn a_charge_that_does_not_come_back_is_told_and_not_tried_again() {
    let bench = Bench::new(&format!("store: {{ on_failure: closed }}{POLICY}"));
    for mood in [Mood::Refusing, Mood::Silent] {
        let calls = bench.engine.store().shard(0).calls();
        bench.mood(0, Mood::Well);
        bench.mood(1, Mood::Silent);
        let mut judging = bench.begin();
        assert!(now(judging.as_mut()).is_none());
        bench.mood(0, mood);
        bench.timer.advance(20_000);
        let denied = verdict(now(judging.as_mut()).expect("it waits past its deadline"));
        assert!(denied.failed_closed());
        // Charged, and given back; there is no time left for a look.
        assert_eq!(bench.engine.store().shard(0).calls() - calls, 2);
    }
    assert_eq!(*bench.heard.kept.lock().unwrap(), ["shard-0", "shard-0"]);
    assert_eq!(bench.units(0), 2);
}

#[test]
fn a_caller_who_goes_away_while_a_charge_comes_back_is_told_of() {
    let bench = Bench::new(&format!("store: {{ on_failure: closed }}{POLICY}"));
    let mut judging = bench.begin();
    bench.mood(1, Mood::Refusing);
    bench.mood(0, Mood::Well);
    // The second server refuses at once; the first charges, and is silent when asked to give back.
    bench.engine.store().shard(0).set_after(1, Mood::Silent);
    assert!(now(judging.as_mut()).is_none());
    drop(judging);
    assert_eq!(*bench.heard.kept.lock().unwrap(), ["shard-0"]);
}

#[test]
fn permits_here_and_there_have_one_handle() {
    let policy = "
rules:
  here: { key: attribute:here, concurrency: { max_in_flight: 1, lease: 1h } }
  there: { key: attribute:there, concurrency: { max_in_flight: 1, lease: 1h } }
";
    for mood in [Mood::Well, Mood::Refusing] {
        let bench = Bench::new(policy);
        bench.mood(1, mood);
        let held = bench.judge();
        assert!(held.allowed() && !bench.judge().allowed(), "{mood:?}");
        let handle: Handle = held.handle().unwrap().to_string().parse().unwrap();
        assert_eq!(Some(&handle), held.handle());
        assert_eq!(ready(bench.engine.renew(&handle)), Ok(Amended::Done { forgiven: 0 }));
        assert_eq!(ready(bench.engine.release(&handle)), Ok(Amended::Done { forgiven: 0 }));
        assert!(bench.judge().allowed(), "{mood:?}");
    }
}

#[test]
fn a_denied_reservation_is_cancelled_where_it_was_made() {
    let bench = Bench::new(&POLICY.replace(
        "there: { key: attribute:there, algorithm: sliding_window_log, limit: 3/day",
        "there: { key: attribute:there, limit: 1/day",
    ));
    let reserve = || {
        let pairs = [("here", bench.here.as_str()), ("there", bench.there.as_str())];
        let encounter = bench.engine.meet(&Attributes::from_pairs(pairs).unwrap());
        verdict(ready(bench.engine.judge_reserving(encounter, None)))
    };
    let made = reserve();
    let denied = reserve();
    assert!(made.allowed() && !denied.allowed());
    assert_eq!(bench.units(0), 1);
    assert!(ready(bench.engine.settle(made.handle().unwrap(), 0)).is_ok());
    assert_eq!(bench.units(0), 0);
    assert!(reserve().allowed());
}

#[test]
fn a_server_is_found_by_a_key_that_lies_there() {
    let bench = Bench::new(POLICY);
    bench.mood(1, Mood::Refusing);
    let decides = [0, 1, 2].map(|shard| ready(bench.engine.shard_decides(shard)));
    assert_eq!(decides, [Some(true), Some(false), None]);
}
