//! What one process does about one key.

use super::*;

const PERIOD_US: u64 = 100_000;
const TERMS: Terms = Terms { period_us: PERIOD_US, of_window: false };
const WINDOW: Terms = Terms { of_window: true, ..TERMS };

fn drawn(units: u64, reset_after_us: u64) -> Drawn {
    Drawn { units, left: 0, reset_after_us, at_us: 5 }
}

/// A key that is busy, with so many units that were drawn at `now_us`.
fn holding(terms: &Terms, units: u64, now_us: u64) -> Lease {
    let mut lease = Lease::new(now_us);
    let draw = loop {
        let step = lease.ask(terms, 1, now_us);
        if let Some(draw) = step.draw {
            break draw;
        }
        assert_eq!(step.told, Told::Store, "nobody is told otherwise before it is busy");
    };
    lease.granted(terms, &drawn(units, 30_000), draw, now_us, now_us, 0);
    lease
}

#[test]
fn a_key_that_is_not_busy_is_the_stores() {
    let mut lease = Lease::new(0);
    for nth in 1..100 {
        let step = lease.ask(&TERMS, 1, nth * PERIOD_US / 2);
        assert_eq!(step, Step { told: Told::Store, draw: None });
    }
    assert!(lease.is_idle(100 * PERIOD_US));
}

#[test]
fn what_was_drawn_is_spent_to_the_last_and_not_beyond() {
    let mut lease = holding(&TERMS, 3, 0);
    let ends_us = 2 * PERIOD_US - 2 * PERIOD_US / 1000;
    let spent = Spent { left: 1, ends_us, at_us: 5 };
    assert_eq!(lease.ask(&TERMS, 2, 1).told, Told::Admitted(spent));
    assert_eq!(lease.spend(2, 1), None, "one is not two");
    lease.put_back(1, spent, 1);
    assert_eq!(lease.spend(2, 1), Some(Spent { left: 0, ends_us, at_us: 5 }));
    assert_eq!(lease.spend(1, 1), None);
}

#[test]
fn units_end_after_two_periods_by_a_clock_that_may_be_fast() {
    let lease = holding(&TERMS, 9, 0);
    let life_us = 2 * PERIOD_US - 2 * PERIOD_US / 1000;
    assert_eq!((lease.left(life_us - 1), lease.left(life_us)), (9, 0));
    let of_window = holding(&WINDOW, 9, 0);
    assert_eq!((of_window.left(29_969), of_window.left(29_970)), (9, 0), "30 ms less a part");
}

#[test]
fn what_is_put_back_lives_no_longer_than_it_would_have() {
    let mut lease = holding(&TERMS, 3, 0);
    let spent = lease.spend(3, 0).unwrap();
    let draw = Draw { most: 5, least: 1 };
    lease.granted(&TERMS, &drawn(5, 0), draw, PERIOD_US, PERIOD_US, 0);
    let mut late = lease.clone();
    lease.put_back(3, spent, PERIOD_US);
    assert_eq!((lease.left(PERIOD_US), lease.left(2 * PERIOD_US)), (8, 5));
    late.put_back(3, spent, 2 * PERIOD_US);
    assert_eq!(late.left(2 * PERIOD_US), 5, "they had ended");
}

#[test]
fn a_limit_that_is_exceeded_is_asked_for_once_in_a_period() {
    let mut lease = holding(&TERMS, 2, 0);
    let mut draws = 0;
    for now_us in (0..10 * PERIOD_US).step_by(100) {
        let step = lease.ask(&TERMS, 1, now_us);
        assert_ne!(step.told, Told::Waits, "nobody waits for what all want");
        if let Some(draw) = step.draw {
            assert!(draw.most > 900 || now_us < PERIOD_US, "{draw:?} of a thousand a period");
            lease.granted(&TERMS, &drawn(2, 0), draw, now_us, now_us, u32::MAX / 2);
            draws += 1;
        }
    }
    assert!((8..=11).contains(&draws), "{draws} draws");
}

#[test]
fn who_comes_while_units_are_on_their_way_waits_for_them() {
    let mut lease = Lease::new(0);
    let steps: Vec<Step> = (0..9).map(|_| lease.ask(&TERMS, 1, 0)).collect();
    let draws: Vec<Draw> = steps.iter().filter_map(|step| step.draw).collect();
    assert_eq!(draws.len(), 1, "{steps:?}");
    assert_eq!(steps.last().unwrap().told, Told::Waits);
    lease.granted(&TERMS, &drawn(draws[0].most, 0), draws[0], 0, 400, 0);
    assert!(lease.spend(1, 400).is_some());
}

#[test]
fn without_a_store_what_is_left_is_spent_and_then_it_is_said() {
    let mut lease = holding(&TERMS, 500, 0);
    let draw = (0..).find_map(|_| lease.ask(&TERMS, 1, 10_000).draw).unwrap();
    lease.failed(&TERMS, 10_500, 0);
    let left = lease.left(10_500);
    assert!((0..left).all(|_| matches!(lease.ask(&TERMS, 1, 11_000).told, Told::Admitted(_))));
    assert_eq!(lease.ask(&TERMS, 1, 11_000).told, Told::Lost, "{draw:?}");
}

/// Of a limit with a long period, one draw that was lost was an hour without the store, and a few more
/// were several.
#[test]
fn a_store_that_gave_no_answer_is_asked_again_within_seconds() {
    let terms = Terms { period_us: 3_600_000_000, of_window: false };
    let mut lease = Lease::new(0);
    let mut draws = 0;
    for now_us in (0..20_000_000).step_by(10_000) {
        if lease.ask(&terms, 1, now_us).draw.is_some() {
            lease.failed(&terms, now_us, u32::MAX);
            draws += 1;
        }
    }
    assert!((15..=17).contains(&draws), "{draws} draws in 20 s, with pauses of 1.25 s");
}

#[test]
fn what_nobody_wants_is_given_back_and_the_key_forgotten() {
    let mut lease = holding(&TERMS, 50, 0);
    assert_eq!(lease.rest(&TERMS, PERIOD_US - 1), [Grant::default(); GRANTS]);
    let idle = lease.rest(&TERMS, PERIOD_US);
    assert_eq!(idle[0], Grant { units: 50, ends_us: 199_800, at_us: 5 });
    assert_eq!(lease.left(PERIOD_US), 0);
    for nth in 2..100 {
        lease.rest(&TERMS, nth * PERIOD_US);
    }
    assert!(lease.is_idle(100 * PERIOD_US));
}

#[test]
fn many_grants_are_never_more_than_was_granted_and_never_live_longer() {
    let mut lease = holding(&TERMS, 10, 0);
    for nth in 1..=9 {
        let draw = Draw { most: 10, least: 1 };
        lease.granted(&TERMS, &drawn(10, 0), draw, nth * 1_000, nth * 1_000, 0);
    }
    assert_eq!(lease.left(9_000), 100);
    assert_eq!(lease.left(2 * PERIOD_US + 9_000), 0);
}

/// It was denied by what had been short long before, though the store had just said what was left.
#[test]
fn who_asks_for_more_of_a_key_that_was_not_busy_is_not_denied_here() {
    let terms = Terms { period_us: 100 * PERIOD_US, of_window: false };
    let mut lease = holding(&terms, 1, 0);
    assert!(matches!(lease.ask(&terms, 1, 0).told, Told::Admitted(_)));
    assert!(matches!(lease.ask(&terms, 1, 1).told, Told::Denied { .. }), "there was too little");
    let now_us = 60 * PERIOD_US;
    for nth in 1..=60 {
        lease.rest(&terms, nth * PERIOD_US);
    }
    assert!(lease.is_idle(now_us));
    assert_eq!(lease.ask(&terms, 1, now_us).told, Told::Store);
    let more = lease.ask(&terms, 500, now_us);
    assert_eq!((more.told, more.draw), (Told::Store, None), "it is not asked for again yet");
    assert!(lease.is_hot());
}
