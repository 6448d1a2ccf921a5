//! What one process does about one key.

use tollkeeper_core::{Back, TURNS};

use super::*;

mod exceeded;

const PERIOD_US: u64 = 100_000;
/// Of a bucket, and of a window.
const TERMS: Terms = Terms { period_us: PERIOD_US, most_out: Some(200) };
const WINDOW: Terms = Terms { most_out: None, ..TERMS };

/// Units of the first turn.
fn lent(units: u64, life_us: u64) -> Lent {
    of_turn(1, units, life_us)
}

fn of_turn(turn: u64, units: u64, life_us: u64) -> Lent {
    Lent { drawn: Drawn { units, left: 0, reset_after_us: 0, at_us: 5 }, turn, life_us }
}

/// A key that is busy, with so many units that were drawn at `now_us`.
fn holding(terms: &Terms, units: u64, now_us: u64) -> Lease {
    let mut lease = Lease::new(terms, now_us);
    let draw = loop {
        let step = lease.ask(terms, 1, now_us);
        if let Some(draw) = step.draw {
            break draw;
        }
        assert_eq!(step.told, Told::Store, "nobody is told otherwise before it is busy");
    };
    let life_us = if terms.most_out.is_some() { 2 * PERIOD_US } else { 30_000 };
    lease.granted(terms, &lent(units, life_us), draw, now_us, now_us, 0);
    lease
}

#[test]
fn a_key_that_is_not_busy_is_the_stores() {
    let mut lease = Lease::new(&TERMS, 0);
    for nth in 1..100 {
        let step = lease.ask(&TERMS, 1, nth * PERIOD_US);
        assert_eq!(step, Step { told: Told::Store, draw: None });
    }
    assert!(lease.is_idle(&TERMS, 101 * PERIOD_US));
}

/// Between the two bounds a key stays what it is: else it would be begun and given up in turn.
#[test]
fn what_comes_neither_often_nor_seldom_changes_nothing() {
    // So many come evenly for a hundred periods: whether a key becomes what it was not.
    let changes = |was_busy: bool, in_ten_periods: u64| {
        let mut lease = if was_busy { holding(&TERMS, 1, 0) } else { Lease::new(&TERMS, 0) };
        (1..10 * in_ten_periods).any(|nth| {
            let now_us = nth * 10 * PERIOD_US / in_ten_periods;
            if let Some(draw) = lease.ask(&TERMS, 1, now_us).draw {
                // What is here would keep it busy.
                lease.granted(&TERMS, &lent(0, 2 * PERIOD_US), draw, now_us, now_us, 0);
            }
            lease.rest(&TERMS, now_us);
            lease.is_hot() != was_busy
        })
    };
    for in_ten_periods in [11, 20, 35] {
        assert!(!changes(true, in_ten_periods), "{in_ten_periods} in ten periods");
    }
    // Of more than eleven a key becomes busy since they would be too many calls.
    assert!(!changes(false, 11));
    assert!(changes(true, 8) && changes(false, 45));
}

/// Two requests in a period are too few to be leased by their number, and too many to ask for each.
#[test]
fn whoever_comes_and_however_the_store_is_not_called_oftener_than_it_may_be() {
    for every_us in [1_000, 9_000, 30_000, 50_000, 70_000, 95_000, 250_000] {
        for most_units in [0, 1, 1_000] {
            let mut lease = Lease::new(&TERMS, 0);
            let (mut calls, mut admitted, mut asked) = (0, 0, 0);
            for now_us in (0..100 * PERIOD_US).step_by(every_us) {
                // Long pauses, in which units are given back.
                if now_us / PERIOD_US % 10 > 6 {
                    calls += u64::from(lease.rest(&TERMS, now_us).is_some());
                    continue;
                }
                asked += 1;
                let step = lease.ask(&TERMS, 1, now_us);
                calls += u64::from(step.told == Told::Store) + u64::from(step.draw.is_some());
                let mut told = step.told;
                if let Some(draw) = step.draw {
                    let units = draw.most.min(most_units);
                    lease.granted(&TERMS, &lent(units, 2 * PERIOD_US), draw, now_us, now_us, 0);
                    if told == Told::Waits {
                        told = lease.again(&TERMS, 1, now_us).told;
                    }
                }
                admitted += u64::from(matches!(told, Told::Admitted(_) | Told::Store));
            }
            assert!(calls <= 8 + 110, "every {every_us}, {most_units} units: {calls} calls");
            let is_rich = most_units == 1_000;
            assert!(!is_rich || admitted * 1_000 >= asked * 995, "{admitted} of {asked}");
        }
    }
}

#[test]
fn a_request_that_is_asked_again_is_one_call() {
    let mut lease = Lease::new(&TERMS, 0);
    for now_us in 0..100 {
        assert_eq!(lease.ask(&TERMS, 1, now_us).told, Told::Store, "the first of {now_us}");
        lease.unask(1, now_us);
    }
    assert_eq!((0..4).filter(|_| lease.ask(&TERMS, 1, 100).told == Told::Store).count(), 3);
}

/// What was let wait for a draw was denied if that was too small, though the store had more.
#[test]
fn who_waited_in_vain_waits_for_more() {
    let mut lease = Lease::new(&TERMS, 0);
    let draw = (0..).find_map(|_| lease.ask(&TERMS, 1, 0).draw).unwrap();
    (0..500).for_each(|_| assert_eq!(lease.ask(&TERMS, 1, 10).told, Told::Waits));
    lease.granted(&TERMS, &lent(draw.most, 2 * PERIOD_US), draw, 0, 400, 0);
    let steps: Vec<Step> = (0..501).map(|_| lease.again(&TERMS, 1, 400)).collect();
    let waiting = steps.iter().filter(|step| step.told == Told::Waits).count() as u64;
    assert_eq!(waiting, 501 - draw.most);
    let more: Vec<Draw> = steps.iter().filter_map(|step| step.draw).collect();
    assert!(more.len() == 1 && more[0].most >= waiting, "{more:?}");
}

#[test]
fn what_was_drawn_is_spent_to_the_last_and_not_beyond() {
    let mut lease = holding(&TERMS, 3, 0);
    let ends_us = 2 * PERIOD_US - 2 * PERIOD_US / 1000;
    let spent = Spent { ends_us, at_us: 5, ..Spent::now(1) };
    assert_eq!(lease.ask(&TERMS, 2, 1).told, Told::Admitted(spent));
    assert_eq!(lease.spend(2, 1), None, "one is not two");
    lease.put_back(1, spent, 1);
    assert_eq!(lease.spend(2, 1), Some(Spent { left: 0, ..spent }));
    assert_eq!(lease.spend(1, 1), None);
}

#[test]
fn units_end_when_the_store_says_by_a_clock_that_may_be_fast() {
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
    lease.granted(&TERMS, &of_turn(2, 5, 2 * PERIOD_US), draw, PERIOD_US, PERIOD_US, 0);
    let mut late = lease.clone();
    lease.put_back(3, spent, PERIOD_US);
    assert_eq!((lease.left(PERIOD_US), lease.left(2 * PERIOD_US)), (8, 5));
    late.put_back(3, spent, 2 * PERIOD_US);
    assert_eq!(late.left(2 * PERIOD_US), 5, "they had ended");
}

#[test]
fn who_comes_while_units_are_on_their_way_waits_for_them() {
    let mut lease = Lease::new(&TERMS, 0);
    let steps: Vec<Step> = (0..9).map(|_| lease.ask(&TERMS, 1, 0)).collect();
    let draws: Vec<Draw> = steps.iter().filter_map(|step| step.draw).collect();
    assert_eq!(draws.len(), 1, "{steps:?}");
    assert_eq!(steps.last().unwrap().told, Told::Waits);
    lease.granted(&TERMS, &lent(draws[0].most, 2 * PERIOD_US), draws[0], 0, 400, 0);
    assert!(lease.spend(1, 400).is_some());
}

#[test]
fn without_a_store_what_is_left_is_spent_and_then_it_is_said() {
    let mut lease = holding(&TERMS, 500, 0);
    let draw = (0..).find_map(|_| lease.ask(&TERMS, 1, 10_000).draw).unwrap();
    lease.failed(&TERMS, None, 10_500, 0);
    let left = lease.left(10_500);
    assert!((0..left).all(|_| matches!(lease.ask(&TERMS, 1, 11_000).told, Told::Admitted(_))));
    assert_eq!(lease.ask(&TERMS, 1, 11_000).told, Told::Lost, "{draw:?}");
}

/// Of a limit with a long period, one draw that was lost was an hour without the store, and a few more
/// were several.
#[test]
fn a_store_that_gave_no_answer_is_asked_again_within_seconds() {
    let terms = Terms { period_us: 3_600_000_000, ..TERMS };
    let mut lease = Lease::new(&terms, 0);
    let mut draws = 0;
    for now_us in (0..20_000_000).step_by(10_000) {
        if lease.ask(&terms, 1, now_us).draw.is_some() {
            lease.failed(&terms, None, now_us, u32::MAX);
            draws += 1;
        }
    }
    assert!((15..=17).contains(&draws), "{draws} draws in 20 s, with pauses of 1.25 s");
}

#[test]
fn what_nobody_wants_is_given_back_and_the_key_forgotten() {
    let mut lease = holding(&TERMS, 500, 0);
    assert!(lease.spend(3, 10).is_some());
    assert_eq!(lease.rest(&TERMS, PERIOD_US - 1), None);
    let Some(Change::Lend(Lend { most: 0, back, .. })) = lease.rest(&TERMS, PERIOD_US) else {
        panic!("nothing came back");
    };
    assert_eq!(back[0], Back { turn: 1, spent: 3, unspent: 497 });
    assert_eq!(back[1..], [Back::default(); TURNS - 1]);
    assert_eq!(lease.left(PERIOD_US), 0);
    for nth in 2..100 {
        assert_eq!(lease.rest(&TERMS, nth * PERIOD_US), None);
    }
    assert!(lease.is_idle(&TERMS, 100 * PERIOD_US));
}

#[test]
fn units_of_a_window_come_back_by_when_they_were_taken() {
    let mut lease = Lease::new(&WINDOW, 0);
    let draw = (0..).find_map(|_| lease.ask(&WINDOW, 1, 0).draw).unwrap();
    lease.granted(&WINDOW, &lent(500, 9 * PERIOD_US), draw, 0, 0, 0);
    let refund = Change::Refund { units: 500, charged_at_us: Some(5) };
    assert_eq!(lease.rest(&WINDOW, PERIOD_US), Some(refund));
    assert_eq!(lease.rest(&WINDOW, 2 * PERIOD_US), None);
}

const ALL: Draw = Draw { most: 9, least: 1 };

/// What of each turn a draw tells that something was spent of.
fn told(lease: &mut Lease) -> Vec<(u64, u64)> {
    let Change::Lend(lend) = lease.change(&TERMS, ALL, 0, 20) else { panic!("it is counted") };
    assert!(lend.back.iter().all(|back| back.unspent == 0));
    lend.back.iter().filter(|back| back.spent > 0).map(|back| (back.turn, back.spent)).collect()
}

#[test]
fn what_was_spent_is_told_once_turn_by_turn() {
    let mut lease = holding(&TERMS, 3, 0);
    for turn in [2, 3, 3] {
        lease.granted(&TERMS, &of_turn(turn, 4, turn * PERIOD_US), ALL, 0, 10, 0);
    }
    assert_eq!(told(&mut lease), []);
    assert!(lease.spend(5, 20).is_some());
    assert_eq!((told(&mut lease), told(&mut lease)), (vec![(1, 3), (2, 2)], vec![]));
    assert!(lease.spend(7, 20).is_some());
    assert_eq!((told(&mut lease), lease.left(20)), (vec![(2, 2), (3, 5)], 3));
    assert_eq!(lease.change(&WINDOW, ALL, 0, 20), Change::Draw { most: 9, least: 1 });
}

/// The store counted them as out until they had ended, though it had been about to be told.
#[test]
fn what_was_not_told_since_the_call_did_not_run_is_told_by_the_next() {
    let mut lease = holding(&TERMS, 9, 0);
    assert!(lease.spend(4, 10).is_some());
    let change = lease.change(&TERMS, ALL, 0, 20);
    assert!(lease.spend(2, 10).is_some());
    let mut unsure = lease.clone();
    lease.failed(&TERMS, Some(&change), 20, 0);
    unsure.failed(&TERMS, None, 20, 0);
    assert_eq!((told(&mut lease), told(&mut unsure)), (vec![(1, 6)], vec![(1, 2)]));
}

/// The store begins to count anew where nothing is out, and turns may have the same numbers again.
#[test]
fn what_has_ended_is_not_told() {
    let mut lease = holding(&TERMS, 3, 0);
    lease.granted(&TERMS, &of_turn(2, 4, 4 * PERIOD_US), ALL, 0, 10, 0);
    assert!(lease.spend(5, 20).is_some());
    let Change::Lend(lend) = lease.change(&TERMS, ALL, 0, 2 * PERIOD_US) else {
        panic!("it is counted")
    };
    let told = Back { turn: 2, spent: 2, unspent: 0 };
    assert_eq!(lend.back.map(|back| back.spent).iter().sum::<u64>(), 2, "{:?}", lend.back);
    assert!(lend.back.contains(&told), "{:?}", lend.back);
}

/// It went where it ended soonest, though it had come from elsewhere, and was lost if its request waited once more.
#[test]
fn what_is_put_back_lasts_as_long_as_it_can() {
    let mut lease = holding(&TERMS, 3, 0);
    lease.granted(&TERMS, &of_turn(2, 4, 4 * PERIOD_US), ALL, 0, 10, 0);
    assert!(lease.spend(4, 20).is_some());
    let spent = lease.spend(1, 20).unwrap();
    lease.put_back(1, spent, 20);
    assert_eq!((lease.left(20), lease.left(2 * PERIOD_US)), (3, 3));
}

/// Of a limit that had long turns and has short ones, more was out than may be, for hours: nobody could
/// have anything, and what was there was not spent.
#[test]
fn what_another_quota_of_the_state_had_taken_is_told_with_a_draw() {
    let mut before = holding(&TERMS, 9, 0);
    before.granted(&TERMS, &of_turn(2, 4, 4 * PERIOD_US), ALL, 0, 10, 0);
    assert!(before.spend(4, 20).is_some());
    let mut lease = holding(&TERMS, 9, 0);
    lease.granted(&TERMS, &of_turn(3, 4, 4 * PERIOD_US), ALL, 0, 10, 0);
    assert!(lease.spend(7, 20).is_some());
    let Change::Lend(mut lend) = lease.change(&TERMS, ALL, 0, 20) else { panic!("it is counted") };
    before.hand_over(&mut lend, 20);
    let each = |turn, spent, unspent| Back { turn, spent, unspent };
    assert_eq!(lend.back[..2], [each(1, 11, 5), each(2, 0, 4)], "{:?}", lend.back);
    assert_eq!(lend.back.iter().map(|back| back.spent + back.unspent).sum::<u64>(), 20);
    assert_eq!((before.left(20), before.spend(1, 20), told(&mut before)), (0, None, vec![]));
    before.hand_over(&mut lend, 20);
    assert_eq!(lend.back[0], each(1, 11, 5), "there is nothing more");
}

/// A request that met another limit, too, lost what it took if just then more was drawn.
#[test]
fn what_may_yet_be_put_back_is_not_told() {
    let mut lease = holding(&TERMS, 9, 0);
    let spent = lease.spend(4, 10).unwrap();
    let Change::Lend(lend) = lease.change(&TERMS, ALL, 3, 20) else { panic!("it is counted") };
    assert_eq!(lend.back[0], Back { turn: 1, spent: 1, unspent: 0 });
    lease.put_back(2, spent, 10);
    assert_eq!((lease.left(10), told(&mut lease)), (7, vec![(1, 1)]));
}

/// A request that took a unit and failed with the call that told of it lost the unit.
#[test]
fn what_was_put_back_while_it_was_told_is_there_if_the_call_did_not_run() {
    let mut lease = holding(&TERMS, 9, 0);
    let spent = lease.spend(4, 10).unwrap();
    let change = lease.change(&TERMS, ALL, 0, 20);
    lease.put_back(3, spent, 20);
    assert_eq!(lease.left(20), 5);
    lease.failed(&TERMS, Some(&change), 30, 0);
    assert_eq!((lease.left(30), told(&mut lease)), (8, vec![(1, 1)]));
}

/// What the store was told is spent it lends anew: it cannot be put back.
#[test]
fn what_was_told_is_not_put_back() {
    let mut lease = holding(&TERMS, 9, 0);
    let spent = lease.spend(4, 10).unwrap();
    lease.put_back(1, spent, 10);
    assert_eq!((told(&mut lease), lease.left(10)), (vec![(1, 3)], 6));
    lease.put_back(3, spent, 10);
    assert_eq!(lease.left(10), 6);
    assert!(lease.spend(2, 10).is_some());
    lease.put_back(3, spent, 10);
    assert_eq!((lease.left(10), told(&mut lease)), (6, vec![]));
}

/// A store that stood still ran all that it was sent when it went on: each try took a period's worth.
#[test]
fn a_store_that_gives_no_answer_is_asked_for_little() {
    let mut lease = holding(&TERMS, 500, 0);
    let next = |lease: &mut Lease, from_us: u64| {
        let mut all = (from_us..).step_by(100).map(|us| (us, lease.ask(&TERMS, 1, us).draw));
        all.find_map(|(now_us, draw)| draw.map(|draw| (now_us, draw))).unwrap()
    };
    let (now_us, first) = next(&mut lease, 0);
    assert!(first.most > 100, "{first:?}");
    lease.failed(&TERMS, None, now_us, 0);
    let (now_us, second) = next(&mut lease, now_us);
    assert_eq!(second, Draw { most: 1, least: 1 });
    lease.granted(&TERMS, &lent(1, 2 * PERIOD_US), second, now_us, now_us, 0);
    let (_, third) = next(&mut lease, now_us);
    assert!(third.most > 100, "it is well again: {third:?}");
}

#[test]
fn many_grants_are_never_more_than_was_granted_and_never_live_longer() {
    let mut lease = holding(&TERMS, 10, 0);
    for nth in 1..=9 {
        let draw = Draw { most: 10, least: 1 };
        lease.granted(&TERMS, &lent(10, 2 * PERIOD_US), draw, nth * 1_000, nth * 1_000, 0);
    }
    assert_eq!(lease.left(9_000), 100);
    assert_eq!(lease.left(2 * PERIOD_US + 9_000), 0);
}

/// It was denied by what had been short long before, though the store had just said what was left.
#[test]
fn who_asks_for_more_of_a_key_that_was_not_busy_is_not_denied_here() {
    let terms = Terms { period_us: 100 * PERIOD_US, ..TERMS };
    let mut lease = holding(&terms, 1, 0);
    assert!(matches!(lease.ask(&terms, 1, 0).told, Told::Admitted(_)));
    assert!(matches!(lease.ask(&terms, 1, 1).told, Told::Denied { .. }), "there was too little");
    let now_us = 60 * PERIOD_US;
    for nth in 1..=60 {
        lease.rest(&terms, nth * PERIOD_US);
    }
    assert!(!lease.is_hot() && lease.left(now_us) == 0);
    let told: Vec<Told> = [1, 500, 1].map(|cost| lease.ask(&terms, cost, now_us).told).into();
    assert!(told.iter().all(|told| matches!(told, Told::Store | Told::Waits)), "{told:?}");
    assert!(lease.is_hot());
}

/// Each burst had to be learned anew, draw by draw, until there was no call left for it.
#[test]
fn a_burst_like_the_one_before_takes_few_draws() {
    const REQUESTS: u64 = 100;
    let mut lease = Lease::new(&TERMS, 0);
    let mut burst = |begun_us: u64| {
        let mut draws = Vec::new();
        for nth in 0..REQUESTS {
            let now_us = begun_us + nth * PERIOD_US / 4 / REQUESTS;
            if let Some(draw) = lease.ask(&TERMS, 1, now_us).draw {
                lease.granted(&TERMS, &lent(draw.most, 2 * PERIOD_US), draw, now_us, now_us, 0);
                draws.push(draw.most);
            }
        }
        (1..30).for_each(|nth| _ = lease.rest(&TERMS, begun_us + nth * PERIOD_US));
        draws
    };
    let (first, second) = (burst(0), burst(30 * PERIOD_US));
    assert!(first.len() > 2 && first[0] < REQUESTS / 8, "{first:?}");
    assert!(second.len() < first.len() && second[0] >= REQUESTS / 2 - 1, "{second:?}");
}

/// A key that was forgotten as soon as nobody came had all its calls again when somebody did.
#[test]
fn a_key_is_not_forgotten_before_it_may_call_as_often_as_a_new_one() {
    let mut lease = Lease::new(&TERMS, 0);
    for nth in 0..3 {
        assert_eq!(lease.ask(&TERMS, 1, nth).told, Told::Store);
    }
    lease.rest(&TERMS, PERIOD_US);
    assert!(!lease.is_hot() && !lease.is_idle(&TERMS, 2 * PERIOD_US));
    assert!(lease.is_idle(&TERMS, 3 * PERIOD_US));
}
