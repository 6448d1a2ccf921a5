//! Owns [`Wanting`]: what a process needs of a key, and when it may call for it, just as a lease finds
//! out. So whoever asks the store in another way differs in that alone.

#![allow(clippy::cast_precision_loss, reason = "estimates")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they saturate")]

use tollkeeper_hybrid::demand::{Count, Demand};

/// A key is busy from so many requests in a period, and until fewer come.
const PAYS: f64 = 4.0;
const PAYS_NO_MORE: f64 = 1.0;

/// Calls in a period, and those that can be saved.
const CALLS: f64 = 1.1;
const SPARE: f64 = 8.0;

/// Calls that are kept for units.
pub(crate) const DRAWS: f64 = 4.0;

pub(crate) struct Wanting {
    period_us: u64,
    demand: Demand,
    asked_us: u64,
    pub(crate) is_busy: bool,
    calls: f64,
    counted_us: u64,
    trip_us: u64,
    /// What the average does not know yet.
    spent: Count,
    spent_since_us: u64,
}

impl Wanting {
    pub(crate) fn new(period_us: u64, now_us: u64) -> Self {
        Self {
            period_us,
            demand: Demand::new(now_us, period_us / 4),
            asked_us: now_us,
            is_busy: false,
            calls: SPARE,
            counted_us: now_us,
            trip_us: 0,
            spent: Count::ZERO,
            spent_since_us: now_us,
        }
    }

    pub(crate) fn see(&mut self, cost: u64, now_us: u64) {
        self.asked_us = now_us;
        if self.demand.see(cost, now_us, self.period_us / 8)
            && self.demand.in_us(self.period_us).requests >= PAYS
        {
            self.is_busy = true;
        }
    }

    pub(crate) fn spend(&mut self, cost: u64) {
        self.spent = self.spent.with(1.0, cost);
    }

    /// Time passes. Whether hardly anybody comes any longer.
    pub(crate) fn pass(&mut self, now_us: u64) -> bool {
        self.demand.pass(now_us, self.period_us / 8);
        self.demand.in_us(self.period_us).requests < PAYS_NO_MORE
    }

    /// Whether nobody came for a period.
    pub(crate) fn is_quiet(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.asked_us) >= self.period_us
    }

    /// Whether so many come at once that the average need not be waited for.
    pub(crate) fn is_pressed(&self) -> bool {
        self.demand.seen().requests >= PAYS
    }

    /// Counts a call, if there may be one and `keep` more after it.
    pub(crate) fn may_call(&mut self, keep: f64, now_us: u64) -> bool {
        let periods = now_us.saturating_sub(self.counted_us) as f64 / self.period_us as f64;
        self.counted_us = now_us;
        self.calls = (self.calls + periods * CALLS).min(SPARE);
        let may_call = self.calls >= 1.0 + keep;
        self.calls -= if may_call { 1.0 } else { 0.0 };
        may_call
    }

    /// How long it takes until there may be a call.
    pub(crate) fn wait_us(&self) -> u64 {
        whole((1.0 - self.calls).max(0.0) / CALLS * self.period_us as f64).max(1)
    }

    pub(crate) fn answered(&mut self, sent_us: u64, now_us: u64) {
        let trip_us = now_us.saturating_sub(sent_us);
        self.trip_us = if self.trip_us == 0 { trip_us } else { (self.trip_us * 7 + trip_us) / 8 };
        (self.spent, self.spent_since_us) = (Count::ZERO, now_us);
    }

    pub(crate) fn failed(&mut self) {
        self.calls = (self.calls + 1.0).min(SPARE);
    }

    /// What may come in a period.
    fn expected(&self, now_us: u64) -> Count {
        let larger = |one: Count, other: Count| if other.units > one.units { other } else { one };
        let long_us = whole(self.calls.max(1.0) * self.period_us as f64 / 8.0);
        let at_rate = |count: Count, since_us: u64| {
            let elapsed_us = now_us.saturating_sub(since_us).max(long_us).max(1);
            count.at_least().times(self.period_us as f64 / elapsed_us as f64)
        };
        let seen = self.demand.seen();
        let came = larger(seen, at_rate(seen, self.demand.since_us()));
        let spent = at_rate(self.spent, self.spent_since_us);
        larger(larger(self.demand.in_us(self.period_us), spent), came)
    }

    /// Units that came in a period, on average.
    pub(crate) fn average(&self) -> f64 {
        self.demand.in_us(self.period_us).units
    }

    /// How many units are to be here.
    pub(crate) fn wanted(&self, now_us: u64) -> u64 {
        let expected = self.expected(now_us);
        let trips = 2.0 * expected.units * self.trip_us as f64 / self.period_us as f64;
        whole(expected.units + trips + expected.by_chance())
    }

    /// Whether so few are here that the next had better come.
    pub(crate) fn is_low(&self, left: u64) -> bool {
        (left as f64) < self.demand.in_us(2 * self.trip_us).units + 1.0
    }
}

pub(crate) fn whole(number: f64) -> u64 {
    number.ceil() as u64
}
