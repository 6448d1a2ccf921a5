//! What a fleet is made of: the [`Node`], what it asks of the store, and what it hears.

use tollkeeper_core::{Amended, Change, Outcome, Quota, Ticket};

use super::apportioned::Part;

/// One process of the fleet, as far as it decides. All times are its own clock's.
pub trait Node {
    /// A request arrives.
    fn ask(&mut self, now_us: u64, ask: Ask, calls: &mut Calls) -> Told;

    /// What came of a call. Whoever waited for it is told now, in any order.
    fn answered(
        &mut self,
        now_us: u64,
        call: CallId,
        reply: Reply,
        calls: &mut Calls,
        told: &mut Vec<Telling>,
    );

    /// When it wants to be woken next. It is asked after each event; a time that has passed means
    /// as soon as can be.
    fn wake_us(&self) -> Option<u64> {
        None
    }

    /// The waking, never before [`wake_us`](Self::wake_us). Who waited can be told here too.
    fn wake(&mut self, now_us: u64, calls: &mut Calls, told: &mut Vec<Telling>) {
        let _ = (now_us, calls, told);
    }

    /// It leaves for good and in order: a last chance to give something back. Its calls go out;
    /// nobody hears what comes of them.
    fn leave(&mut self, now_us: u64, calls: &mut Calls) {
        let _ = (now_us, calls);
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Its name, for who must wait.
    pub id: AskId,
    /// The units that it takes.
    pub cost: u64,
}

/// Names a request. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub(super) u64);

/// What a request hears at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It may go.
    Admitted,
    /// It may not.
    Denied,
    /// It is told later, by a [`Telling`].
    Waits,
}

/// What a request hears that had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Which.
    pub id: AskId,
    /// Whether it may go.
    pub admitted: bool,
}

/// What the store is asked to do with one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// To decide.
    Decide {
        /// The units to take; 0 only looks.
        cost: u64,
        /// What they are held by, if they are held or can be settled.
        ticket: Option<Ticket>,
    },
    /// To change what was decided.
    Amend(Change),
    /// To give a node its part of what flows in. The answer is as to a draw.
    Apportion(Part),
}

/// What a node hears of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What was decided.
    Decided {
        /// The limit's numbers.
        outcome: Outcome,
        /// The store's time of the decision.
        now_us: u64,
    },
    /// What became of a change.
    Amended(Amended),
    /// No answer came. It may have run.
    Failed,
}

/// Names a call; no two of a fleet have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// A call to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub id: CallId,
    /// Whose state: with the quota's algorithm it names it.
    pub slot: u16,
    /// How much is allowed there.
    pub quota: Quota,
    /// What to do.
    pub op: Op,
}

/// The calls that a node makes while it handles an event. They leave when it is done.
#[derive(Debug, Default)]
pub struct Calls {
    next: u64,
    out: Vec<Call>,
}

impl Calls {
    /// Sends a call; [`Node::answered`] hears what came of it, unless the node is gone by then.
    pub fn send(&mut self, slot: u16, quota: Quota, op: Op) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        self.out.push(Call { id, slot, quota, op });
        id
    }

    /// Whether none was sent since the last were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes the calls that were sent.
    pub fn take(&mut self) -> std::vec::Drain<'_, Call> {
        self.out.drain(..)
    }
}
