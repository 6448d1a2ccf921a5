//! The arithmetic that the three buckets share: a debt that drains.
//!
//! Debt is in units of token·P. Taking a token adds P, a microsecond drains R, so that every
//! rate is exact in whole numbers, for ever.

use super::Admission;
use crate::limits::EXACT;
use crate::quota::Bucket;
use crate::state::Step;

/// What a bucket remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// D, in units of token·[`unit`](Self::unit).
    pub debt: u64,
    /// The P that the debt was written with.
    pub unit: u64,
    /// When it was written.
    pub last_us: u64,
}

impl Debt {
    /// A bucket that nobody has touched.
    #[must_use]
    #[inline]
    pub fn fresh(bucket: &Bucket, now_us: u64) -> Self {
        Self { debt: 0, unit: bucket.unit(), last_us: now_us }
    }

    /// D′: what is left of the debt at `now_us`. A time before the last one means that none passed.
    #[must_use]
    #[inline]
    pub fn at(&self, bucket: &Bucket, now_us: u64) -> u64 {
        let elapsed_us = now_us.saturating_sub(self.last_us);
        self.in_unit_of(bucket).saturating_sub(bucket.drain().saturating_mul(elapsed_us))
    }

    /// The debt in the bucket's own unit, rounded up where the file that wrote it had another.
    #[inline]
    fn in_unit_of(&self, bucket: &Bucket) -> u64 {
        if self.unit == bucket.unit() { self.debt } else { self.converted_to(bucket) }
    }

    #[cold]
    fn converted_to(&self, bucket: &Bucket) -> u64 {
        let debt = u128::from(self.debt) * u128::from(bucket.unit());
        let debt = debt.div_ceil(u128::from(self.unit.max(1)));
        u64::try_from(debt).unwrap_or(u64::MAX).min(EXACT - 1)
    }

    /// Takes `cost` units that were found to fit.
    #[inline]
    pub fn charge(&mut self, bucket: &Bucket, cost: u64, now_us: u64) {
        self.write(bucket, self.at(bucket, now_us) + cost * bucket.unit(), now_us);
    }

    /// After a clock that stepped back: what is owed is owed from now on. Whether it did.
    #[inline]
    pub fn anchor(&mut self, bucket: &Bucket, now_us: u64) -> bool {
        let stepped_back = self.last_us > now_us;
        if stepped_back {
            self.write(bucket, self.at(bucket, now_us), now_us);
        }
        stepped_back
    }

    /// Takes `cost` units if they fit, as `token_bucket` and `gcra` have it, and reads the numbers.
    #[inline]
    #[must_use]
    pub fn take(mut self, bucket: &Bucket, cost: u64, now_us: u64) -> (Step, Self) {
        let Some((taken, [remaining, reset_after_us])) = self.taken(bucket, cost, now_us) else {
            let admission = super::token_bucket::admit(bucket, &self, cost, now_us);
            return (self.step(bucket, admission, cost, now_us), self);
        };
        let written = cost > 0;
        let step = Step { admission: Admission::NOW, remaining, reset_after_us, written };
        (step, if written { taken } else { self })
    }

    /// What is owed when `cost` units were taken, what remains, and the time until nothing is owed; `None`
    /// if they do not fit.
    #[inline(always)]
    #[must_use]
    pub fn taken(&self, bucket: &Bucket, cost: u64, now_us: u64) -> Option<(Self, [u64; 2])> {
        let full = bucket.full_debt();
        let taken = cost.checked_mul(bucket.unit()).filter(|taken| *taken <= full)?;
        let debt = Some(self.at(bucket, now_us)).filter(|debt| *debt <= full - taken)? + taken;
        let remaining = bucket.units_in(full - debt);
        let numbers = [remaining, bucket.drains_in_us(debt)];
        Some((Self { debt, unit: bucket.unit(), last_us: now_us }, numbers))
    }

    /// Charges what `admission` admitted, or anchors, and reads the numbers: all that follows an
    /// admission at the same time, in one go.
    #[inline]
    pub fn step(&mut self, bucket: &Bucket, admission: Admission, cost: u64, now_us: u64) -> Step {
        let taken = if admission.is_yes() { cost * bucket.unit() } else { 0 };
        let debt = self.at(bucket, now_us) + taken;
        let written = cost > 0 && (admission.is_yes() || self.last_us > now_us);
        if written {
            self.write(bucket, debt, now_us);
        }
        let remaining = bucket.units_in(bucket.full_debt().saturating_sub(debt));
        Step { admission, remaining, reset_after_us: bucket.drains_in_us(debt), written }
    }

    /// Whole units available.
    #[must_use]
    #[inline]
    pub fn remaining(&self, bucket: &Bucket, now_us: u64) -> u64 {
        bucket.units_in(bucket.full_debt().saturating_sub(self.at(bucket, now_us)))
    }

    /// Until nothing is owed.
    #[must_use]
    #[inline]
    pub fn reset_after_us(&self, bucket: &Bucket, now_us: u64) -> u64 {
        bucket.drains_in_us(self.at(bucket, now_us))
    }

    /// Gives back what is left of a charge of `units` at `charged_at_us`; all of it where the time
    /// is not known.
    pub fn refund(&mut self, bucket: &Bucket, units: u64, charged_at_us: Option<u64>, now_us: u64) {
        let age_us = charged_at_us.map_or(0, |at_us| now_us.saturating_sub(at_us));
        let drained = u128::from(bucket.drain()) * u128::from(age_us);
        let given = (u128::from(units) * u128::from(bucket.unit())).saturating_sub(drained);
        let given = u64::try_from(given).unwrap_or(u64::MAX);
        self.write(bucket, self.at(bucket, now_us).saturating_sub(given), now_us);
    }

    /// Takes `units` whether they fit or not, up to one further capacity of debt; returns the
    /// units forgiven.
    pub fn overcharge(&mut self, bucket: &Bucket, units: u64, now_us: u64) -> u64 {
        let debt = self.at(bucket, now_us);
        let room = (2 * bucket.full_debt()).saturating_sub(debt);
        let taken = units.saturating_mul(bucket.unit()).min(room);
        self.write(bucket, debt + taken, now_us);
        units - bucket.units_in(taken)
    }

    #[inline]
    fn write(&mut self, bucket: &Bucket, debt: u64, now_us: u64) {
        *self = Self { debt, unit: bucket.unit(), last_us: now_us };
    }
}

/// The time until `cost` fits below `full`: the debt above the room left, drained.
#[inline]
pub(super) fn until_fits_us(bucket: &Bucket, debt: u64, cost: u64) -> u64 {
    let room = bucket.full_debt() - cost * bucket.unit();
    bucket.drains_in_us(debt.saturating_sub(room))
}
