//! A process whose units the store does not count.
//!
//! It draws as a lease does. Units live for two periods, and what it gives back is what has not flown in
//! since.
//!
//! Why nobody gets too much: what is spent in an interval was drawn in it or in the two periods before, and
//! the store's bucket is smaller by what flows in during those.

use tollkeeper_core::{Change, Drawn, Quota};
use tollkeeper_hybrid::plan::Draw;
use tollkeeper_testkit::fleet::{Op, Seat};

use crate::node::period_us;
use crate::otherwise::{Way, about, without};

/// Units live for so many periods.
const PERIODS: u64 = 2;

/// Units that were drawn together.
#[derive(Default)]
struct Kept {
    units: u64,
    at_us: u64,
    ends_us: u64,
}

pub(crate) struct Living {
    stored: Quota,
    period_us: u64,
    kept: Vec<Kept>,
}

impl Way for Living {
    fn new(seat: &Seat) -> Self {
        let period_us = period_us(&seat.quota, seat.nodes);
        let stored = without(&seat.quota, period_us * PERIODS);
        Self { stored, period_us, kept: Vec::new() }
    }

    fn stored(&self) -> Quota {
        self.stored
    }

    fn left(&self, now_us: u64) -> u64 {
        self.kept.iter().filter(|kept| kept.ends_us > now_us).map(|kept| kept.units).sum()
    }

    fn spend(&mut self, cost: u64, now_us: u64) {
        let mut owed = cost;
        for kept in self.kept.iter_mut().filter(|kept| kept.ends_us > now_us) {
            let taken = owed.min(kept.units);
            kept.units -= taken;
            owed -= taken;
        }
    }

    fn is_due(&self) -> bool {
        false
    }

    fn pause_us(&self, chance: u32) -> u64 {
        about(self.period_us, 4, chance)
    }

    fn ask(&mut self, Draw { most, least }: Draw, _: u64, _: u64) -> Op {
        Op::Amend(Change::Draw { most, least })
    }

    fn granted(&mut self, drawn: &Drawn, _: bool, sent_us: u64, now_us: u64) {
        self.kept.retain(|kept| kept.units > 0 && kept.ends_us > now_us);
        let life_us = self.period_us * PERIODS;
        let ends_us = sent_us + life_us - life_us / 1_000;
        self.kept.push(Kept { units: drawn.units, at_us: drawn.at_us, ends_us });
    }

    /// Those that were drawn last, of which most comes back.
    fn rest(&mut self, now_us: u64) -> Option<Op> {
        self.kept.retain(|kept| kept.units > 0 && kept.ends_us > now_us);
        let Kept { units, at_us, ends_us } = self.kept.pop()?;
        let bucket = self.stored.bucket().unwrap();
        let age_us = self.period_us * PERIODS - (ends_us - now_us);
        let charged_at_us = Some(at_us);
        match units > age_us * bucket.drain() / bucket.unit() {
            true => Some(Op::Amend(Change::Refund { units, charged_at_us })),
            false => {
                self.kept.push(Kept { units, at_us, ends_us });
                None
            }
        }
    }
}
