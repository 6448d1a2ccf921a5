//! What is done about a key of which more is asked for than there is.

use super::*;

#[test]
fn a_limit_that_is_exceeded_is_asked_for_once_in_a_period() {
    let mut lease = holding(&TERMS, 2, 0);
    let mut draws = 0;
    for now_us in (0..10 * PERIOD_US).step_by(100) {
        let step = lease.ask(&TERMS, 1, now_us);
        let waits = step.told == Told::Waits;
        assert!(
            !waits || step.draw.is_some(),
            "nobody waits for what all want but who asks for it"
        );
        if let Some(draw) = step.draw {
            assert!(draw.most > 900 || now_us < PERIOD_US, "{draw:?} of a thousand a period");
            lease.granted(&TERMS, &lent(2, 2 * PERIOD_US), draw, now_us, now_us, u32::MAX / 2);
            draws += 1;
        }
    }
    assert!((8..=11).contains(&draws), "{draws} draws");
}

/// A key that is busy, and exceeded: the store has so much left, and gave nothing of it.
fn exceeded(left: u64) -> Lease {
    let mut lease = Lease::new(&TERMS, 0);
    let draw = (0..).find_map(|_| lease.ask(&TERMS, 1, 0).draw).unwrap();
    let none = Lent { drawn: Drawn { left, ..lent(0, 0).drawn }, ..lent(0, 2 * PERIOD_US) };
    lease.granted(&TERMS, &none, draw, 10, 10, u32::MAX);
    lease
}

/// When it came as it was told to, it was denied again: the store was only then asked.
#[test]
fn who_comes_when_he_was_told_to_waits_for_the_call_that_is_made_then() {
    for left in [0, 500] {
        for is_asked_again in [false, true] {
            let mut lease = exceeded(left);
            let Told::Denied { retry_after_us } = lease.ask(&TERMS, 1, 20).told else {
                panic!("{lease:?}")
            };
            let now_us = 20 + retry_after_us;
            assert!(matches!(lease.ask(&TERMS, 1, now_us - 1).told, Told::Denied { .. }));
            let Step { told: Told::Waits, draw: Some(draw) } = lease.ask(&TERMS, 1, now_us) else {
                panic!("{lease:?}")
            };
            if is_asked_again {
                lease.unask(1, now_us);
                assert_eq!(lease.ask(&TERMS, 1, now_us + 1).told, Told::Waits);
            }
            if left == 0 {
                let other = lease.ask(&TERMS, 1, now_us + 1).told;
                assert!(matches!(other, Told::Denied { .. }), "he wants what others want as well");
            }
            lease.granted(&TERMS, &lent(1, 2 * PERIOD_US), draw, now_us, now_us + 9, 0);
            assert!(matches!(lease.again(&TERMS, 1, now_us + 9).told, Told::Admitted(_)));
        }
    }
}

/// Its calls were used up: it was told to come when there was none to be made.
#[test]
fn who_is_denied_comes_when_there_may_be_a_call() {
    let mut lease = exceeded(500);
    let (mut now_us, mut draws) = (20, 0);
    while now_us < 20 * PERIOD_US {
        let denied = lease.ask(&TERMS, 1, now_us);
        let Told::Denied { retry_after_us } = denied.told else { panic!("{denied:?}") };
        now_us += retry_after_us;
        let step = lease.ask(&TERMS, 1, now_us);
        let Some(draw) = step.draw else { panic!("{step:?} at {now_us}, after {draws} draws") };
        let none = Lent { drawn: Drawn { left: 500, ..lent(0, 0).drawn }, ..lent(0, 1) };
        lease.granted(&TERMS, &none, draw, now_us, now_us, 0);
        draws += 1;
    }
    assert!((20..=30).contains(&draws), "{draws} draws");
}

/// All was out in other hands, and soon spent there: it was asked for after a period, as if nothing were left.
#[test]
fn where_all_is_out_in_other_hands_the_store_is_asked_again_soon() {
    let next_us = |left: u64| {
        let mut lease = exceeded(left);
        (20..).step_by(100).find(|us| lease.ask(&TERMS, 1, *us).draw.is_some()).unwrap()
    };
    assert!(next_us(500) < PERIOD_US * 2 / 3, "{}", next_us(500));
    assert!(next_us(0) > PERIOD_US, "{}", next_us(0));
}
