//! A changed limit: usage survives, in the new unit.

use super::*;

#[test]
fn eighty_used_of_a_hundred_per_minute() {
    let per_minute = |count| token_bucket(count, per(count, MINUTE_US));
    for (count, left) in [(90, 10), (200, 120), (100, 20), (50, 0)] {
        let mut model = single(per_minute(100));
        assert_eq!(ask(&mut model, START_US, 80).remaining, 20);
        model.reconfigure(0, per_minute(count));
        let look = ask(&mut model, START_US, 0);
        assert_eq!((look.limit, look.remaining), (count, left));
        assert_eq!(look.allowed, count >= 80);
    }
}

#[test]
fn a_level_is_rounded_up_to_the_new_unit_and_then_drains_at_the_new_rate() {
    // P is 10 µs here: after 1 µs the level is 1 − 1/10.
    let mut model = single(token_bucket(5, per(1, 10)));
    ask(&mut model, START_US, 1);
    ask(&mut model, START_US + 1, 1);
    // 1.9 tokens, in units of 1/3: ceil(5.7) = 6 of them, and each takes a microsecond.
    model.reconfigure(0, token_bucket(5, per(1, 3)));
    assert_eq!(ask(&mut model, START_US + 1, 0).reset_after_us, 6);
    assert_eq!(ask(&mut model, START_US + 3, 0).reset_after_us, 4);
    assert_eq!(ask(&mut model, START_US + 3, 0).remaining, 3);
}

#[test]
fn a_converted_level_saturates() {
    let mut model = single(token_bucket(1_000_000, per(1_000_000, SECOND_US)));
    ask(&mut model, START_US, 1_000_000);
    // A token every 400 days: P is 3.456 · 10^13 µs, and a million of them would be past 2^53.
    model.reconfigure(0, token_bucket(1, per(1, 400 * DAY_US)));
    assert_eq!(ask(&mut model, START_US, 0).reset_after_us, (1 << 53) - 1);
}

#[test]
fn what_was_as_new_under_the_old_rule_is_forgotten() {
    let mut model = single(token_bucket(10, per(10, SECOND_US)));
    let fresh_at_us = START_US + ask(&mut model, START_US, 5).reset_after_us;
    model.reconfigure(0, token_bucket(10, per(1, SECOND_US)));
    assert_eq!(ask(&mut model, fresh_at_us - 1, 0).remaining, 5);
    assert_eq!(ask(&mut model, fresh_at_us, 0).remaining, 10);
    // Written under the new rule, it is remembered for longer.
    assert_eq!(ask(&mut model, fresh_at_us - 1, 1).remaining, 4);
    assert_eq!(ask(&mut model, fresh_at_us, 0).remaining, 4);
}

#[test]
fn a_window_of_the_same_length_keeps_its_count() {
    for (old, new) in [
        (fixed(100, MINUTE_US), fixed(90, MINUTE_US)),
        (counter(100, MINUTE_US), counter(90, MINUTE_US)),
        (log(100, MINUTE_US), log(90, MINUTE_US)),
    ] {
        let mut model = single(old);
        ask(&mut model, START_US, 80);
        model.reconfigure(0, new);
        assert_eq!(ask(&mut model, START_US, 0).remaining, 10);
    }
}

#[test]
fn a_fixed_window_of_another_length_counts_where_it_may_reach() {
    let edge_us = START_US / 1_000 * 1_000;
    // A shorter window: the old one reaches into each of the new ones until its end.
    let mut model = single(fixed(10, 1_000));
    ask(&mut model, edge_us, 4);
    model.reconfigure(0, fixed(10, 100));
    let look = ask(&mut model, edge_us + 950, 0);
    assert_eq!((look.remaining, look.reset_after_us), (6, 50));
    assert_eq!(ask(&mut model, edge_us + 1_000, 0).remaining, 10);
    // A longer one contains it.
    let mut model = single(fixed(10, 100));
    ask(&mut model, edge_us + 150, 4);
    model.reconfigure(0, fixed(10, 1_000));
    let look = ask(&mut model, edge_us + 160, 0);
    assert_eq!((look.remaining, look.reset_after_us), (6, 840));
}

#[test]
fn a_counters_two_windows_are_placed_one_by_one() {
    let edge_us = START_US / 1_000 * 1_000;
    let model = |new_window_us| {
        let mut model = single(counter(100, 100));
        ask(&mut model, edge_us + 850, 8);
        ask(&mut model, edge_us + 950, 4);
        model.reconfigure(0, counter(100, new_window_us));
        model
    };
    let used = |new_window_us, at_us| 100 - ask(&mut model(new_window_us), at_us, 0).remaining;
    // Both in this window.
    assert_eq!(used(1_000, edge_us + 990), 12);
    // Both in the one before, of which 950/1000 count: 11.4.
    assert_eq!(used(1_000, edge_us + 1_050), 11);
    // Of windows of 50, [900, 1000) reaches into this one and [800, 900) into none: this one began at 950.
    assert_eq!(used(50, edge_us + 960), 4);
    // At 910 this one began at 900, and the one before at 850: [800, 900) reaches into it, and 40/50 of it count.
    assert_eq!(used(50, edge_us + 910), 4 + 6);
}

#[test]
fn a_window_ahead_of_the_clock_counts_in_this_one() {
    let edge_us = START_US / 1_000 * 1_000;
    let mut model = single(counter(100, 1_000));
    ask(&mut model, edge_us, 8);
    ask(&mut model, edge_us + 1_000, 4);
    model.reconfigure(0, counter(100, 500));
    assert_eq!(ask(&mut model, edge_us - 9_000, 0).remaining, 88);
}

#[test]
fn log_entries_are_times_whatever_the_window() {
    let mut model = single(log(10, 1_000));
    ask(&mut model, START_US, 3);
    ask(&mut model, START_US + 400, 2);
    model.reconfigure(0, log(10, 500));
    let look = ask(&mut model, START_US + 500, 0);
    assert_eq!((look.remaining, look.reset_after_us), (8, 400));
    model.reconfigure(0, log(10, 10_000));
    assert_eq!(ask(&mut model, START_US + 500, 0).remaining, 5);
}

#[test]
fn a_denial_leaves_a_window_in_the_new_length_so_that_its_promise_holds() {
    let edge_us = START_US / 1_000 * 1_000;
    let mut model = single(fixed(10, 1_000));
    ask(&mut model, edge_us, 10);
    model.reconfigure(0, fixed(10, 100));
    // Read in the new length, the window ends at 300.
    assert_eq!(retry_both_sides(&mut model, edge_us + 250, 1), 50);
}

#[test]
fn a_denial_writes_no_other_conversion() {
    let mut model = single(token_bucket(5, per(1, 10)));
    ask(&mut model, START_US, 1);
    ask(&mut model, START_US + 1, 1);
    model.reconfigure(0, token_bucket(2, per(1, 3)));
    assert!(!ask(&mut model, START_US + 1, 1).allowed);
    model.reconfigure(0, token_bucket(5, per(1, 10)));
    assert_eq!(ask(&mut model, START_US + 1, 0).reset_after_us, 19);
}
