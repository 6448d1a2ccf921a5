//! A sick store is not asked; a well one is asked again, by itself, and people hear of it once.

use tollkeeper_engine::{BreakerState, Source, StoreChange};
use tollkeeper_testkit::faulty::Mood;

use crate::kit::Bench;

const POLICY: &str = "rules: { api: { limit: 100000/min } }";

#[test]
fn a_silent_store_is_soon_not_asked_any_more() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Silent);
    bench.time_out("api", 5);
    assert_eq!(bench.engine.health().breaker, BreakerState::Open);
    let before = bench.engine.store().calls();
    for _ in 0..1000 {
        assert_eq!(bench.at_once("api", "alice").source(), Source::Fallback);
    }
    assert_eq!(bench.engine.store().calls(), before);
}

#[test]
fn it_is_asked_again_by_itself_within_a_second_of_its_return_and_not_by_all_at_once() {
    for outage_us in [10_000, 300_000, 5_000_000, 60_000_000] {
        let bench = Bench::new(POLICY);
        bench.mood(Mood::Refusing);
        let step_us = 5_000;
        for _ in 0..outage_us / step_us {
            let _ = bench.at_once("api", "alice");
            bench.timer.advance(step_us);
        }
        bench.mood(Mood::Well);
        let mut waited_us = 0;
        while bench.engine.health().breaker != BreakerState::Closed {
            let _ = bench.at_once("api", "alice");
            bench.timer.advance(1_000);
            waited_us += 1_000;
            assert!(waited_us < 1_000_000, "after an outage of {outage_us} µs");
        }
    }
}

/// Its last probe may have gone just before there was a way again, and the next one went 400 ms later.
#[test]
fn a_store_that_could_not_be_reached_is_asked_as_soon_as_it_can_be() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Unreached);
    for _ in 0..2_000 {
        let _ = bench.at_once("api", "alice");
        bench.timer.advance(5_000);
    }
    assert_eq!(bench.engine.health().breaker, BreakerState::Open);
    bench.mood(Mood::Well);
    for _ in 0..35 {
        let _ = bench.at_once("api", "alice");
        bench.timer.advance(1_000);
    }
    assert_eq!(bench.engine.health().breaker, BreakerState::Closed);
}

/// A busy key for which one draw was lost took the store away from every other rule.
#[test]
fn what_this_process_cannot_decide_says_nothing_of_the_store() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Undecided);
    for _ in 0..1_000 {
        assert_eq!(bench.at_once("api", "alice").source(), Source::Fallback);
    }
    assert_eq!(bench.engine.health().breaker, BreakerState::Closed);
    // Nor does it keep others from asking a store that is down.
    bench.mood(Mood::Refusing);
    (0..5).for_each(|_| _ = bench.at_once("api", "alice"));
    assert_eq!(bench.engine.health().breaker, BreakerState::Open);
    bench.timer.advance(1_000_000);
    bench.mood(Mood::Undecided);
    let _ = bench.at_once("api", "alice");
    bench.mood(Mood::Well);
    assert_eq!(bench.at_once("api", "alice").source(), Source::Store);
}

#[test]
fn the_warm_up_lets_ever_more_callers_through() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Refusing);
    for _ in 0..5 {
        let _ = bench.at_once("api", "alice");
    }
    bench.mood(Mood::Silent);
    bench.timer.advance(1_000_000);
    // A hundred callers come at once: one of them asks.
    let mut begun: Vec<_> = (0..100).map(|_| bench.begin("api", "alice")).collect();
    let waiting = begun.iter_mut().filter_map(|begun| begun.poll().is_none().then_some(())).count();
    assert_eq!(waiting, 1);
}

#[test]
fn people_hear_once_that_it_went_and_once_that_it_is_back_and_after_how_long() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Refusing);
    for _ in 0..1000 {
        let _ = bench.at_once("api", "alice");
        bench.timer.advance(10_000);
    }
    bench.mood(Mood::Well);
    for _ in 0..1000 {
        let _ = bench.at_once("api", "alice");
        bench.timer.advance(1_000);
    }
    let changes = bench.heard.changes.lock().unwrap();
    let [StoreChange::Down { reason }, StoreChange::Up { after_us }] = changes.as_slice() else {
        panic!("{changes:?}")
    };
    assert_eq!(reason, "refused");
    // It failed for the fifth time after 40 ms, and was well after ten seconds.
    assert!((9_960_000..10_960_000).contains(after_us), "{after_us}");
    assert_eq!(*bench.heard.decided.lock().unwrap(), 2000);
}

/// Clients that hang up before the deadline taught it nothing, and each of them waited in vain.
#[test]
fn a_silent_store_is_found_out_also_by_callers_who_do_not_wait() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Silent);
    for _ in 0..5 {
        let mut begun = bench.begin("api", "alice");
        assert!(begun.poll().is_none());
        bench.timer.advance(10_000);
    }
    assert_eq!(bench.engine.health().breaker, BreakerState::Open);
    let changes = bench.heard.changes.lock().unwrap();
    let reason = "nobody waited for the answer".to_owned();
    assert_eq!(*changes, [StoreChange::Down { reason }]);
    // Who leaves sooner says nothing.
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Silent);
    for _ in 0..1000 {
        assert!(bench.begin("api", "alice").poll().is_none());
        bench.timer.advance(10);
    }
    assert_eq!(bench.engine.health().breaker, BreakerState::Closed);
}

#[test]
fn health_tells_for_how_long() {
    let bench = Bench::new(POLICY);
    assert_eq!(bench.engine.health().down_for_us, 0);
    bench.mood(Mood::Silent);
    bench.time_out("api", 5);
    bench.timer.advance(7_000_000);
    assert_eq!(bench.engine.health().down_for_us, 7_000_000);
}
