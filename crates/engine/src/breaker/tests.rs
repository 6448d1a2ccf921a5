//! Outages of every kind, by a time that is moved by hand.

use super::*;

const PATIENCE_US: u64 = 30_000_000;

fn down_at(now_us: u64) -> Breaker {
    let mut breaker = Breaker::new(7, PATIENCE_US);
    fail(&mut breaker, now_us);
    breaker
}

/// Lets it go down.
fn fail(breaker: &mut Breaker, now_us: u64) {
    let turns: Vec<_> =
        (0..FAILURES_IN_A_ROW).filter_map(|_| breaker.failed(now_us, now_us)).collect();
    assert_eq!(turns, [Turn::Down]);
}

/// The first moment at which a probe goes.
fn next_probe(breaker: &mut Breaker, from_us: u64) -> u64 {
    (from_us..).step_by(100).find(|now_us| breaker.admits(*now_us, 0)).unwrap()
}

#[test]
fn failures_in_a_row_open_it_and_an_answer_between_starts_the_row_afresh() {
    let mut breaker = Breaker::new(1, PATIENCE_US);
    for _ in 0..3 {
        for _ in 1..FAILURES_IN_A_ROW {
            assert_eq!(breaker.failed(5, 5), None);
        }
        assert_eq!(breaker.answered(5, 5), None);
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(down_at(5).state(), BreakerState::Open);
}

#[test]
fn a_store_that_fails_one_call_in_four_is_too_slow_to_ask() {
    let mut breaker = Breaker::new(1, PATIENCE_US);
    let mut calls = 0;
    while breaker.state() == BreakerState::Closed {
        (1..ONE_IN).for_each(|_| _ = breaker.answered(10, 10));
        let _ = breaker.failed(10, 10);
        calls += ONE_IN;
    }
    assert_eq!(calls, ONE_IN * FAILURES_IN_WINDOW);
    // One in five is slow, and still the better truth.
    let mut breaker = Breaker::new(1, PATIENCE_US);
    for now_us in 0..10_000 {
        (0..ONE_IN).for_each(|_| _ = breaker.answered(now_us, now_us));
        assert_eq!(breaker.failed(now_us, now_us), None);
    }
}

#[test]
fn failures_of_long_ago_do_not_count() {
    let mut breaker = Breaker::new(1, PATIENCE_US);
    for nth in 0..1000u64 {
        let now_us = nth * WINDOW_US / 2;
        let _ = breaker.answered(now_us, now_us);
        assert_eq!(breaker.failed(now_us, now_us), None);
    }
}

#[test]
fn down_it_lets_one_probe_go_at_a_time_and_ever_less_often() {
    let mut breaker = down_at(1_000);
    let mut now_us = 1_000;
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let probe_us = next_probe(&mut breaker, now_us);
        assert!(!breaker.admits(probe_us, 0), "a second probe");
        pauses.push(probe_us - now_us);
        now_us = probe_us + 20_000;
        assert_eq!(breaker.failed(now_us, now_us), None);
    }
    let mut most_us = FIRST_PAUSE_US;
    for pause_us in pauses {
        assert!((most_us / 2..=most_us + 100).contains(&pause_us), "{pause_us} of {most_us}");
        most_us = (most_us * 2).min(LONGEST_PAUSE_US);
    }
}

#[test]
fn nodes_that_fail_together_do_not_probe_together() {
    let probes: std::collections::HashSet<u64> = (1..=100u64)
        .map(|seed| {
            let mut breaker = Breaker::new(seed << 32, PATIENCE_US);
            fail(&mut breaker, 0);
            next_probe(&mut breaker, 0)
        })
        .collect();
    assert!(probes.len() > 30, "{} moments of 100 nodes", probes.len());
}

#[test]
fn recovering_it_lets_ever_more_go_and_says_how_long_it_was_down() {
    let mut breaker = down_at(1_000);
    let probe_us = next_probe(&mut breaker, 1_000);
    assert_eq!(breaker.answered(probe_us, probe_us), None);
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert!(breaker.admits(probe_us, 1) && !breaker.admits(probe_us, 2));
    assert_eq!(breaker.answered(probe_us, probe_us), None);
    assert!(breaker.admits(probe_us, 3) && !breaker.admits(probe_us, 4));
    let turns: Vec<_> = (0..4).filter_map(|_| breaker.answered(probe_us, probe_us)).collect();
    assert_eq!(turns, [Turn::Up { after_us: probe_us - 1_000 }]);
    assert!(breaker.admits(probe_us, 10_000));
    assert_eq!(breaker.down_for_us(probe_us), 0);
}

#[test]
fn a_failure_while_it_recovers_is_the_same_outage() {
    let mut breaker = down_at(1_000);
    let probe_us = next_probe(&mut breaker, 1_000);
    assert_eq!(breaker.answered(probe_us, probe_us), None);
    assert_eq!(breaker.failed(probe_us, probe_us), None);
    assert_eq!(breaker.state(), BreakerState::Open);
    assert_eq!(breaker.down_for_us(61_000), 60_000);
}

#[test]
fn a_probe_that_its_caller_gave_up_frees_the_place() {
    let mut breaker = down_at(0);
    let probe_us = next_probe(&mut breaker, 0);
    // Others that went before, and are given up now, are not the probe.
    breaker.abandoned(probe_us - 1);
    assert!(!breaker.admits(probe_us, 0));
    breaker.abandoned(probe_us);
    assert!(breaker.admits(probe_us, 0));
    // And one that nobody ever ended does so after a while.
    assert!(!breaker.admits(probe_us + PATIENCE_US, 0));
    assert!(breaker.admits(probe_us + PATIENCE_US + 1, 0));
}

#[test]
fn calls_that_went_before_it_was_down_do_not_lengthen_its_pause() {
    let mut breaker = down_at(0);
    for _ in 0..1000 {
        assert_eq!(breaker.failed(20, 20), None);
    }
    let probe_us = next_probe(&mut breaker, 0);
    assert!(probe_us <= FIRST_PAUSE_US + 100);
    // Neither are they taken for the probe.
    for began_us in [0, probe_us - 1] {
        assert_eq!(breaker.failed(began_us, probe_us), None);
        assert_eq!(breaker.answered(began_us, probe_us), None);
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    assert_eq!(breaker.answered(probe_us, probe_us + 5), None);
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert_eq!(breaker.failed(probe_us - 1, probe_us + 6), None);
    assert_eq!(breaker.state(), BreakerState::HalfOpen, "a late failure of before");
}

/// They ended when it was well again, and took it down once more.
#[test]
fn calls_that_hung_since_before_an_outage_say_nothing_after_it() {
    let mut breaker = down_at(1_000);
    let probe_us = next_probe(&mut breaker, 1_000);
    (0..6).for_each(|_| _ = breaker.answered(probe_us, probe_us + 5));
    assert_eq!(breaker.state(), BreakerState::Closed);
    for _ in 0..100 {
        assert_eq!(breaker.failed(probe_us - 1, probe_us + 10), None);
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
}

/// The last of them went just before the way was open again, and the next one came 400 ms later.
#[test]
fn probes_that_are_not_sent_go_on_with_short_pauses() {
    let mut breaker = down_at(0);
    let mut now_us = 0;
    for nth in 0..100 {
        let probe_us = next_probe(&mut breaker, now_us);
        assert!(
            (FIRST_PAUSE_US / 2..=FIRST_PAUSE_US + 100).contains(&(probe_us - now_us)) || nth == 0
        );
        now_us = probe_us;
        assert_eq!(breaker.unreached(probe_us, now_us), None);
    }
    // One that is sent and fails has pauses that grow, whatever came before.
    for most_us in [50_000, 100_000, 200_000, 400_000, 400_000] {
        let probe_us = next_probe(&mut breaker, now_us);
        assert_eq!(breaker.failed(probe_us, probe_us), None);
        let State::Down { probe_at_us, .. } = breaker.state else { panic!("{breaker:?}") };
        assert!((most_us / 2..=most_us).contains(&(probe_at_us - probe_us)), "{most_us}");
        now_us = probe_us;
    }
}

#[test]
fn a_relapse_goes_on_with_long_pauses_and_a_later_outage_begins_with_short_ones() {
    let relapse = |well_us: u64| {
        let mut breaker = down_at(0);
        let mut now_us = 0;
        for _ in 0..10 {
            now_us = next_probe(&mut breaker, now_us);
            let _ = breaker.failed(now_us, now_us);
        }
        now_us = next_probe(&mut breaker, now_us);
        (0..6).for_each(|_| _ = breaker.answered(now_us, now_us));
        assert_eq!(breaker.state(), BreakerState::Closed);
        now_us += well_us;
        fail(&mut breaker, now_us);
        next_probe(&mut breaker, now_us) - now_us
    };
    assert!(relapse(RELAPSE_US) >= LONGEST_PAUSE_US / 2);
    assert!(relapse(RELAPSE_US + 1) <= FIRST_PAUSE_US + 100);
}
