//! Random outages: whatever the store does and whenever, the promises hold.

use tollkeeper_engine::{BreakerState, Source};
use tollkeeper_testkit::dice::Dice;
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Begun, Bench};

const LIMIT: usize = 20;
const DEADLINE_US: u64 = 20_000;

/// A check that is under way, and when it must be told.
struct Waiting<'a> {
    check: Begun<'a>,
    deadline_us: u64,
}

#[test]
fn every_check_is_told_by_its_deadline_and_nobody_is_admitted_beyond_the_bound() {
    for seed in 0..300 {
        let policy = format!(
            "rules: {{ api: {{ token_bucket: {{ capacity: {LIMIT}, refill_rate: 1/day }} }} }}"
        );
        let bench = Bench::new(&policy);
        let mut dice = Dice::new(seed);
        let mut now_us = 0;
        let mut waiting: Vec<Waiting<'_>> = Vec::new();
        let mut admitted = (0, 0);
        for _ in 0..400 {
            if dice.below(20) == 0 {
                let moods = [Mood::Well, Mood::Silent, Mood::RanSilent, Mood::Refusing];
                bench.mood(dice.pick(&moods));
            }
            let step_us = dice.below(8_000);
            bench.timer.advance(step_us);
            bench.clock.advance(step_us);
            now_us += step_us;
            for _ in 0..dice.below(4) {
                let check = bench.begin("api", "alice");
                waiting.push(Waiting { check, deadline_us: now_us + DEADLINE_US });
            }
            waiting.retain_mut(|Waiting { check, deadline_us }| match check.poll() {
                Some(verdict) => {
                    let verdict = verdict.unwrap();
                    match verdict.source() {
                        Source::Store => admitted.0 += usize::from(verdict.allowed()),
                        _ => admitted.1 += usize::from(verdict.allowed()),
                    }
                    false
                }
                None => {
                    assert!(now_us < *deadline_us, "seed {seed}: it waits past its deadline");
                    true
                }
            });
        }
        // The store never admits beyond its limit, nor the local limiter beyond its own; and what
        // the store had given out when it was last heard is not given out again.
        assert!(admitted.0 <= LIMIT && admitted.1 <= LIMIT, "seed {seed}: {admitted:?}");
    }
}

#[test]
fn after_any_outage_a_well_store_is_up_within_a_second() {
    for seed in 0..300 {
        let bench = Bench::new("rules: { api: { limit: 1000000/s } }");
        let mut dice = Dice::new(seed);
        let mut waiting: Vec<Begun<'_>> = Vec::new();
        let moods = [Mood::Silent, Mood::RanSilent, Mood::Refusing, Mood::Well];
        for _ in 0..dice.below(2_000) {
            if dice.below(30) == 0 {
                bench.mood(dice.pick(&moods));
            }
            bench.timer.advance(dice.below(10_000));
            waiting.push(bench.begin("api", "alice"));
            waiting.retain_mut(|check| check.poll().is_none());
        }
        bench.mood(Mood::Well);
        let mut waited_us = 0;
        while bench.engine.health().breaker != BreakerState::Closed {
            bench.timer.advance(5_000);
            waited_us += 5_000;
            waiting.push(bench.begin("api", "alice"));
            waiting.retain_mut(|check| check.poll().is_none());
            assert!(waited_us <= 1_000_000, "seed {seed}: {:?}", bench.engine.health());
        }
    }
}
