//! Owns [`Queue`]: what happens next. Of what happens at the same time, what was arranged first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flights::Place;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    arranged: u64,
}

impl Queue {
    pub(super) fn at(&mut self, at_us: u64, event: Event) {
        self.heap.push(Reverse((at_us, self.arranged, event)));
        self.arranged += 1;
    }

    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse((at_us, _, event))| (at_us, event))
    }
}
