//! A process that gets its part of what flows in.
//!
//! The store knows what each process is asked for. While there is enough for all, a process gets what
//! it wants and has it at once. Otherwise it gets its part of one period's flow, which it releases to
//! itself bit by bit over a period, or has at once, and asks again when that has passed.
//!
//! Why nobody gets too much: a part is charged to the store's bucket when it is given, as a draw is, and
//! what is not spent two periods after it was asked for is dropped. So all that is spent in an interval
//! was charged in it or in the two periods before, and the store's bucket is smaller by what flows in
//! during those. Which part is whose, and when it is released, does not matter for that.

use tollkeeper_core::{Change, Drawn, Quota};
use tollkeeper_hybrid::plan::Draw;
use tollkeeper_testkit::fleet::{Op, Part, Seat};

use crate::node::period_us;
use crate::otherwise::{Way, about, name, without};

/// It asks again after a period, and one part in so many of it more or less.
const SOONER_OR_LATER: u64 = 10;

/// Units live for so many periods: what flows in meanwhile is kept back.
const PERIODS: u64 = 2;

/// Units that came together.
struct Kept {
    units: u64,
    /// Of how many, that are released from when on, in how long.
    of: u64,
    from_us: u64,
    in_us: u64,
    at_us: u64,
    ends_us: u64,
}

impl Kept {
    /// What is released, and not spent.
    fn left(&self, now_us: u64) -> u64 {
        let passed_us = now_us.saturating_sub(self.from_us);
        let kept = match passed_us < self.in_us {
            true => {
                let rest = u128::from(self.of) * u128::from(self.in_us - passed_us);
                u64::try_from(rest / u128::from(self.in_us)).unwrap()
            }
            false => 0,
        };
        self.units.saturating_sub(kept)
    }
}

/// What a process keeps; where there are too few for all, `BIT_BY_BIT` or at once.
pub(crate) struct Trickle<const BIT_BY_BIT: bool> {
    name: u64,
    stored: Quota,
    period_us: u64,
    /// Those that end first come first.
    kept: Vec<Kept>,
}

impl<const BIT_BY_BIT: bool> Trickle<BIT_BY_BIT> {
    fn life_us(&self) -> u64 {
        self.period_us * PERIODS
    }
}

impl<const BIT_BY_BIT: bool> Way for Trickle<BIT_BY_BIT> {
    fn new(seat: &Seat) -> Self {
        let period_us = period_us(&seat.quota, seat.nodes);
        let stored = without(&seat.quota, period_us * PERIODS);
        Self { name: name(seat), stored, period_us, kept: Vec::new() }
    }

    fn stored(&self) -> Quota {
        self.stored
    }

    fn left(&self, now_us: u64) -> u64 {
        let live = self.kept.iter().filter(|it| it.ends_us > now_us);
        live.map(|it| it.left(now_us)).sum()
    }

    fn held(&self, now_us: u64) -> u64 {
        let live = self.kept.iter().filter(|it| it.ends_us > now_us);
        live.map(|it| it.units).sum()
    }

    fn spend(&mut self, cost: u64, now_us: u64) {
        self.kept.retain(|it| it.units > 0 && it.ends_us > now_us);
        let mut owed = cost;
        for it in &mut self.kept {
            let taken = it.left(now_us).min(owed);
            it.units -= taken;
            owed -= taken;
        }
    }

    fn is_due(&self) -> bool {
        true
    }

    fn pause_us(&self, chance: u32) -> u64 {
        about(self.period_us, SOONER_OR_LATER, chance)
    }

    fn ask(&mut self, draw: Draw, demand: u64, _: u64) -> Op {
        Op::Apportion(Part {
            node: self.name,
            demand: demand.max(draw.least),
            most: draw.most,
            period_us: self.period_us,
        })
    }

    fn granted(&mut self, drawn: &Drawn, is_short: bool, sent_us: u64, now_us: u64) {
        let life_us = self.life_us();
        self.kept.push(Kept {
            units: drawn.units,
            of: drawn.units,
            from_us: now_us,
            in_us: if is_short && BIT_BY_BIT { self.period_us } else { 0 },
            at_us: drawn.at_us,
            ends_us: sent_us + life_us - life_us / 1_000,
        });
    }

    fn rest(&mut self, now_us: u64) -> Option<Op> {
        let live = self.kept.iter().filter(|it| it.units > 0 && it.ends_us > now_us);
        let oldest = live.min_by_key(|it| it.ends_us)?;
        let age_us = self.life_us().saturating_sub(oldest.ends_us - now_us);
        let bucket = self.stored.bucket()?;
        // As much as has flown in since does not come back.
        let flown = u128::from(age_us) * u128::from(bucket.drain()) / u128::from(bucket.unit());
        let (units, charged_at_us) = (self.held(now_us), Some(oldest.at_us));
        if u128::from(units) <= flown {
            return None;
        }
        self.kept.clear();
        Some(Op::Amend(Change::Refund { units, charged_at_us }))
    }
}
