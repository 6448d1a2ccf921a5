//! Who has a part when others come, go and are forgotten.

use super::*;

const SECOND_US: u64 = 1_000_000;

/// One that joined at the first second and serves since the fourth, one of two.
fn serving() -> Count {
    let mut count = Count::default();
    for second in 1..=5 {
        count.heard(2, 2, second == 1, second * SECOND_US, second * SECOND_US);
    }
    count
}

#[test]
fn who_is_new_waits_until_all_have_heard() {
    let mut count = Count::default();
    count.begin(1_000);
    assert_eq!(count.place(1_000), Place::Waits { us: HEARD_US });
    assert_eq!(count.place(1_000 + HEARD_US), Place::Lost);
    count.heard(3, 3, true, 1_000, 2_000);
    count.heard(4, 4, false, SECOND_US, SECOND_US);
    count.heard(4, 4, false, 2 * SECOND_US, 2 * SECOND_US);
    let since_us = 2_000 + HEARD_US;
    assert_eq!(count.place(since_us - 1), Place::Waits { us: 1 });
    let serves =
        Standing { nodes: 4, is_counted: true, from_us: SECOND_US, since_us, parted_us: 0 };
    assert_eq!(count.place(since_us), Place::Serves(serves));
}

/// It served as soon as it would have, when others had not counted it yet.
#[test]
fn who_is_forgotten_while_it_waits_waits_anew() {
    let mut count = Count::default();
    count.heard(2, 2, true, 0, 0);
    count.heard(1, 1, true, 2 * SECOND_US, 2 * SECOND_US);
    count.heard(2, 2, false, 3 * SECOND_US, 3 * SECOND_US);
    count.heard(2, 2, false, 4 * SECOND_US, 4 * SECOND_US);
    assert_eq!(count.place(5 * SECOND_US - 1), Place::Waits { us: 1 });
    assert!(matches!(count.place(5 * SECOND_US), Place::Serves(_)));
}

#[test]
fn who_hears_nothing_stops_and_begins_anew() {
    let mut count = serving();
    let stops_us = 5 * SECOND_US + HEARD_US;
    assert!(matches!(count.place(stops_us - 1), Place::Serves(_)));
    assert_eq!((count.place(stops_us), count.nodes()), (Place::Lost, Some(2)));
    count.heard(1, 1, true, stops_us, stops_us);
    assert_eq!(count.place(stops_us), Place::Waits { us: HEARD_US });
    count.heard(1, 1, false, stops_us + SECOND_US, stops_us + SECOND_US);
    let since_us = stops_us + HEARD_US;
    let serves = Standing { nodes: 1, is_counted: true, from_us: since_us, since_us, parted_us: 0 };
    assert_eq!(count.place(since_us), Place::Serves(serves));
}

#[test]
fn a_store_that_lost_everything_is_not_believed_at_once() {
    let mut count = serving();
    let nodes = |count: &Count, at_us| match count.place(at_us) {
        Place::Serves(standing) => Some(standing.nodes),
        _ => None,
    };
    count.heard(1, 1, true, 6 * SECOND_US, 6 * SECOND_US);
    assert_eq!(nodes(&count, 6 * SECOND_US), Some(2));
    count.heard(1, 1, false, 8 * SECOND_US, 8 * SECOND_US);
    assert_eq!(nodes(&count, 8 * SECOND_US), Some(2));
    count.heard(1, 1, false, 9 * SECOND_US, 9 * SECOND_US);
    assert_eq!(nodes(&count, 9 * SECOND_US), Some(1));
}

/// What is noted when there are so many; how many it says after so long.
#[test]
fn a_number_is_noted_for_as_long_as_it_is_held() {
    use tollkeeper_core::State;

    let note = note().unwrap();
    let left = |state: &State, now_us| noted(state.remaining(&note, now_us));
    let mut state = State::fresh(&note, 0);
    assert_eq!(left(&state, 0), 0);
    for nodes in [1, 3, 4, 4, 900, MOST] {
        let now_us = nodes + 7 * nodes * SECOND_US;
        let over = state.remaining(&note, now_us) - left_of_note(nodes);
        state.overcharge(&note, over, now_us);
        assert_eq!(left(&state, now_us), nodes);
        assert_eq!(left(&state, now_us + HOLD_US), nodes);
        assert_eq!(left(&state, now_us + 2 * HOLD_US), nodes - 1);
        assert_eq!(left(&state, now_us + 3 * HOLD_US), nodes - 1);
    }
}

/// Three units; there were two processes, then so many each second.
fn heard_each_second(numbers: &[u64]) -> (Count, u64) {
    let mut count = serving();
    let mut now_us = 5 * SECOND_US;
    for most in numbers {
        now_us += SECOND_US;
        count.heard(2, *most, false, now_us, now_us);
    }
    (count, now_us)
}

#[test]
fn a_limit_that_is_too_small_is_the_stores_when_everybody_has_heard_so() {
    let (count, now_us) = heard_each_second(&[3, 4, 5]);
    assert_eq!(count.place_of(3, now_us), Place::Waits { us: HEARD_US - SECOND_US });
    assert_eq!(count.place_of(4, now_us), Place::Waits { us: HEARD_US });
    let (count, now_us) = heard_each_second(&[3, 4, 5, 4, 5]);
    assert_eq!(count.place_of(3, now_us), Place::Store { from_us: 10 * SECOND_US });
    assert_eq!(count.place_of(4, now_us), Place::Waits { us: HEARD_US });
    assert!(matches!(count.place_of(5, now_us), Place::Serves(_)));
}

#[test]
fn a_limit_that_is_large_enough_again_is_parted_when_nobody_asks_the_store() {
    let (count, now_us) = heard_each_second(&[4, 4, 4, 4, 3, 3]);
    let waits = Place::Waits { us: SETTLED_US - SECOND_US };
    assert_eq!(count.place_of(3, now_us), waits);
    let (count, now_us) = heard_each_second(&[4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 2]);
    let Place::Serves(standing) = count.place_of(3, now_us) else { panic!("it waits") };
    assert_eq!((standing.parted_us, standing.since_us), (now_us, 4 * SECOND_US));
    // Of two more than there were, it was known to be so for as long before.
    let (count, now_us) = heard_each_second(&[2]);
    let Place::Serves(standing) = count.place_of(3, now_us) else { panic!("it waits") };
    assert_eq!(standing.parted_us, standing.since_us);
}
