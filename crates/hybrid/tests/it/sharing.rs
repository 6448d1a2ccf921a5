//! A process that has its part of a limit, as the simulator knows it. What nobody has a part of, it
//! asks the store for.

use std::sync::Arc;

use tollkeeper_core::{Amended, Change, Check, Clock, ManualClock, Quota, Ticket};
use tollkeeper_hybrid::share::{BEAT_US, Count, MOST, PERMIT_US, Place, left_of_note, note, noted};
use tollkeeper_hybrid::shares::{Shares, begun_with};
use tollkeeper_memory::Settings;
use tollkeeper_testkit::fleet::{Ask, AskId, CallId, Calls, Node, Op, Reply, Seat, Telling, Told};

use crate::calling::UnderWay;

/// The limit, in the store.
const LIMIT: u16 = 0;

/// The permits lie beside the limit, and the note beside them.
const PERMITS: u16 = 1;
const NOTE: u16 = 2;

#[derive(Clone, Copy)]
enum For {
    Renew,
    /// To take a permit, or to look how many there are.
    Take {
        is_known: bool,
    },
    /// To look how many there were, when so many are held; or to note it.
    Look {
        held: u64,
    },
    Note {
        held: u64,
    },
}

/// What the store is asked of the limit.
enum Whole {
    Lower(Ask),
    Decide(AskId),
}

/// A process with one key. What it cannot decide, it denies.
pub(crate) struct Sharing {
    count: Count,
    shares: Shares,
    clock: Arc<ManualClock>,
    quota: Quota,
    id: u128,
    under_way: Option<(CallId, For, u64)>,
    /// Whether it asked for a permit since it last heard.
    has_asked: bool,
    asked: UnderWay<Whole>,
    wake_us: u64,
}

fn permits() -> Quota {
    Quota::concurrency(MOST, PERMIT_US).unwrap()
}

impl Sharing {
    pub(crate) fn new(seat: &Seat) -> Self {
        let clock = Arc::new(ManualClock::at(seat.now_us));
        Self {
            count: Count::default(),
            shares: Shares::new(Settings::default(), Arc::clone(&clock) as Arc<dyn Clock>),
            clock,
            quota: seat.quota,
            id: u128::try_from(seat.nth).unwrap() << 32 | u128::from(seat.life),
            under_way: None,
            has_asked: false,
            asked: UnderWay::none(),
            wake_us: seat.now_us,
        }
    }

    /// The next call of a beat that began at `sent_us`.
    fn beat(&mut self, what: For, sent_us: u64, calls: &mut Calls) {
        let note = note().unwrap();
        let call = match what {
            For::Renew => {
                let renew = Op::Amend(Change::Renew { id: self.id });
                calls.send(PERMITS, permits(), renew)
            }
            For::Take { is_known } => {
                self.has_asked |= !is_known;
                let ticket = Some(Ticket { id: self.id, reserve_for_us: None });
                let op = Op::Decide { cost: u64::from(!is_known), ticket };
                calls.send(PERMITS, permits(), op)
            }
            For::Look { .. } => calls.send(NOTE, note, Op::Decide { cost: 0, ticket: None }),
            For::Note { held } => {
                let change = Change::LeaveAtMost { units: left_of_note(held) };
                calls.send(NOTE, note, Op::Amend(change))
            }
        };
        self.under_way = Some((call, what, sent_us));
    }

    fn is_stores(&self, now_us: u64) -> bool {
        matches!(self.count.place_of(self.quota.limit(), now_us), Place::Store { .. })
    }

    fn heard(&mut self, held: u64, most: u64, sent_us: u64, now_us: u64) {
        let is_new = std::mem::take(&mut self.has_asked);
        self.count.heard(held, most, is_new, sent_us, now_us);
        if let Place::Serves(standing) = self.count.place(now_us) {
            self.shares.stand(standing, now_us);
        }
    }

    fn beaten(
        &mut self,
        (what, sent_us): (For, u64),
        reply: Reply,
        now_us: u64,
        calls: &mut Calls,
    ) {
        let next = match (what, reply) {
            (For::Renew, Reply::Amended(amended)) => {
                For::Take { is_known: matches!(amended, Amended::Done { .. }) }
            }
            (For::Take { .. }, Reply::Decided { outcome, .. }) if outcome.allowed => {
                For::Look { held: MOST - outcome.remaining }
            }
            (For::Look { held }, Reply::Decided { outcome, .. }) => {
                match noted(outcome.remaining) {
                    most if most >= held => return self.heard(held, most, sent_us, now_us),
                    _ => For::Note { held },
                }
            }
            (For::Note { held }, Reply::Amended(_)) => {
                return self.heard(held, held, sent_us, now_us);
            }
            _ => return,
        };
        self.beat(next, sent_us, calls);
    }
}

impl Node for Sharing {
    fn ask(&mut self, now_us: u64, ask: Ask, calls: &mut Calls) -> Told {
        self.clock.set(now_us);
        let standing = match self.count.place_of(self.quota.limit(), now_us) {
            Place::Serves(standing) => standing,
            Place::Store { from_us } => {
                let (op, what) = match begun_with(&self.quota, from_us, now_us) {
                    Some(units) => (Op::Amend(Change::LeaveAtMost { units }), Whole::Lower(ask)),
                    None => (Op::Decide { cost: ask.cost, ticket: None }, Whole::Decide(ask.id)),
                };
                self.asked.add(calls.send(LIMIT, self.quota, op), what);
                return Told::Waits;
            }
            _ => return Told::Denied,
        };
        let check = Check::new("api", &self.quota, "hot", ask.cost);
        match self.shares.take(&check, None, standing, now_us) {
            Ok(Some(outcome)) if outcome.allowed => Told::Admitted,
            _ => Told::Denied,
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
        if let Some((_, what, sent_us)) = self.under_way.take_if(|(id, ..)| *id == call) {
            return self.beaten((what, sent_us), reply, now_us, calls);
        }
        match (self.asked.find(call), reply) {
            (Some(Whole::Lower(ask)), Reply::Amended(_)) if self.is_stores(now_us) => {
                let op = Op::Decide { cost: ask.cost, ticket: None };
                self.asked.add(calls.send(LIMIT, self.quota, op), Whole::Decide(ask.id));
            }
            (Some(Whole::Decide(id)), Reply::Decided { outcome, .. }) => {
                told.push(Telling { id, admitted: outcome.allowed });
            }
            (Some(Whole::Lower(Ask { id, .. }) | Whole::Decide(id)), _) => {
                told.push(Telling { id, admitted: false });
            }
            // A beat that another has followed.
            (None, _) => {}
        }
    }

    fn wake_us(&self) -> Option<u64> {
        Some(self.wake_us)
    }

    fn wake(&mut self, now_us: u64, calls: &mut Calls, _: &mut Vec<Telling>) {
        self.beat(For::Renew, now_us, calls);
        self.wake_us = now_us + BEAT_US;
    }
}
