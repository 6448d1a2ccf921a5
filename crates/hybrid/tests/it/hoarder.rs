//! A process that lets a limit recover, draws all it can, keeps that while it lives, and spends it at
//! once with all others: the worst that leases can do to a limit.

use tollkeeper_core::Quota;
use tollkeeper_hybrid::lease::{Lease, Terms};
use tollkeeper_hybrid::plan::Draw;
use tollkeeper_testkit::fleet::{Ask, CallId, Calls, Node, Op, Reply, Seat, Telling, Told};

use crate::calling::UnderWay;
use crate::node::{lent, period_us, stored};

/// They spend in the first period of so many, and draw in it and before it.
const BEAT: u64 = 20;

pub(crate) struct Hoarder {
    lease: Lease,
    terms: Terms,
    stored: Quota,
    sent: UnderWay<u64>,
    wake_us: u64,
    early: u64,
}

impl Hoarder {
    /// One that draws for so many tenths of a period before it spends.
    pub(crate) fn new(seat: &Seat, early: u64) -> Self {
        let period_us = period_us(&seat.quota, seat.nodes);
        let terms = Terms::new(&seat.quota, period_us);
        Self {
            lease: Lease::new(&terms, seat.now_us),
            terms,
            stored: stored(&seat.quota, seat.nodes),
            sent: UnderWay::none(),
            wake_us: seat.now_us,
            early,
        }
    }

    /// Where in the beat it is, in tenths of a period.
    fn tenth(&self, now_us: u64) -> u64 {
        now_us * 10 / self.terms.period_us % (10 * BEAT)
    }
}

const ALL: Draw = Draw { most: 1 << 40, least: 1 };

impl Node for Hoarder {
    fn ask(&mut self, now_us: u64, ask: Ask, _: &mut Calls) -> Told {
        match self.tenth(now_us) < 10 && self.lease.spend(ask.cost, now_us).is_some() {
            true => Told::Admitted,
            false => Told::Denied,
        }
    }

    fn answered(
        &mut self,
        now_us: u64,
        call: CallId,
        reply: Reply,
        _: &mut Calls,
        _: &mut Vec<Telling>,
    ) {
        let sent_us = self.sent.end(call);
        if let Reply::Amended(amended) = reply {
            self.lease.granted(&self.terms, &lent(&amended), ALL, sent_us, now_us, 0);
        }
    }

    fn wake_us(&self) -> Option<u64> {
        Some(self.wake_us)
    }

    fn wake(&mut self, now_us: u64, calls: &mut Calls, _: &mut Vec<Telling>) {
        let tenth = self.tenth(now_us);
        if tenth < 10 || tenth >= 10 * BEAT - self.early {
            let draw = self.lease.change(&self.terms, ALL, 0, now_us);
            self.sent.add(calls.send(0, self.stored, Op::Amend(draw)), now_us);
        }
        self.wake_us = now_us + self.terms.period_us / 10;
    }
}
