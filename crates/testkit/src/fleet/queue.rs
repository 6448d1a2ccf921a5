//! Owns [`Queue`]: what happens next. Of what happens at the same time, what was arranged first.

use super::flights::Place;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A request comes to a node.
    Arrive { node: usize, cost: u64 },
    /// A node wants to be woken.
    Wake { node: usize },
    /// A call reaches the store.
    Reach(Place),
    /// What the store said reaches the node.
    Back(Place),
    /// The node has waited long enough.
    GiveUp(Place),
    /// A node joins.
    Join { node: usize },
    /// A node leaves.
    Leave { node: usize },
    /// A node's trouble begins.
    NodeSick { node: usize, nth: usize },
    /// A node's trouble ends.
    NodeWell { node: usize, nth: usize },
    /// A trouble of the store begins.
    StoreSick { nth: usize },
    /// A trouble of the store ends.
    StoreWell { nth: usize },
}

/// Events by time, then in the order in which they were arranged.
///
/// A heap of our own, of numbers that are copied: where debug assertions are on, the standard one
/// checks every pointer, which takes as long as all else that a fleet does.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: Vec<Entry>,
    arranged: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at_us: u64,
    nth: u64,
    event: Event,
}

impl Entry {
    fn is_before(&self, other: &Self) -> bool {
        self.at_us < other.at_us || (self.at_us == other.at_us && self.nth < other.nth)
    }
}

impl Queue {
    /// Arranges that something happens.
    pub(super) fn at(&mut self, at_us: u64, event: Event) {
        let entry = Entry { at_us, nth: self.arranged, event };
        self.arranged += 1;
        let mut place = self.heap.len();
        self.heap.push(entry);
        while place > 0 {
            let above = (place - 1) / 2;
            if !entry.is_before(&self.heap[above]) {
                break;
            }
            self.heap[place] = self.heap[above];
            place = above;
        }
        self.heap[place] = entry;
    }

    /// What happens next, and when.
    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        let last = self.heap.pop()?;
        let first = match self.heap.first() {
            Some(first) => *first,
            None => last,
        };
        self.sink(last);
        Some((first.at_us, first.event))
    }

    /// Puts an entry in the place of the first.
    fn sink(&mut self, entry: Entry) {
        let len = self.heap.len();
        let mut place = 0;
        loop {
            let mut below = 2 * place + 1;
            if below + 1 < len && self.heap[below + 1].is_before(&self.heap[below]) {
                below += 1;
            }
            if below >= len || !self.heap[below].is_before(&entry) {
                break;
            }
            self.heap[place] = self.heap[below];
            place = below;
        }
        if let Some(free) = self.heap.get_mut(place) {
            *free = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;

    #[test]
    fn what_is_earlier_comes_first_then_what_was_arranged_first() {
        let mut dice = Dice::new(5);
        for most in [1, 2, 3, 50, 400] {
            let mut queue = Queue::default();
            let mut left = Vec::new();
            for node in 0..1_000 {
                let at_us = dice.below(20);
                queue.at(at_us, Event::Wake { node });
                left.push((at_us, node));
                while left.len() >= most {
                    left.sort_unstable();
                    let (at_us, node) = left.remove(0);
                    assert_eq!(queue.next(), Some((at_us, Event::Wake { node })));
                }
            }
            left.sort_unstable();
            for (at_us, node) in left {
                assert_eq!(queue.next(), Some((at_us, Event::Wake { node })));
            }
            assert_eq!(queue.next(), None);
        }
    }
}
