//! Owns [`Slots`]: items that expire, found by hash, dense enough to be swept by position.
//! It knows nothing of limits.

use hashbrown::HashTable;

/// Something that counts as absent from a moment on.
pub(crate) trait Expires {
    /// The hash that it is found by.
    fn hash(&self) -> u64;
    /// The moment.
    fn expires_us(&self) -> u64;
}

/// How many more of the other entries a call may touch, beside those that a growing table moves.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    /// The most entries, other than its own, that one call looks at.
    pub(crate) const MOST: usize = 64;

    pub(crate) fn new() -> Self {
        Self(Self::MOST)
    }

    /// Takes so many, if there are.
    #[inline]
    pub(crate) fn take(&mut self, entries: usize) -> bool {
        let left = self.0.checked_sub(entries);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    pub(crate) fn left(&self) -> usize {
        self.0
    }

    pub(crate) fn spent(&self) -> usize {
        Self::MOST - self.0
    }
}

#[derive(Debug)]
pub(crate) struct Slots<T> {
    index: HashTable<u32>,
    items: Vec<T>,
    hand: usize,
}

impl<T: Expires> Slots<T> {
    pub(crate) fn new() -> Self {
        Self { index: HashTable::new(), items: Vec::new(), hand: 0 }
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        let found = self.index.find(hash, |&at| is_it(&self.items[at as usize]));
        found.map(|&at| at as usize)
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.items.get(at)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.items.get_mut(at)
    }

    /// Adds an item that is not there yet. Positions stay valid.
    pub(crate) fn insert(&mut self, item: T) -> &mut T {
        let at = self.items.len();
        let items = &self.items;
        let position = u32::try_from(at).unwrap_or(u32::MAX);
        self.index.insert_unique(item.hash(), position, |&at| items[at as usize].hash());
        self.items.push(item);
        &mut self.items[at]
    }

    /// Takes an item out. The last one moves to its position.
    pub(crate) fn remove(&mut self, at: usize) -> T {
        let position = |wanted: usize| move |&at: &u32| at as usize == wanted;
        if let Ok(entry) = self.index.find_entry(self.items[at].hash(), position(at)) {
            entry.remove();
        }
        let last = self.items.len() - 1;
        if at != last
            && let Some(moved) = self.index.find_mut(self.items[last].hash(), position(last))
        {
            // `at` was an index of `items`, whose length fits.
            *moved = u32::try_from(at).unwrap_or(u32::MAX);
        }
        self.items.swap_remove(at)
    }

    /// Takes out every item that `is_it`; how many.
    pub(crate) fn remove_all(&mut self, is_it: impl Fn(&T) -> bool) -> usize {
        let before = self.items.len();
        let mut at = 0;
        while at < self.items.len() {
            if is_it(&self.items[at]) {
                self.remove(at);
            } else {
                at += 1;
            }
        }
        before - self.items.len()
    }

    /// Moves the hand over `most` items and takes out those that have expired; how many.
    pub(crate) fn sweep(&mut self, most: usize, now_us: u64, budget: &mut Budget) -> usize {
        let before = self.items.len();
        for _ in 0..most.min(before) {
            if self.items.is_empty() || !budget.take(1) {
                break;
            }
            if self.hand >= self.items.len() {
                self.hand = 0;
            }
            if self.items[self.hand].expires_us() <= now_us {
                self.remove(self.hand);
            } else {
                self.hand += 1;
            }
        }
        before - self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Item(u64, u64);

    impl Expires for Item {
        fn hash(&self) -> u64 {
            self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }
        fn expires_us(&self) -> u64 {
            self.1
        }
    }

    fn find(slots: &Slots<Item>, name: u64) -> Option<&Item> {
        let hash = Item(name, 0).hash();
        slots.find(hash, |item| item.0 == name).map(|at| &slots.items[at])
    }

    #[test]
    fn what_is_removed_is_gone_and_the_rest_is_found() {
        let mut slots = Slots::new();
        (0..1000).for_each(|name| _ = slots.insert(Item(name, name)));
        assert_eq!(slots.remove_all(|item| item.0 % 3 == 0), 334);
        for name in 0..1000 {
            assert_eq!(find(&slots, name).is_some(), name % 3 != 0, "{name}");
        }
    }

    #[test]
    fn the_hand_comes_round_to_every_item() {
        let mut slots = Slots::new();
        (0..100).for_each(|name| _ = slots.insert(Item(name, name % 2)));
        let mut swept = 0;
        for _ in 0..100 {
            swept += slots.sweep(2, 0, &mut Budget::new());
        }
        assert_eq!((swept, slots.items.len()), (50, 50));
        assert!(slots.items.iter().all(|item| item.1 == 1));
    }

    #[test]
    fn a_call_cannot_spend_more_than_its_budget() {
        let mut slots = Slots::new();
        (0..1000).for_each(|name| _ = slots.insert(Item(name, 0)));
        let mut budget = Budget::new();
        assert_eq!(slots.sweep(1000, 1, &mut budget), Budget::MOST);
        assert_eq!(slots.sweep(1000, 1, &mut budget), 0);
        assert_eq!(budget.spent(), Budget::MOST);
    }
}
