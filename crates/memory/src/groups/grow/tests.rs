//! A table that grows loses nothing at any step, and no step is long.

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use tollkeeper_core::Algorithm;

use super::super::Land;
use super::super::tests::hold;
use super::*;
use crate::fingerprint::Fingerprinter;
use crate::packed::Packed;
use crate::rows::RowId;

fn numbered(number: u32) -> Packed {
    Packed::elsewhere(number, RowId::NONE)
}

/// What is kept of the keys from 0 on, under their numbers.
struct Numbered {
    hasher: Fingerprinter,
    land: Land,
}

impl Numbered {
    /// In one of so many shards that 512 places are no longer few.
    fn new(most: usize) -> Self {
        Self {
            hasher: Fingerprinter::new(&RandomState::new()),
            land: Land::new(512, most).unwrap(),
        }
    }

    fn of(&self, nth: u32) -> Fingerprint {
        self.hasher.of("l", Algorithm::Gcra, &nth.to_string())
    }

    fn find(&self, nth: u32) -> Option<usize> {
        self.groups().find(self.of(nth), self.of(nth).place())
    }

    fn insert(&self, beside: &mut Beside<u32>, nth: u32, state: Packed) {
        let entry = Entry { fingerprint: self.of(nth), state };
        self.groups().insert(beside, entry, || nth, Fingerprint::place);
    }

    fn groups(&self) -> Groups<'_> {
        self.land.shard(0)
    }
}

/// Where everything lies.
#[derive(Default)]
struct Map(HashMap<usize, [u64; 2]>);

impl Map {
    /// How many places have another entry than before. They are in groups that are locked.
    fn changed(&mut self, groups: Groups<'_>, beside: &Beside<u32>) -> usize {
        let mut changed = 0;
        for at in beside
            .locked
            .iter()
            .cloned()
            .flatten()
            .flat_map(|number| number * WIDTH..(number + 1) * WIDTH)
        {
            let now = groups.get(at).map(|entry| entry.fingerprint.words());
            let was = match now {
                Some(words) => self.0.insert(at, words),
                None => self.0.remove(&at),
            };
            changed += usize::from(now.is_some() && now != was);
        }
        changed
    }
}

#[test]
fn steps_lose_nothing_and_move_few() {
    let keys = Numbered::new(8_000);
    let (groups, mut beside, mut map) = (keys.groups(), Beside::new(5, true), Map::default());
    let (mut steps, mut most_moved, mut gone) = (0, 0, 0);
    for nth in 0..8_000 {
        keys.insert(&mut beside, nth, numbered(nth));
        most_moved = most_moved.max(map.changed(groups, &beside));
        groups.release(&mut beside);
        if beside.growth.is_none() {
            continue;
        }
        steps += 1;
        // Some leave while it grows.
        if nth % 4 == 0 {
            groups.remove(&mut beside, keys.find(gone).unwrap(), Fingerprint::place);
            map.changed(groups, &beside);
            groups.release(&mut beside);
            gone += 1;
        }
        // And some are brought home, on either side of the edge.
        for nth in [gone, gone + nth % 50, gone + (nth - gone) / 2, nth - nth % 9, nth] {
            groups.bring_home(&mut beside, keys.of(nth), Fingerprint::place);
        }
        map.changed(groups, &beside);
        groups.release(&mut beside);
        for known in gone..=nth {
            let at = keys.find(known).unwrap();
            assert_eq!(groups.get(at).unwrap().state, numbered(known));
            assert_eq!(beside.note(at), Some(&known));
            assert!(hold(groups, keys.of(known), keys.of(known).place()).is_some());
        }
    }
    assert!((200..2_000).contains(&steps), "{steps}");
    assert!(gone > 50, "{gone}");
    assert!((STEP..=2 * STEP * WIDTH).contains(&most_moved), "{most_moved}");
}

/// Somebody who holds no mutex counts in every state, as decisions do.
#[test]
fn others_count_in_it_meanwhile() {
    const KEYS: u32 = 6_000;
    let keys = Numbered::new(KEYS as usize);
    let (groups, beside) = (keys.groups(), Mutex::new(Beside::new(5, false)));
    let (added, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let next = |state: Packed| Packed::of_words(state.words().map(|word| word + 1));
    let count = |nth: u32| {
        if let Some(held) = hold(groups, keys.of(nth), keys.of(nth).place()) {
            held.set_state(next(held.state()));
            return;
        }
        let mut beside = beside.lock().unwrap();
        groups.bring_home(&mut beside, keys.of(nth), Fingerprint::place);
        let at = keys.find(nth).unwrap();
        let state = groups.locked(&mut beside, at).unwrap().state;
        groups.set_state(&mut beside, at, next(state));
        groups.release(&mut beside);
    };
    let counted = thread::scope(|scope| {
        let counting = scope.spawn(|| {
            let mut counted = vec![0u64; KEYS as usize];
            while !done.load(Ordering::Relaxed) {
                let known = added.load(Ordering::Acquire);
                for nth in 0..known {
                    count(u32::try_from(nth).unwrap());
                    counted[usize::try_from(nth).unwrap()] += 1;
                }
            }
            counted
        });
        for nth in 0..KEYS {
            let mut beside = beside.lock().unwrap();
            keys.insert(&mut beside, nth, Packed::of_words([0, 0]));
            groups.release(&mut beside);
            drop(beside);
            added.store(u64::from(nth) + 1, Ordering::Release);
        }
        done.store(true, Ordering::Relaxed);
        counting.join().unwrap()
    });
    for (nth, counted) in (0..).zip(counted) {
        let entry = groups.get(keys.find(nth).unwrap()).unwrap();
        assert_eq!(entry.state.words(), [counted, counted]);
    }
}
