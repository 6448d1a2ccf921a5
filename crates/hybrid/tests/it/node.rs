//! A process that leases, as the simulator knows it.

use std::collections::VecDeque;

use tollkeeper_core::{Amended, Consistency, Lent, Quota};
use tollkeeper_hybrid::lease::{Lease, Terms};
use tollkeeper_hybrid::plan::{Draw, Step, Told as Local, uncounted};
use tollkeeper_testkit::fleet::{Ask, AskId, CallId, Calls, Node, Op, Reply, Seat, Telling, Told};

use crate::calling::{Chance, UnderWay};

/// What a call was for.
enum For {
    /// Units, and when they were asked for.
    Draw(Draw, u64),
    /// A request of a key that is not busy.
    Request(AskId),
    /// Units that nobody wanted.
    Return,
}

/// A process with one key. What it cannot decide without the store, it denies.
pub(crate) struct Leasing {
    lease: Lease,
    terms: Terms,
    stored: Quota,
    under_way: UnderWay<For>,
    waiting: VecDeque<Ask>,
    wake_us: u64,
    chance: Chance,
}

fn consistency(quota: &Quota, nodes: usize) -> Consistency {
    Consistency::lease(quota, u64::try_from(nodes).unwrap(), None).unwrap()
}

/// What the store is asked for.
pub(crate) fn stored(quota: &Quota, nodes: usize) -> Quota {
    consistency(quota, nodes).stored(quota)
}

/// How long a lease of one of so many nodes is.
pub(crate) fn period_us(quota: &Quota, nodes: usize) -> u64 {
    match consistency(quota, nodes) {
        Consistency::Lease { period_us } => period_us.into(),
        other => panic!("{other:?}"),
    }
}

/// What was lent, or drawn of a window.
pub(crate) fn lent(amended: &Amended) -> Lent {
    match *amended {
        Amended::Lent(lent) => lent,
        Amended::Drawn(drawn) => uncounted(drawn),
        other => panic!("{other:?}"),
    }
}

impl Leasing {
    pub(crate) fn new(seat: &Seat) -> Self {
        let period_us = period_us(&seat.quota, seat.nodes);
        let terms = Terms::new(&seat.quota, period_us);
        Self {
            lease: Lease::new(&terms, seat.now_us),
            terms,
            stored: stored(&seat.quota, seat.nodes),
            under_way: UnderWay::none(),
            waiting: VecDeque::new(),
            wake_us: seat.now_us + period_us,
            chance: Chance::of(seat),
        }
    }

    fn send(&mut self, step: Step, now_us: u64, calls: &mut Calls) {
        if let Some(draw) = step.draw {
            let change = self.lease.change(&self.terms, draw, 0, now_us);
            let id = calls.send(0, self.stored, Op::Amend(change));
            self.under_way.add(id, For::Draw(draw, now_us));
        }
    }

    /// Who waited is decided by what is here now.
    fn tell(&mut self, now_us: u64, calls: &mut Calls, told: &mut Vec<Telling>) {
        for ask in std::mem::take(&mut self.waiting) {
            let step = self.lease.again(&self.terms, ask.cost, now_us);
            self.send(step, now_us, calls);
            match step.told {
                Local::Waits => self.waiting.push_back(ask),
                heard => {
                    let admitted = matches!(heard, Local::Admitted(_));
                    told.push(Telling { id: ask.id, admitted });
                }
            }
        }
    }
}

impl Node for Leasing {
    fn ask(&mut self, now_us: u64, ask: Ask, calls: &mut Calls) -> Told {
        let step = self.lease.ask(&self.terms, ask.cost, now_us);
        self.send(step, now_us, calls);
        match step.told {
            Local::Admitted(_) => Told::Admitted,
            Local::Denied { .. } | Local::Lost => Told::Denied,
            Local::Waits => {
                self.waiting.push_back(ask);
                Told::Waits
            }
            Local::Store => {
                let id = calls.send(0, self.stored, Op::Decide { cost: ask.cost, ticket: None });
                self.under_way.add(id, For::Request(ask.id));
                Told::Waits
            }
        }
    }

    fn answered(
        &mut self,
        now_us: u64,
        call: CallId,
        reply: Reply,
        calls: &mut Calls,
        told: &mut Vec<Telling>,
    ) {
        match (self.under_way.end(call), reply) {
            (For::Draw(draw, sent_us), Reply::Amended(amended)) => {
                let chance = self.chance.next();
                let lent = lent(&amended);
                self.lease.granted(&self.terms, &lent, draw, sent_us, now_us, chance);
                self.tell(now_us, calls, told);
            }
            (For::Draw(..), _) => {
                let chance = self.chance.next();
                self.lease.failed(&self.terms, None, now_us, chance);
                self.tell(now_us, calls, told);
            }
            (For::Request(id), Reply::Decided { outcome, .. }) => {
                told.push(Telling { id, admitted: outcome.allowed });
            }
            (For::Request(id), _) => told.push(Telling { id, admitted: false }),
            (For::Return, _) => {}
        }
    }

    fn wake_us(&self) -> Option<u64> {
        Some(self.wake_us)
    }

    fn wake(&mut self, now_us: u64, calls: &mut Calls, _: &mut Vec<Telling>) {
        if let Some(change) = self.lease.rest(&self.terms, now_us) {
            let id = calls.send(0, self.stored, Op::Amend(change));
            self.under_way.add(id, For::Return);
        }
        self.wake_us = now_us + self.terms.period_us / 2;
    }
}
