//! Permits: held until they are given back or end, renewed or not, and each of it once.

use crate::common::{
    Key, SECOND_US, START_US, amounts, config, histories, one_of_each, quotas, starts,
};
use proptest::prelude::*;
use tollkeeper_core::algorithm::concurrency::{Lease, Leases};
use tollkeeper_core::{Admission, Algorithm, Quota, State};

/// Nothing is settled of permits.
#[test]
fn permits_are_neither_refunded_nor_overcharged() {
    let quota = one_of_each(3, SECOND_US)[6];
    let mut key = Key::new(quota, START_US);
    key.ask(2);
    let before = key.state.clone();
    key.state.refund(&quota, 2, None, START_US);
    assert_eq!(key.state.overcharge(&quota, 7, START_US), 7);
    assert_eq!(key.state, before);
}

fn permits_of(key: &Key) -> Vec<u128> {
    match &key.state {
        State::Leases(leases) => leases.leases().map(|lease| lease.permit).collect(),
        _ => unreachable!(),
    }
}

/// A permit is given back once: again, or one that nobody holds, changes nothing.
#[test]
fn release_is_idempotent() {
    let inputs = (quotas(Algorithm::Concurrency), starts(), histories(), 0..6u128, amounts(120));
    proptest!(config(1_000), |((quota, start_us, steps, back, wait) in inputs)| {
        let mut key = Key::lived(quota, start_us, &steps);
        key.now_us += wait.of(key.reset_after_us());
        let permit = key.permits.saturating_sub(back);
        let (now_us, before) = (key.now_us, key.clone());
        let State::Leases(leases) = &mut key.state else { unreachable!() };
        let is_live = |lease: &&Lease| lease.permit == permit && lease.expires_us > now_us;
        let units: u64 = leases.leases().filter(is_live).map(|lease| lease.units).sum();
        prop_assert_eq!(leases.release(permit, now_us), units > 0);
        prop_assert!(!leases.release(permit, now_us), "given back twice");
        prop_assert!(units > 0 || key.state == before.state);
        prop_assert!(units == 0 || !permits_of(&key).contains(&permit));
        prop_assert_eq!(key.remaining(), before.remaining() + units);
    });
}

/// A renewed permit ends a whole lease from now, however often it is renewed, and holds no more.
#[test]
fn renew_is_idempotent() {
    let inputs = (quotas(Algorithm::Concurrency), starts(), histories(), 0..6u128, amounts(120));
    proptest!(config(1_000), |((quota, start_us, steps, back, wait) in inputs)| {
        let Quota::Concurrency(in_flight) = quota else { unreachable!() };
        let mut key = Key::lived(quota, start_us, &steps);
        key.now_us += wait.of(key.reset_after_us());
        let permit = key.permits.saturating_sub(back);
        let (now_us, before) = (key.now_us, key.clone());
        let State::Leases(leases) = &mut key.state else { unreachable!() };
        let is_held = leases.renew(&in_flight, permit, now_us);
        let once = leases.clone();
        prop_assert_eq!(leases.renew(&in_flight, permit, now_us), is_held);
        prop_assert_eq!(&*leases, &once);
        let ends_us: Vec<u64> =
            once.leases().filter(|l| l.permit == permit).map(|l| l.expires_us).collect();
        let gone_us = now_us + in_flight.lease_us();
        prop_assert_eq!(key.remaining(), before.remaining());
        if is_held {
            prop_assert_eq!(ends_us, [gone_us]);
            prop_assert_eq!(key.reset_after_us(), in_flight.lease_us());
        } else {
            prop_assert_eq!(&key.state, &before.state);
        }
        // The end itself is too late.
        let State::Leases(mut leases) = key.state else { unreachable!() };
        prop_assert!(!leases.clone().renew(&in_flight, permit, gone_us));
        prop_assert_eq!(leases.renew(&in_flight, permit, gone_us - 1), is_held);
    });
}

/// The ends decide, whatever the order of the grants; those that end together keep that order.
#[test]
fn leases_are_kept_in_the_order_of_their_ends() {
    let quota = Quota::concurrency(9, 100).unwrap();
    let shorter = Quota::concurrency(9, 40).unwrap();
    let mut key = Key::new(quota, 1_000);
    for quota in [quota, shorter, quota, shorter, shorter] {
        key.quota = quota;
        assert!(key.ask(1).is_yes());
    }
    assert_eq!(permits_of(&key), [2, 4, 5, 1, 3]);
    assert_eq!(key.look(5), Admission::after(40));
    assert_eq!([7, 8, 9].map(|cost| key.look(cost)), [40, 100, 100].map(Admission::after));
}

/// What has ended goes with the next charge or release, so that no key grows for ever.
#[test]
fn ended_leases_are_dropped() {
    let quota = Quota::concurrency(9, 100).unwrap();
    let mut key = Key::new(quota, 1_000);
    assert!(key.ask(1).is_yes());
    key.now_us = 1_050;
    assert!(key.ask(1).is_yes());
    for (now_us, charged, released) in
        [(1_099, vec![1, 2, 3], vec![1]), (1_100, vec![2, 3], vec![])]
    {
        let mut other = Key { now_us, ..key.clone() };
        assert!(other.ask(1).is_yes());
        assert_eq!(permits_of(&other), charged);
        let mut other = Key { now_us, ..key.clone() };
        let State::Leases(leases) = &mut other.state else { unreachable!() };
        assert!(leases.release(2, now_us));
        assert_eq!(permits_of(&other), released);
    }
}

/// Leases of different lengths change places when the clock steps back: each ends no later than
/// one of its own length granted now.
#[test]
fn a_step_back_puts_the_ends_in_another_order() {
    let (long, short) = (Quota::concurrency(2, 100).unwrap(), Quota::concurrency(2, 10).unwrap());
    let mut key = Key::new(long, 1_000);
    assert!(key.ask(1).is_yes());
    (key.quota, key.now_us) = (short, 1_095);
    assert!(key.ask(1).is_yes());
    assert_eq!([1, 2].map(|cost| key.look(cost)), [5, 10].map(Admission::after));
    key.now_us = 1_020;
    let ends = |key: &Key| match &key.state {
        State::Leases(leases) => leases.leases().map(|lease| lease.expires_us).collect::<Vec<_>>(),
        _ => unreachable!(),
    };
    for _ in 0..2 {
        assert_eq!([1, 2].map(|cost| key.look(cost)), [10, 80].map(Admission::after));
        assert_eq!(key.reset_after_us(), 80);
        key.ask(2);
        assert_eq!((permits_of(&key), ends(&key)), (vec![2, 1], vec![1_030, 1_100]));
    }
    // Given back, and the rest is tied to the clock too.
    key.now_us = 900;
    let State::Leases(leases) = &mut key.state else { unreachable!() };
    assert!(leases.release(2, 900));
    assert_eq!((permits_of(&key), ends(&key)), (vec![1], vec![1_000]));
    key.now_us = 890;
    assert!(key.ask(1).is_yes());
    assert_eq!((permits_of(&key), ends(&key)), (vec![3, 1], vec![900, 990]));
}

/// The last to end may be none too far away while a shorter one before it is.
#[test]
fn a_step_back_reaches_a_short_lease_before_a_long_one() {
    let (long, short) = (Quota::concurrency(2, 100).unwrap(), Quota::concurrency(2, 10).unwrap());
    let mut key = Key::new(long, 1_000);
    assert!(key.ask(1).is_yes());
    (key.quota, key.now_us) = (short, 1_080);
    assert!(key.ask(1).is_yes());
    key.now_us = 1_050;
    for _ in 0..2 {
        assert_eq!([1, 2].map(|cost| key.look(cost)), [10, 50].map(Admission::after));
        assert_eq!(key.reset_after_us(), 50);
        key.ask(2);
    }
}

/// Leases keep their ends when the limit changes: a new lease time is for the next one.
#[test]
fn a_changed_lease_time_is_for_the_next_permit() {
    let permits = |l, lease| Quota::concurrency(l, lease).unwrap();
    let mut key = Key::new(permits(5, 60), 1_000);
    for _ in 0..5 {
        assert!(key.ask(1).is_yes());
        key.now_us += 1;
    }
    key.quota = permits(3, 10);
    // Five are held: the third to end leaves two.
    assert_eq!(key.look(1), Admission::after(1_062 - 1_005));
    assert_eq!(key.look(0), Admission::after(1_061 - 1_005));
    assert_eq!(key.look(3), Admission::after(1_064 - 1_005));
    key.now_us = 1_062;
    assert!(key.ask(1).is_yes());
    assert_eq!(key.look(1), Admission::after(1));
    key.now_us = 1_064;
    assert_eq!((key.remaining(), key.reset_after_us()), (2, 8));
}

/// Lease times that change, a clock that steps back, permits given back: what was kept says the
/// same as what is read back from it.
#[test]
fn what_is_kept_agrees_with_its_own_leases() {
    let tick = (any::<bool>(), 0..150u64, any::<bool>(), 1..=3u64, proptest::option::of(0..4u128));
    let ticks = proptest::collection::vec(tick, 1..30);
    let lease_times = (1..=100u64, 1..=100u64);
    proptest!(config(2_000), |(ticks in ticks, (one, other) in lease_times)| {
        let [one, other] = [one, other].map(|us| Quota::concurrency(10, us).unwrap());
        let mut key = Key::new(one, 10_000);
        for (back, by_us, changed, cost, release) in ticks {
            key.now_us = if back { key.now_us - by_us } else { key.now_us + by_us };
            key.quota = if changed { other } else { one };
            let State::Leases(held) = &mut key.state else { unreachable!() };
            if let Some(nth) = release {
                held.release(key.permits.saturating_sub(nth), key.now_us);
            }
            let state = State::Leases(Box::new(Leases::new(held.leases().copied().collect())));
            let mut restored = Key { state, ..key.clone() };
            for cost in [1, 5, 10] {
                prop_assert_eq!(key.look(cost), restored.look(cost));
            }
            prop_assert_eq!(key.remaining(), restored.remaining());
            prop_assert_eq!(key.reset_after_us(), restored.reset_after_us());
            prop_assert_eq!(key.ask(cost), restored.ask(cost));
            let (State::Leases(kept), State::Leases(read)) = (&key.state, &restored.state) else {
                unreachable!()
            };
            prop_assert!(kept.leases().eq(read.leases()));
        }
    });
}
