//! What [`Hoarder`](crate::hoarder::Hoarder) is to a lease, for any [`Way`]: it lets the limit recover,
//! takes all it can, keeps that while it may, and spends it at once with all others.

use tollkeeper_core::Amended;
use tollkeeper_hybrid::plan::Draw;
use tollkeeper_testkit::fleet::{Ask, CallId, Calls, Node, Reply, Seat, Telling, Told};

use crate::calling::UnderWay;
use crate::node::period_us;
use crate::otherwise::Way;

/// They spend in the first period of so many, and take in it and before it.
const BEAT: u64 = 20;

const ALL: Draw = Draw { most: 1 << 40, least: 1 };

pub(crate) struct Hoarding<W> {
    way: W,
    period_us: u64,
    early: u64,
    every: u64,
    turn: u64,
    sent: UnderWay<u64>,
    wake_us: u64,
}

impl<W: Way> Hoarding<W> {
    /// One that begins so many tenths of a period before it spends, and asks every so many, but not with
    /// all others.
    pub(crate) fn new(seat: &Seat, (early, every): (u64, u64)) -> Self {
        let period_us = period_us(&seat.quota, seat.nodes);
        let turn = u64::try_from(seat.nth).unwrap() % every;
        let (sent, wake_us) = (UnderWay::none(), seat.now_us);
        Self { way: W::new(seat), period_us, early, every, turn, sent, wake_us }
    }

    /// Where in the beat it is, in tenths of a period.
    fn tenth(&self, now_us: u64) -> u64 {
        now_us * 10 / self.period_us % (10 * BEAT)
    }
}

impl<W: Way> Node for Hoarding<W> {
    fn ask(&mut self, now_us: u64, ask: Ask, _: &mut Calls) -> Told {
        if self.tenth(now_us) >= 10 || self.way.left(now_us) < ask.cost {
            return Told::Denied;
        }
        self.way.spend(ask.cost, now_us);
        Told::Admitted
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
        if let Reply::Amended(Amended::Drawn(drawn)) = reply {
            self.way.granted(&drawn, false, sent_us, now_us);
        }
    }

    fn wake_us(&self) -> Option<u64> {
        Some(self.wake_us)
    }

    fn wake(&mut self, now_us: u64, calls: &mut Calls, _: &mut Vec<Telling>) {
        let tenth = self.tenth(now_us);
        let is_time = tenth < 10 || tenth >= 10 * BEAT - self.early;
        if is_time && tenth % self.every == self.turn {
            let op = self.way.ask(ALL, ALL.most, now_us);
            self.sent.add(calls.send(0, self.way.stored(), op), now_us);
        }
        self.wake_us = now_us + self.period_us / 10;
    }
}
