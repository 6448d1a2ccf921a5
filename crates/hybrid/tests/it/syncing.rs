//! A process that reports what it admitted, as the simulator knows it.

use std::cell::Cell;
use std::collections::VecDeque;

use tollkeeper_core::{Amended, Change, Consistency, Drawn, Quota};
use tollkeeper_hybrid::plan::Told as Local;
use tollkeeper_hybrid::sync::{Report, Synced, Terms};
use tollkeeper_testkit::fleet::{Ask, CallId, Calls, Node, Op, Reply, Seat, Telling, Told};

use crate::calling::{Chance, UnderWay};

/// What a fleet admitted and the store does not hold against it.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    /// It never heard of it, or the node did not hear that it had.
    pub(crate) lost: Cell<u64>,
    /// It would have owed more than it may.
    pub(crate) forgiven: Cell<u64>,
}

/// What a call was for.
#[derive(Clone, Copy)]
enum For {
    Draw,
    /// To tell what was admitted.
    Report,
    /// To see what the next part has left.
    Look,
}

/// A report that has not been answered in full.
struct Pending {
    report: Report,
    sent_us: u64,
    told: Option<Drawn>,
    next: Option<Drawn>,
}

/// A process with one key. What it cannot decide without the store, it denies.
pub(crate) struct Syncing<'a> {
    synced: Synced,
    terms: Terms,
    under_way: UnderWay<(For, u64)>,
    pending: Option<Pending>,
    /// What was admitted and is not told yet.
    admitted: u64,
    waiting: VecDeque<Ask>,
    wake_us: u64,
    chance: Chance,
    untold: &'a Untold,
}

/// How a limit is told of in these fleets.
pub(crate) fn terms(quota: &Quota, parts: u64) -> Terms {
    let consistency = Consistency::sync(quota, None, parts).unwrap();
    let Consistency::Sync { period_us, parts } = consistency else { panic!("{consistency:?}") };
    Terms { period_us: period_us.into(), quota: consistency.stored(quota), parts }
}

impl<'a> Syncing<'a> {
    pub(crate) fn new(seat: &Seat, parts: u64, untold: &'a Untold) -> Self {
        let terms = terms(&seat.quota, parts);
        let chance = Chance::of(seat);
        Self {
            synced: Synced::new(&terms, seat.now_us, chance.now() >> 8),
            terms,
            under_way: UnderWay::none(),
            pending: None,
            admitted: 0,
            waiting: VecDeque::new(),
            wake_us: seat.now_us + terms.period_us * u64::from(chance.now() % 100) / 100,
            chance,
            untold,
        }
    }

    fn send(&mut self, part: u8, change: Change, what: For, now_us: u64, calls: &mut Calls) {
        let id = calls.send(part.into(), self.terms.quota, Op::Amend(change));
        self.under_way.add(id, (what, now_us));
    }

    fn failed(&mut self, now_us: u64) {
        let chance = self.chance.next();
        self.synced.failed(&self.terms, true, now_us, chance);
    }

    /// Both halves of a report may be here.
    fn reported(&mut self) {
        let Some(Pending { report, sent_us, told: Some(told), next }) = &self.pending else {
            return;
        };
        if next.is_some() == report.next.is_some() {
            self.synced.reported(&self.terms, told, next.as_ref(), *sent_us);
            self.pending = None;
        }
    }

    /// Who waited is decided by what is known now.
    fn tell(&mut self, now_us: u64, told: &mut Vec<Telling>) {
        for ask in std::mem::take(&mut self.waiting) {
            let admitted = self.synced.spend(&self.terms, ask.cost, now_us).is_some();
            told.push(Telling { id: ask.id, admitted });
        }
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        let lost = self.admitted + self.untold.lost.get();
        self.untold.lost.set(lost);
    }
}

impl Node for Syncing<'_> {
    fn ask(&mut self, now_us: u64, ask: Ask, calls: &mut Calls) -> Told {
        let step = self.synced.ask(&self.terms, ask.cost, now_us);
        if let Some(draw) = step.draw {
            let change = Change::Draw { most: draw.most, least: draw.least };
            self.send(self.synced.part(), change, For::Draw, now_us, calls);
        }
        match step.told {
            Local::Admitted(_) => {
                self.admitted += ask.cost;
                Told::Admitted
            }
            Local::Waits => {
                self.waiting.push_back(ask);
                Told::Waits
            }
            _ => Told::Denied,
        }
    }

    fn answered(
        &mut self,
        now_us: u64,
        call: CallId,
        reply: Reply,
        _: &mut Calls,
        told: &mut Vec<Telling>,
    ) {
        let (what, sent_us) = self.under_way.end(call);
        match (what, reply, &mut self.pending) {
            (For::Draw, Reply::Amended(Amended::Drawn(drawn)), _) => {
                self.synced.drew(&drawn, sent_us);
            }
            (For::Report, Reply::Amended(Amended::Drawn(drawn)), Some(pending)) => {
                let forgiven = pending.report.units - drawn.units;
                self.untold.forgiven.set(self.untold.forgiven.get() + forgiven);
                pending.told = Some(drawn);
                self.reported();
            }
            (For::Look, Reply::Amended(Amended::Drawn(drawn)), Some(pending)) => {
                pending.next = Some(drawn);
                self.reported();
            }
            (For::Draw, ..) => self.failed(now_us),
            // Its other half is not waited for.
            (For::Report | For::Look, _, Some(pending)) => {
                let lost = if pending.told.is_some() { 0 } else { pending.report.units };
                self.untold.lost.set(self.untold.lost.get() + lost);
                self.pending = None;
                self.failed(now_us);
            }
            (_, _, None) => {}
        }
        self.tell(now_us, told);
    }

    fn wake_us(&self) -> Option<u64> {
        Some(self.wake_us)
    }

    fn wake(&mut self, now_us: u64, calls: &mut Calls, _: &mut Vec<Telling>) {
        if let Some(report) = self.synced.report(&self.terms, now_us) {
            self.admitted = 0;
            let spend = Change::Spend { units: report.units };
            self.pending = Some(Pending { report, sent_us: now_us, told: None, next: None });
            self.send(report.part, spend, For::Report, now_us, calls);
            if let Some(next) = report.next {
                self.send(next, Change::Spend { units: 0 }, For::Look, now_us, calls);
            }
        }
        self.wake_us = now_us + self.terms.period_us;
    }
}
