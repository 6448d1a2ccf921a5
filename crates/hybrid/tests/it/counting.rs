//! A process whose store counts what it holds.
//!
//! It draws as a lease does, and says each time what it holds and what it has spent. It may hold units
//! for longer than a lease, since each report renews them, and gives back those that nobody wants, of
//! which all comes back.
//!
//! Why nobody gets too much: the store counts a unit as held from when it gives it until it hears that it
//! was spent, given back or never arrived, or until the process must have dropped it. So what was given
//! before an interval and is spent in it was held when it began, by the store's own count: at most a
//! quarter of the limit. The bucket is smaller by that quarter, so what is given within the interval, but
//! for what comes back, fits beside it.

use tollkeeper_core::{Drawn, LeakMode, Quota, Rate};
use tollkeeper_hybrid::plan::Draw;
use tollkeeper_testkit::fleet::{Count, Op, Seat};

use crate::node::period_us;
use crate::otherwise::{Way, about, name};

/// Of a limit, one part in so many may be held.
const HELD: u64 = 4;

/// What a process holds, for so many `PERIODS` after its last report.
pub(crate) struct Counting<const PERIODS: u64> {
    name: u64,
    stored: Quota,
    most_out: u64,
    period_us: u64,
    units: u64,
    ends_us: u64,
    spent: u64,
    reports: u64,
}

/// The bucket without what may be held.
fn without(quota: &Quota, held: u64) -> Quota {
    let bucket = quota.bucket().unwrap();
    let rate = Rate::new(bucket.drain(), bucket.unit()).unwrap();
    let capacity = bucket.capacity() - held;
    match quota {
        Quota::Gcra(_) => Quota::gcra(capacity, rate),
        Quota::LeakingBucket(_) => Quota::leaking_bucket(capacity, rate, LeakMode::Meter, None),
        _ => Quota::token_bucket(capacity, rate),
    }
    .unwrap()
}

impl<const PERIODS: u64> Counting<PERIODS> {
    fn life_us(&self) -> u64 {
        self.period_us * PERIODS
    }

    fn report(&mut self, most: u64, least: u64, now_us: u64) -> Op {
        self.units = self.left(now_us);
        self.reports += 1;
        Op::Count(Count {
            node: self.name,
            nth: self.reports,
            held: self.units,
            spent: self.spent,
            most,
            least,
            most_out: self.most_out,
            life_us: self.life_us(),
        })
    }
}

impl<const PERIODS: u64> Way for Counting<PERIODS> {
    fn new(seat: &Seat) -> Self {
        let most_out = seat.quota.limit() / HELD;
        Self {
            name: name(seat),
            stored: without(&seat.quota, most_out),
            most_out,
            period_us: period_us(&seat.quota, seat.nodes),
            units: 0,
            ends_us: 0,
            spent: 0,
            reports: 0,
        }
    }

    fn stored(&self) -> Quota {
        self.stored
    }

    fn left(&self, now_us: u64) -> u64 {
        if self.ends_us > now_us { self.units } else { 0 }
    }

    /// If the store has more than it gave, it was held too much: by this process itself, perhaps, and
    /// no longer when that has spent it.
    fn is_short(&self, drawn: &Drawn, most: u64) -> bool {
        drawn.units < most && (drawn.units == 0 || drawn.left <= drawn.units)
    }

    fn spend(&mut self, cost: u64, _: u64) {
        self.units -= cost;
        self.spent += cost;
    }

    fn is_due(&self) -> bool {
        false
    }

    fn pause_us(&self, chance: u32) -> u64 {
        about(self.period_us, 4, chance)
    }

    fn ask(&mut self, draw: Draw, _: u64, now_us: u64) -> Op {
        self.report(draw.most, draw.least, now_us)
    }

    fn granted(&mut self, drawn: &Drawn, _: bool, sent_us: u64, now_us: u64) {
        self.units = self.left(now_us) + drawn.units;
        self.ends_us = sent_us + self.life_us() - self.life_us() / 1_000;
    }

    fn rest(&mut self, now_us: u64) -> Option<Op> {
        if self.left(now_us) == 0 {
            return None;
        }
        self.units = 0;
        Some(self.report(0, 0, now_us))
    }
}
