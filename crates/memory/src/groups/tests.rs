//! What was put in is found, at any size and however crowded.

use std::collections::HashMap;
use std::hash::RandomState;

use tollkeeper_core::Algorithm;
use tollkeeper_testkit::dice::Dice;

use super::*;
use crate::fingerprint::Fingerprinter;
use crate::rows::RowId;
use crate::slots::Budget;

mod home;

fn numbered(number: u32) -> Packed {
    Packed::elsewhere(number, RowId::NONE)
}

/// As a decision does.
pub(super) fn hold(groups: Groups<'_>, name: Fingerprint, place: u64) -> Option<Held<'_>> {
    groups.hold_home(name, place).or_else(|| groups.hold_away(name, place))
}

/// Puts in and takes out at random, and compares with a map.
fn live(place: impl Fn(Fingerprint) -> u64 + Copy, most: u64, steps: u32) {
    let hasher = Fingerprinter::new(&RandomState::new());
    let of = |name: u64| hasher.of("l", Algorithm::Gcra, &name.to_string());
    let mut dice = Dice::new(most);
    let land = Land::new(1, usize::try_from(most).unwrap()).unwrap();
    let groups = land.shard(0);
    let mut beside = Beside::new(1, true);
    let mut known: HashMap<u64, u32> = HashMap::new();
    for step in 0..steps {
        // It fills and empties again and again.
        let fills = dice.below(10) < if (step / 2_000) % 2 == 0 { 8 } else { 2 };
        let name = dice.below(most);
        let fingerprint = of(name);
        let at = groups.find(fingerprint, place(fingerprint));
        assert_eq!(at.and_then(|at| beside.note(at)), known.get(&name).map(|_| &name));
        let state = at.and_then(|at| groups.get(at)).map(|entry| entry.state);
        assert_eq!(state, known.get(&name).map(|number| numbered(*number)));
        match at {
            None if fills => {
                let entry = Entry { fingerprint, state: numbered(step) };
                groups.insert(&mut beside, entry, || name, place);
                known.insert(name, step);
            }
            Some(at) if !fills => {
                groups.remove(&mut beside, at, place);
                known.remove(&name);
            }
            _ => {}
        }
        groups.release(&mut beside);
        assert_eq!(beside.len(), known.len());
        let brought = of(dice.below(most));
        groups.bring_home(&mut beside, brought, place);
        groups.release(&mut beside);
        if let Some(at) = groups.find(brought, place(brought)) {
            assert_eq!(at / OF_LINE, groups.home_line(place(brought)));
        }
    }
    for (name, number) in known {
        let fingerprint = of(name);
        let at = groups.find(fingerprint, place(fingerprint)).unwrap();
        assert_eq!(groups.get(at).unwrap().state, numbered(number));
    }
    // Every lock was given back.
    (0..groups.places()).for_each(|at| groups.lock(&mut beside, at));
}

#[test]
fn what_was_put_in_is_found_until_it_is_taken_out() {
    live(Fingerprint::place, 3_000, 60_000);
    live(Fingerprint::place, 7, 3_000);
}

/// Homes that are few and lie at the end, so that entries lie far from them and go round.
#[test]
fn crowded_homes_lose_nothing() {
    live(|one| one.place() | 0xe << 60, 200, 30_000);
    live(|_| u64::MAX, 60, 10_000);
}

#[test]
fn few_places_are_taken_of_few_and_most_of_many() {
    let hasher = Fingerprinter::new(&RandomState::new());
    let place = Fingerprint::place;
    // Of 64 shards each has few if it has 4096.
    let land = Land::new(64, 20_000).unwrap();
    let groups = land.shard(0);
    let mut beside = Beside::new(3, false);
    for nth in 0..20_000u32 {
        let fingerprint = hasher.of("l", Algorithm::Gcra, &nth.to_string());
        groups.insert(&mut beside, Entry { fingerprint, state: numbered(nth) }, || (), place);
        groups.release(&mut beside);
        let taken = beside.len() * 100 / groups.places();
        let expected = match groups.places() {
            0..4096 => TAKEN_OF_FEW / 2 - 1..=TAKEN_OF_FEW,
            4096 => TAKEN_OF_FEW / 2 - 1..=TAKEN,
            _ => 62..=TAKEN,
        };
        assert!(nth < 57 || expected.contains(&taken), "{taken} % of {nth}");
    }
    let not_at = |home: &dyn Fn(u64) -> usize, width: usize| {
        let entries = (0..groups.places()).filter_map(|at| Some((at, groups.get(at)?)));
        entries.filter(|(at, entry)| home(place(entry.fingerprint)) != at / width).count()
    };
    // Of a table that is as full as can be 27 % are not in their line, 15 % not in their group.
    let away = not_at(&|place| groups.home_line(place), OF_LINE);
    assert!((3_000..6_400).contains(&away), "{away}");
    let beyond = not_at(&|place| groups.home(place), WIDTH);
    assert!((1_500..4_000).contains(&beyond), "{beyond}");
}

#[test]
fn what_lies_beside_its_line_moves_there_when_there_is_a_place() {
    let hasher = Fingerprinter::new(&RandomState::new());
    // The second line of the first group is home to all, of the 64 lines that there are.
    let place = |_| 1 << 58;
    let land = Land::new(1, 100).unwrap();
    let groups = land.shard(0);
    let mut beside = Beside::new(3, false);
    let of = |nth: u32| hasher.of("l", Algorithm::Gcra, &nth.to_string());
    for nth in 0..5 {
        let entry = Entry { fingerprint: of(nth), state: numbered(nth) };
        groups.insert(&mut beside, entry, || (), place);
        groups.release(&mut beside);
    }
    let at = |nth: u32| groups.find(of(nth), place(of(nth)));
    assert_eq!(groups.home_line(place(of(0))), 1);
    assert_eq!([0, 1, 2, 3, 4].map(at), [2, 3, 0, 1, 6].map(Some));
    groups.remove(&mut beside, 3, place);
    groups.release(&mut beside);
    assert_eq!([0, 1, 2, 3, 4].map(at), [Some(2), None, Some(3), Some(1), Some(0)]);
    for nth in [0, 2, 3, 4] {
        let held = hold(groups, of(nth), place(of(nth))).unwrap();
        assert_eq!(held.state(), numbered(nth));
    }
    assert!(hold(groups, of(1), place(of(1))).is_none());
}

#[test]
fn the_hand_comes_round_and_samples_find_the_least() {
    let hasher = Fingerprinter::new(&RandomState::new());
    let place = Fingerprint::place;
    let land = Land::new(1, 100).unwrap();
    let groups = land.shard(0);
    let mut beside = Beside::new(3, false);
    for nth in 0..100u32 {
        let fingerprint = hasher.of("l", Algorithm::Gcra, &nth.to_string());
        groups.insert(&mut beside, Entry { fingerprint, state: numbered(nth) }, || (), place);
        groups.release(&mut beside);
    }
    let mut seen = std::collections::HashSet::new();
    for _ in 0..200 {
        let unseen = |state: Packed| !seen.contains(&state.place());
        let at = groups.next(&mut beside, &mut 9, &mut Budget::new(), unseen);
        seen.extend(at.and_then(|at| groups.get(at)).map(|entry| entry.state.place()));
    }
    assert_eq!(seen.len(), 100);
    let number = |entry: &Entry| entry.state.place().map(u64::from);
    let mut budget = Budget::new();
    let (least, at) = groups.least(&mut beside, 8, &mut budget, number).unwrap();
    assert_eq!(number(&groups.get(at).unwrap()), Some(least));
    assert!((8..=Budget::MOST).contains(&budget.spent()));
    assert_eq!(groups.least(&mut beside, 8, &mut Budget::new(), |_| None), None);
}

#[test]
fn groups_of_shards_are_apart() {
    for shards in [1, 4, 64] {
        let land = Land::new(shards, 300).unwrap();
        let each = || {
            let of_shard = |number| (0..land.each).map(move |at| (number, at));
            (0..shards).flat_map(of_shard)
        };
        let name = |number: usize, at: usize| numbered(u32::try_from(number * 1000 + at).unwrap());
        for (number, at) in each() {
            land.shard(number).group(at).unwrap().set_state(3, name(number, at));
        }
        for (number, at) in each() {
            let (groups, line) = (land.shard(number), LINES * at);
            let group = groups.group(at).unwrap();
            assert_eq!(group.state(3), name(number, at));
            // By the line it is the same.
            let lines = [groups.line(line).unwrap(), groups.line(line + 1).unwrap()];
            assert_eq!(Group::new(lines).state(3), name(number, at));
        }
    }
}

#[test]
fn every_page_in_use_is_told_once() {
    const SHARDS: usize = 64;
    let hasher = Fingerprinter::new(&RandomState::new());
    let land = Land::new(SHARDS, 2_000).unwrap();
    let mut compared = 0;
    let mut besides: Vec<_> = (0..SHARDS).map(|nth| Beside::new(nth as u64 + 1, false)).collect();
    for nth in 0..2_000 * SHARDS {
        let fingerprint = hasher.of("l", Algorithm::Gcra, &nth.to_string());
        let (groups, beside) = (land.shard(nth), &mut besides[nth % SHARDS]);
        let entry = Entry { fingerprint, state: numbered(0) };
        groups.insert(beside, entry, || (), Fingerprint::place);
        groups.release(beside);
        let whole = |groups: Groups<'_>| groups.in_use() / PAGE;
        let pages = || (0..SHARDS).map(|nth| whole(land.shard(nth))).sum::<usize>();
        if nth % 500 == 0 && besides.iter().all(|beside| beside.growth.is_none()) {
            assert_eq!(land.arena.used_pages() as usize, pages());
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
    assert!(land.arena.used_pages() > 512, "{}", land.arena.used_pages());
}
