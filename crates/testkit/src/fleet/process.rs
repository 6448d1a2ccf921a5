//! Owns [`Process`]: where a node runs, what it has not got round to, and who waits there.

use std::collections::VecDeque;

use super::demand::Arrivals;
use super::ledger::Asked;
use super::node::{AskId, CallId, Node, Reply};

/// A place for a node; over time several may run there, one after another.
pub(super) struct Process<'a> {
    /// The node, while one is there.
    pub(super) node: Option<Box<dyn Node + 'a>>,
    /// How many were there before.
    pub(super) life: u32,
    pub(super) arrivals: Arrivals,
    /// For when a waking is arranged.
    pub(super) armed_us: Option<u64>,
    pub(super) is_paused: bool,
    pub(super) is_cut: bool,
    /// Whether another is to begin when the trouble is over.
    pub(super) is_crashed: bool,
    /// What came while it was paused, and when.
    pub(super) held: Vec<(u64, Held)>,
    /// In the order in which they came; who is told stays until all before him are.
    waiting: VecDeque<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    asked: Asked,
    is_told: bool,
}

/// What is delivered to a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held {
    Ask(Asked),
    /// What came of a call, and when it ran.
    Reply {
        id: CallId,
        reply: Reply,
        ran_us: u64,
    },
}

impl Process<'_> {
    pub(super) fn new(arrivals: Arrivals) -> Self {
        Self {
            node: None,
            life: 0,
            arrivals,
            armed_us: None,
            is_paused: false,
            is_cut: false,
            is_crashed: false,
            held: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// A request has to wait.
    pub(super) fn wait(&mut self, asked: Asked) {
        self.waiting.push_back(Waiting { asked, is_told: false });
    }

    /// A request waits no longer. `None` if it did not wait.
    pub(super) fn told(&mut self, id: AskId) -> Option<Asked> {
        let at = self.waiting.binary_search_by_key(&id, |waiting| waiting.asked.id).ok()?;
        let waiting = &mut self.waiting[at];
        let asked = (!waiting.is_told).then_some(waiting.asked);
        waiting.is_told = true;
        while self.waiting.pop_front_if(|waiting| waiting.is_told).is_some() {}
        asked
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.iter().filter(|waiting| !waiting.is_told).count() as u64
    }

    /// The node is gone, with all that it knew. How many requests nobody will answer.
    pub(super) fn end(&mut self) -> u64 {
        let asks = self.held.iter().filter(|(_, held)| matches!(held, Held::Ask(_)));
        let untold = asks.count() as u64 + self.waiting();
        self.node = None;
        self.life += 1;
        self.armed_us = None;
        self.is_paused = false;
        self.held.clear();
        self.waiting.clear();
        untold
    }
}
