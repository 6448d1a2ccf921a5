//! Fixed windows, the log, and the sliding counter.

use super::*;

#[test]
fn a_fixed_window_counts_from_the_epoch() {
    let mut model = single(fixed(3, MINUTE_US));
    let edge_us = START_US / MINUTE_US * MINUTE_US;
    let numbers = ask(&mut model, edge_us + 5, 2);
    assert_eq!(numbers.remaining, 1);
    assert_eq!(numbers.reset_after_us, MINUTE_US - 5);
    assert_eq!(ask(&mut model, edge_us + 6, 4).retry_after_us, None);
    assert_eq!(retry_both_sides(&mut model, edge_us + 10, 2), MINUTE_US - 10);
    assert_eq!(ask(&mut model, edge_us + 2 * MINUTE_US, 0).reset_after_us, 0);
}

#[test]
fn an_entry_exactly_a_window_old_is_out_of_the_log() {
    let mut model = single(log(3, 100));
    for at_us in [0, 10, 20] {
        assert!(ask(&mut model, START_US + at_us, 1).allowed);
    }
    assert_eq!(ask(&mut model, START_US + 20, 0).reset_after_us, 100);
    assert_eq!(ask(&mut model, START_US + 50, 3).retry_after_us, Some(70));
    // Two units have to go: those of 0 and 10.
    assert_eq!(retry_both_sides(&mut model, START_US + 50, 2), 60);
    assert_eq!(ask(&mut model, START_US + 119, 0).remaining, 0);
    assert_eq!(ask(&mut model, START_US + 120, 0).remaining, 1);
    assert_eq!(ask(&mut model, START_US + 210, 0).reset_after_us, 0);
}

#[test]
fn the_counter_weighs_the_window_before() {
    let edge_us = START_US / 1_000 * 1_000;
    let mut model = single(counter(10, 1_000));
    assert_eq!(ask(&mut model, edge_us + 999, 10).reset_after_us, 1_001);
    let next_us = edge_us + 1_000;
    assert_eq!(ask(&mut model, next_us, 0).remaining, 0);
    // 10 · (1000 − e) / 1000 is below 10, and so at most 9, from e = 1 on.
    assert_eq!(ask(&mut model, next_us, 1).retry_after_us, Some(1));
    assert_eq!(ask(&mut model, next_us + 1, 0).remaining, 1);
    assert_eq!(ask(&mut model, next_us + 500, 5).remaining, 0);
    assert_eq!(ask(&mut model, next_us + 500, 0).reset_after_us, 1_500);
    // Without charges in this window, only the one before has to go.
    let mut model = single(counter(10, 1_000));
    ask(&mut model, edge_us, 1);
    assert_eq!(ask(&mut model, next_us + 1, 0).reset_after_us, 999);
    assert_eq!(ask(&mut model, next_us + 1_000, 0).reset_after_us, 0);
}

#[test]
fn the_counter_retries_in_this_window_the_next_or_the_one_after() {
    let edge_us = START_US / 1_000 * 1_000;
    // In this window: previous 10, no current, cost 4 needs an estimate below 7.
    let mut model = single(counter(10, 1_000));
    ask(&mut model, edge_us, 10);
    assert_eq!(retry_both_sides(&mut model, edge_us + 1_100, 4), 201);
    // In the next: current 10 becomes previous.
    let mut model = single(counter(10, 1_000));
    ask(&mut model, edge_us, 10);
    assert_eq!(retry_both_sides(&mut model, edge_us + 1, 10), 999 + 901);
    // In the next, from a debt of twice the limit: half of it must have gone, and a little more.
    let mut model = single(counter(1, 1_000));
    model.check_as(edge_us, 1, 7, Some(5_000));
    model.settle(edge_us, 7, 2);
    assert_eq!(retry_both_sides(&mut model, edge_us, 1), 1_501);
    // In the one after: with 5 units for every microsecond of a window, the next one's estimate is never 0.
    let mut model = single(counter(5_000, 1_000));
    ask(&mut model, edge_us, 5_000);
    assert_eq!(retry_both_sides(&mut model, edge_us + 10, 5_000), 1_990);
}

#[test]
fn a_counter_of_200_003_per_day_is_exact() {
    const MAX: u64 = 200_003;
    let edge_us = START_US / DAY_US * DAY_US;
    let mut model = single(counter(MAX, DAY_US));
    assert!(ask(&mut model, edge_us + 17, MAX).allowed);
    let next_us = edge_us + DAY_US;
    // prev · (W − e) is about 1.7 · 10^16 here, past 2^53.
    for elapsed_us in [1, 431_994, 431_995, 12_345_678_901, DAY_US / 2, DAY_US - 1] {
        let look = ask(&mut model, next_us + elapsed_us, 0);
        let carried = u128::from(MAX) * u128::from(DAY_US - elapsed_us) / u128::from(DAY_US);
        assert_eq!(u128::from(look.remaining), u128::from(MAX) - carried);
    }
    // floor(200 003 · (W − e) / W) ≤ 200 002 as soon as e > 0, and 200 001 when e > W / 200 003 = 431 993.52….
    let mut again = single(counter(MAX, DAY_US));
    ask(&mut again, edge_us + 17, MAX);
    assert_eq!(retry_both_sides(&mut again, next_us, 2), 431_994);
    assert_eq!(retry_both_sides(&mut model, next_us, 1), 1);
}

#[test]
fn no_window_admits_more_than_its_limit() {
    for spec in [fixed(5, 1_000), log(5, 1_000), counter(5, 1_000)] {
        let mut model = single(spec.clone());
        assert_eq!(ask(&mut model, START_US, 6).retry_after_us, None);
        let admitted = (0..50).filter(|_| ask(&mut model, START_US, 1).allowed);
        assert_eq!(admitted.count(), 5);
        assert_eq!(ask(&mut model, START_US, 0).remaining, 0);
        assert!(ask(&mut model, START_US, 0).allowed, "{spec:?}");
    }
}
