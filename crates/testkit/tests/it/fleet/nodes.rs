//! Nodes that are as simple as can be.

use std::collections::BTreeMap;

use tollkeeper_core::{Quota, State};
use tollkeeper_testkit::fleet::{Ask, AskId, CallId, Calls, Node, Op, Reply, Seat, Telling, Told};

/// Asks the store for each request, and denies what it cannot ask.
#[derive(Debug)]
pub(super) struct AsksAlways {
    quota: Quota,
    waiting: BTreeMap<CallId, AskId>,
}

impl AsksAlways {
    pub(super) fn new(seat: &Seat) -> Self {
        Self { quota: seat.quota, waiting: BTreeMap::new() }
    }
}

impl Node for AsksAlways {
    fn ask(&mut self, _: u64, ask: Ask, calls: &mut Calls) -> Told {
        let op = Op::Decide { cost: ask.cost, ticket: None };
        self.waiting.insert(calls.send(0, self.quota, op), ask.id);
        Told::Waits
    }

    fn answered(
        &mut self,
        _: u64,
        call: CallId,
        reply: Reply,
        _: &mut Calls,
        told: &mut Vec<Telling>,
    ) {
        let id = self.waiting.remove(&call).unwrap();
        let admitted = matches!(reply, Reply::Decided { outcome, .. } if outcome.allowed);
        told.push(Telling { id, admitted });
    }
}

/// Admits everything.
#[derive(Debug)]
pub(super) struct Cheats;

impl Cheats {
    pub(super) fn new(_: &Seat) -> Self {
        Self
    }
}

impl Node for Cheats {
    fn ask(&mut self, _: u64, _: Ask, _: &mut Calls) -> Told {
        Told::Admitted
    }

    fn answered(&mut self, _: u64, _: CallId, _: Reply, _: &mut Calls, _: &mut Vec<Telling>) {}
}

/// Has its part of the limit for itself, and asks nobody.
#[derive(Debug)]
pub(super) struct Shares {
    quota: Quota,
    state: State,
    cheats: bool,
}

impl Shares {
    pub(super) fn new(seat: &Seat) -> Self {
        let quota = seat.quota.share(seat.nodes as u64);
        Self { quota, state: State::fresh(&quota, seat.now_us), cheats: false }
    }

    /// One that takes what is not its own.
    pub(super) fn cheating(seat: &Seat) -> Self {
        Self { cheats: true, ..Self::new(seat) }
    }
}

impl Node for Shares {
    fn ask(&mut self, now_us: u64, ask: Ask, _: &mut Calls) -> Told {
        let step = self.state.step(&self.quota, ask.cost, 0, now_us);
        if step.admission.is_yes() || self.cheats { Told::Admitted } else { Told::Denied }
    }

    fn answered(&mut self, _: u64, _: CallId, _: Reply, _: &mut Calls, _: &mut Vec<Telling>) {}
}
