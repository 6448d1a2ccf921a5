//! A packed state is read as it was, and stepped as one that is not packed.

use tollkeeper_core::limits::{EXACT, MAX_PERIOD_US, MAX_TIME_US, MAX_WINDOW_COUNT};
use tollkeeper_core::{LeakMode, Quota, Rate};
use tollkeeper_testkit::dice::Dice;

use super::*;

/// From 1 to `most`, of any size alike.
fn any(dice: &mut Dice, most: u64) -> u64 {
    let bits = dice.below(u64::from(most.ilog2()) + 2);
    1 + dice.below((1u64 << bits).min(most))
}

fn any_quota(dice: &mut Dice) -> Quota {
    loop {
        let (count, period_us) = (any(dice, MAX_WINDOW_COUNT), any(dice, MAX_PERIOD_US));
        let rate = Rate::new(any(dice, EXACT - 1), any(dice, MAX_PERIOD_US)).unwrap();
        let capacity = any(dice, EXACT / 2);
        let quota = match dice.below(5) {
            0 => Quota::token_bucket(capacity, rate),
            1 => Quota::gcra(capacity, rate),
            2 => Quota::leaking_bucket(capacity, rate, LeakMode::Shape, None),
            3 => Quota::fixed_window(count, period_us),
            _ => Quota::sliding_window_counter(count, period_us),
        };
        if let Ok(quota) = quota {
            return quota;
        }
    }
}

/// What is packed is read as it was, and expires when it did; what is not does not fit.
fn check(state: &State, quota: &Quota, now_us: u64, row: RowId) -> bool {
    let unit = Unit::of(quota);
    let Some(packed) = Packed::new(state, unit, row) else {
        let (State::Pair(WindowPair { current, previous, .. }), true) = (state, state.fits(quota))
        else {
            panic!("{state:?} of {quota:?} does not fit");
        };
        assert!((*current).max(*previous) >= 1 << 29, "{state:?}");
        return false;
    };
    assert_eq!((packed.state(unit).as_ref(), packed.row()), (Some(state), row));
    assert_eq!(packed.place(), None);
    let reset_after_us = state.reset_after_us(quota, now_us);
    if reset_after_us > 0 {
        let expires_us = now_us + reset_after_us;
        assert_eq!(packed.expires_us(unit), expires_us, "{state:?} {quota:?}");
        assert!(packed.has_expired(unit, expires_us));
        assert!(!packed.has_expired(unit, expires_us - 1));
    }
    assert_eq!(packed.has_expired(unit, now_us), reset_after_us == 0);
    true
}

/// A step is the same, packed or not.
fn stepped_alike(state: &State, quota: &Quota, cost: u64, now_us: u64, row: RowId) {
    let unit = Unit::of(quota);
    let Some(packed) = Packed::new(state, unit, row) else { return };
    let mut state = state.clone();
    let step = state.step(quota, cost, 0, now_us);
    taken_alike(packed, quota, cost, now_us);
    match packed.step(quota, unit, cost, |_| now_us) {
        Some(stepped) => {
            let packed = Packed::new(&state, unit, row).unwrap();
            assert_eq!(stepped, Stepped { step, packed, now_us });
        }
        None => assert_eq!(Packed::new(&state, unit, row), None),
    }
}

/// What is taken in the short way is what a step takes, and all that is given is, but by a leaking bucket.
fn taken_alike(packed: Packed, quota: &Quota, cost: u64, now_us: u64) {
    let unit = Unit::of(quota);
    let is_short = !matches!(quota, Quota::LeakingBucket(_));
    let stepped = packed.step(quota, unit, cost, |_| now_us);
    let stepped = stepped.filter(|it| is_short && it.step.written && it.step.admission.is_yes());
    let taken = stepped.map(|Stepped { step, packed, now_us }| {
        let Step { remaining, reset_after_us, .. } = step;
        Taken { packed, now_us, limit: quota.limit(), remaining, reset_after_us }
    });
    assert_eq!(packed.take(quota, unit, cost, |_| now_us), taken);
    assert_eq!(packed.take(quota, unit, 0, |_| now_us), None);
    let other = Unit { size: unit.size + 1, ..unit };
    assert_eq!(packed.take(quota, other, cost, |_| now_us), None);
}

#[test]
fn any_state_of_any_quota_is_read_as_it_was_written() {
    let mut dice = Dice::new(20);
    let mut packed = 0;
    for story in 0..20_000 {
        let mut quota = any_quota(&mut dice);
        let mut now_us = dice.below(MAX_TIME_US);
        let mut state = State::fresh(&quota, now_us);
        let row = RowId::from_number(dice.below(1 << RowId::BITS));
        for _ in 0..10 {
            match dice.below(8) {
                0 => now_us = now_us.saturating_sub(any(&mut dice, MAX_PERIOD_US)),
                1..4 => now_us = (now_us + any(&mut dice, MAX_PERIOD_US)).min(MAX_TIME_US),
                _ => {}
            }
            if dice.below(10) == 0 {
                let other = any_quota(&mut dice);
                quota = if state.fits(&other) { other } else { quota };
            }
            let units = any(&mut dice, quota.limit());
            stepped_alike(&state, &quota, units, now_us, row);
            let written = match dice.below(6) {
                0 => {
                    state.overcharge(&quota, units, now_us);
                    true
                }
                1 => {
                    state.refund(&quota, units, None, now_us);
                    true
                }
                _ => state.step(&quota, units, 0, now_us).written,
            };
            if written {
                packed += u32::from(check(&state, &quota, now_us, row));
            }
        }
        assert!(story < 1_000 || packed > story);
    }
}

#[test]
fn a_number_too_large_for_its_place_is_not_packed() {
    let unit = Unit { size: 7, drain: 1 };
    let fits = |state| Packed::new(&state, unit, RowId::NONE).is_some();
    let pair = |current, previous, window| {
        fits(State::Pair(WindowPair { window, size_us: 7, current, previous }))
    };
    let most = (1 << 29) - 1;
    assert!(pair(most, most, (1 << 53) - 1));
    assert!(!pair(most + 1, 0, 1) && !pair(0, most + 1, 1) && !pair(0, 0, 1 << 53));
    let debt = |debt, unit, last_us| fits(State::Debt(Debt { debt, unit, last_us }));
    assert!(debt((1 << 58) - 1, 7, (1 << 53) - 1));
    assert!(!debt(1 << 58, 7, 1) && !debt(1, 7, 1 << 53));
    assert!(!debt(1, 8, 1), "it was written in another unit");
    assert!(!fits(State::Log(Box::default())));
}

#[test]
fn a_place_is_read_as_it_was_written() {
    for row in [RowId::NONE, RowId::from_number(0), RowId::from_number(0x1555)] {
        let packed = Packed::elsewhere(u32::MAX, row);
        assert_eq!((packed.place(), packed.row()), (Some(u32::MAX), row));
        assert_eq!(packed.state(Unit { size: 1, drain: 1 }), None);
    }
}
