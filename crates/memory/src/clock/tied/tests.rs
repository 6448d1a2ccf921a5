//! Ticks that jump, begin anew and drift, in virtual time.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tollkeeper_testkit::dice::Dice;

use super::*;

const START_US: u64 = 1_700_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// Ticks of a nanosecond each, if they are right.
const TRUST_TICKS: u64 = TRUST_US * 1_000;

/// Two clocks that are moved by hand.
#[derive(Debug)]
struct Hands {
    ticks: AtomicU64,
    passed_ns: AtomicU64,
    /// How much faster ticks run, in parts of a million.
    skew: AtomicI64,
}

impl Source for Hands {
    fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    fn nanos(&self, ticks: u64) -> u64 {
        ticks
    }

    fn passed(&self) -> Duration {
        Duration::from_nanos(self.passed_ns.load(Ordering::Relaxed))
    }
}

impl<S: Source> Tied<S> {
    /// The time by the system's clock.
    pub(in crate::clock) fn system_us(&self) -> u64 {
        self.start_us + whole_us(self.source.passed())
    }
}

impl Tied<Hands> {
    fn by_hand() -> Self {
        let hands = Hands {
            ticks: AtomicU64::new(24 * HOUR),
            passed_ns: AtomicU64::new(0),
            skew: AtomicI64::new(0),
        };
        Self::new(hands, START_US)
    }

    /// Both clocks go on.
    fn pass(&self, ns: u64) {
        let skew = self.source.skew.load(Ordering::Relaxed);
        let more = i128::from(ns) * i128::from(skew) / 1_000_000;
        self.source.passed_ns.fetch_add(ns, Ordering::Relaxed);
        self.jump(i64::try_from(i128::from(ns) + more).unwrap());
    }

    /// So many ticks pass at once, or come back.
    fn jump(&self, ticks: i64) {
        self.source.ticks.fetch_add(ticks.cast_unsigned(), Ordering::Relaxed);
    }

    /// Goes on for so long, read every 10 µs; how far ahead of the system's clock it was at most,
    /// and how far behind.
    fn run(&self, ns: u64) -> (u64, u64) {
        let (mut last_us, mut ahead_us, mut behind_us) = (0, 0, 0);
        for _ in 0..ns / 10_000 {
            self.pass(10_000);
            let (now_us, system_us) = (self.now_us(), self.system_us());
            assert!(now_us >= last_us, "{now_us} after {last_us}");
            last_us = now_us;
            ahead_us = ahead_us.max(now_us.saturating_sub(system_us));
            behind_us = behind_us.max(system_us.saturating_sub(now_us));
        }
        (ahead_us, behind_us)
    }
}

/// It used to show one moment until the counter was where it had been: for as long as the
/// machine had run.
#[test]
fn a_counter_that_begins_anew_does_not_stop_time() {
    let clock = Tied::by_hand();
    clock.run(SECOND);
    let last_us = clock.now_us();
    clock.source.ticks.store(17, Ordering::Relaxed);
    let now_us = clock.now_us();
    assert!(now_us >= last_us, "{now_us} after {last_us}");
    assert!(clock.run(2 * TRUST_TICKS).0 <= TRUST_US);
    let (ahead_us, behind_us) = clock.run(SECOND);
    assert!(ahead_us == 0 && behind_us <= 2, "{ahead_us} µs ahead, {behind_us} behind");
}
/// It used to take all ticks of a machine that slept for time, and then ran slow for hours.
#[test]
fn ticks_that_run_on_while_the_system_sleeps_are_hardly_counted() {
    let clock = Tied::by_hand();
    clock.run(SECOND);
    for slept in [TRUST_TICKS / 2, HOUR] {
        clock.jump(slept.cast_signed());
        let now_us = clock.now_us();
        assert!((0..=TRUST_US).contains(&(now_us - clock.system_us())));
        // It waits for the system's clock, and goes on with it at the old rate.
        assert!(clock.run(3 * TRUST_TICKS).0 <= TRUST_US);
        let (ahead_us, behind_us) = clock.run(SECOND);
        assert!(ahead_us == 0 && behind_us <= 2, "{ahead_us} µs ahead, {behind_us} behind");
    }
}

/// It used to go by the rate of the whole run, ever further ahead of a clock that was slowed.
#[test]
fn a_system_clock_that_is_steered_is_followed() {
    let clock = Tied::by_hand();
    clock.run(SECOND);
    for skew in [0, 500, -500, 500, 0] {
        clock.source.skew.store(skew, Ordering::Relaxed);
        // A thousand parts in a million of 5 ms, until it has been measured twice.
        let (ahead_us, behind_us) = clock.run(SECOND / 5);
        assert!(ahead_us <= 6 && behind_us <= 7, "{ahead_us} µs ahead, {behind_us} behind");
        let (ahead_us, behind_us) = clock.run(10 * SECOND);
        assert!(ahead_us == 0 && behind_us <= 2, "{ahead_us} µs ahead, {behind_us} behind");
    }
}

/// A processor whose counter is behind shows the time of the tie, and its readers disturb nobody.
#[test]
fn a_counter_that_is_a_little_behind_is_another_processors() {
    let clock = Tied::by_hand();
    clock.run(SECOND);
    let tie = clock.tie();
    let behind = (tie.ticks + 1 - TRUST_TICKS / 2).wrapping_sub(clock.source.ticks());
    clock.jump(behind.cast_signed());
    assert_eq!(clock.now_us(), tie.us);
    clock.jump(behind.cast_signed().wrapping_neg());
    assert_eq!(clock.tie().ticks, tie.ticks);
    assert!(clock.run(SECOND).1 <= 2);
}

/// Whatever ticks do: never back, at most 5 ms ahead, and hardly behind.
#[test]
fn no_story_of_ticks_takes_time_back_or_far_from_the_systems() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let clock = Tied::by_hand();
        let mut last_us = 0;
        for step in 0..5_000 {
            let longest = dice.pick(&[50, 20_000, 3_000_000, SECOND, HOUR]);
            let jump = dice.pick(&[TRUST_TICKS, HOUR]);
            let (ticks, skew) = (&clock.source.ticks, &clock.source.skew);
            match dice.below(100) {
                0 => clock.jump(dice.below(jump).cast_signed()),
                // By more than what processors can differ by.
                1 => clock.jump(-dice.between(2 * TRUST_TICKS, HOUR).cast_signed()),
                2 if clock.source.ticks() > 2 * SECOND => {
                    ticks.store(dice.below(SECOND), Ordering::Relaxed);
                }
                3 => skew.store(dice.below(1_001).cast_signed() - 500, Ordering::Relaxed),
                _ => clock.pass(dice.below(longest)),
            }
            let (now_us, system_us) = (clock.now_us(), clock.system_us());
            let story = format!("seed {seed}, step {step}: {now_us} after {last_us}, {system_us}");
            assert!(now_us >= last_us, "{story}");
            assert!(now_us <= system_us + TRUST_US, "{story}");
            // A part in 64 of what is trusted, before anything was measured; and what is steered.
            assert!(system_us <= now_us + 90, "{story}");
            last_us = now_us;
        }
    }
}
