//! Owns [`Packed`]: a state in 16 bytes, and what it was in exactly the same words.
//!
//! The unit is not in it but in the row that it names. A state with a number too large for its
//! place is not packed; whoever keeps it keeps it whole.
//!
//! | bits | bucket | fixed window | sliding counter | elsewhere |
//! | --- | --- | --- | --- | --- |
//! | 53 | when it was written | window | window | – |
//! | 11 | row, low bits | | | |
//! | 58 | debt | count | current and previous, 29 each | where |
//! | 3 | row, high bits | | | |
//! | 3 | which of these it is | | | |

use tollkeeper_core::algorithm::debt::Debt;
use tollkeeper_core::algorithm::fixed_window::WindowCount;
use tollkeeper_core::algorithm::leaking_bucket;
use tollkeeper_core::algorithm::sliding_window_counter::WindowPair;
use tollkeeper_core::{Bucket, Quota, State, Step, Window};

use crate::rows::{RowId, Unit};

const TIME: u32 = 53;
const NUMBERS: u32 = 58;
const COUNT: u32 = NUMBERS / 2;
const ROW_LOW: u32 = u64::BITS - TIME;
const ROW_HIGH: u32 = RowId::BITS - ROW_LOW;
const FORM: u32 = NUMBERS + ROW_HIGH;

const DEBT: u64 = 1;
const WINDOW: u64 = 2;
const PAIR: u64 = 3;
const ELSEWHERE: u64 = 4;

/// A state, or where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    low: u64,
    high: u64,
}

/// What became of a packed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stepped {
    pub(crate) step: Step,
    pub(crate) packed: Packed,
    pub(crate) now_us: u64,
}

/// What is left where there was what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) packed: Packed,
    pub(crate) now_us: u64,
    /// What the quota's is: here it is known where to find it.
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_after_us: u64,
}

impl Packed {
    /// Packs a state that was written in `unit`, which `row` names; `None` if it does not fit.
    #[inline]
    pub(crate) fn new(state: &State, unit: Unit, row: RowId) -> Option<Self> {
        let (form, size, time, numbers) = match *state {
            State::Debt(Debt { debt, unit, last_us }) => (DEBT, unit, last_us, debt),
            State::Count(WindowCount { window, size_us, count }) => {
                (WINDOW, size_us, window, count)
            }
            State::Pair(WindowPair { window, size_us, current, previous }) => {
                if (current | previous) >> COUNT != 0 {
                    return None;
                }
                (PAIR, size_us, window, current << COUNT | previous)
            }
            _ => return None,
        };
        if size != unit.size || time >> TIME != 0 || numbers >> NUMBERS != 0 {
            return None;
        }
        Some(Self::of(form, time, numbers, row))
    }

    /// A state that is kept whole, at a place of its own.
    pub(crate) fn elsewhere(place: u32, row: RowId) -> Self {
        Self::of(ELSEWHERE, 0, u64::from(place), row)
    }

    #[inline]
    fn of(form: u64, time: u64, numbers: u64, row: RowId) -> Self {
        let row = row.number();
        Self { low: time | row << TIME, high: numbers | row >> ROW_LOW << NUMBERS | form << FORM }
    }

    #[inline]
    pub(crate) fn of_words([low, high]: [u64; 2]) -> Self {
        Self { low, high }
    }

    #[inline]
    pub(crate) fn words(self) -> [u64; 2] {
        [self.low, self.high]
    }

    #[inline]
    pub(crate) fn row(self) -> RowId {
        let high = self.high >> NUMBERS & ((1 << ROW_HIGH) - 1);
        RowId::from_number(self.low >> TIME | high << ROW_LOW)
    }

    #[inline]
    fn form(self) -> u64 {
        self.high >> FORM
    }

    #[inline]
    fn time(self) -> u64 {
        self.low & ((1 << TIME) - 1)
    }

    #[inline]
    fn numbers(self) -> u64 {
        self.high & ((1 << NUMBERS) - 1)
    }

    #[inline]
    fn counts(self) -> (u64, u64) {
        (self.numbers() >> COUNT, self.numbers() & ((1 << COUNT) - 1))
    }

    /// The same with other numbers, if they fit.
    #[inline]
    fn with(self, time: u64, numbers: u64) -> Option<Self> {
        let low = self.low >> TIME << TIME | time;
        let high = self.high >> NUMBERS << NUMBERS | numbers;
        ((time >> TIME) | (numbers >> NUMBERS) == 0).then_some(Self { low, high })
    }

    /// The same with other counts, if they fit.
    #[inline]
    fn with_pair(self, &WindowPair { window, current, previous, .. }: &WindowPair) -> Option<Self> {
        match (current | previous) >> COUNT {
            0 => self.with(window, current << COUNT | previous),
            _ => None,
        }
    }

    /// What [`step`](Self::step) does with a bucket or windows in their own unit that have what is asked for,
    /// which is something; `None` of anything else.
    #[inline(always)]
    pub(crate) fn take(
        self,
        quota: &Quota,
        unit: Unit,
        cost: u64,
        now_us: impl FnOnce(u64) -> u64,
    ) -> Option<Taken> {
        let (packed, now_us, limit, [remaining, reset_after_us]) = match quota {
            Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => {
                let state = self.debt_of(bucket, unit)?;
                let now_us = now_us(state.last_us);
                let (state, numbers) = state.taken(bucket, cost, now_us)?;
                (self.with(state.last_us, state.debt)?, now_us, bucket.capacity(), numbers)
            }
            Quota::FixedWindow(window) => {
                let state = self.count_of(window, unit)?;
                let now_us = now_us(self.seen_us(unit));
                let (state, numbers) = state.taken(window, cost, now_us)?;
                (self.with(state.window, state.count)?, now_us, window.max_requests(), numbers)
            }
            Quota::SlidingWindowCounter(window) => {
                let state = self.pair_of(window, unit)?;
                let now_us = now_us(self.seen_us(unit));
                let (state, numbers) = state.taken(window, cost, now_us)?;
                (self.with_pair(&state)?, now_us, window.max_requests(), numbers)
            }
            _ => return None,
        };
        (cost > 0).then_some(Taken { packed, now_us, limit, remaining, reset_after_us })
    }

    /// What [`State::step`] does, without unpacking; `None` if that is needed. `unit` is that of the
    /// row. `now_us` gives the time to who says which one the state has seen. What has expired counts
    /// as nothing by itself.
    #[inline(always)]
    pub(crate) fn step(
        self,
        quota: &Quota,
        unit: Unit,
        cost: u64,
        now_us: impl FnOnce(u64) -> u64,
    ) -> Option<Stepped> {
        if let Quota::TokenBucket(bucket) | Quota::Gcra(bucket) = quota {
            let state = self.debt_of(bucket, unit)?;
            let now_us = now_us(state.last_us);
            let (step, state) = state.take(bucket, cost, now_us);
            let packed = self.with(state.last_us, state.debt)?;
            return Some(Stepped { step, packed, now_us });
        }
        self.step_of_others(quota, unit, cost, now_us)
    }

    #[inline(always)]
    fn step_of_others(
        self,
        quota: &Quota,
        unit: Unit,
        cost: u64,
        now_us: impl FnOnce(u64) -> u64,
    ) -> Option<Stepped> {
        match quota {
            Quota::FixedWindow(window) => {
                let mut state = self.count_of(window, unit)?;
                let now_us = now_us(self.seen_us(unit));
                let step = state.step(window, cost, now_us);
                let packed = self.with(state.window, state.count)?;
                Some(Stepped { step, packed, now_us })
            }
            Quota::SlidingWindowCounter(window) => {
                let mut state = self.pair_of(window, unit)?;
                let now_us = now_us(self.seen_us(unit));
                let step = state.step(window, cost, now_us);
                Some(Stepped { step, packed: self.with_pair(&state)?, now_us })
            }
            Quota::LeakingBucket(leak) => {
                let mut state = self.debt_of(leak.bucket(), unit)?;
                let now_us = now_us(state.last_us);
                let admission = leaking_bucket::admit(leak, &state, cost, now_us);
                let step = state.step(leak.bucket(), admission, cost, now_us);
                let packed = self.with(state.last_us, state.debt)?;
                Some(Stepped { step, packed, now_us })
            }
            _ => None,
        }
    }

    /// The debt, if it is one and in this bucket's own unit.
    #[inline]
    fn debt_of(self, bucket: &Bucket, unit: Unit) -> Option<Debt> {
        let same = unit.size == bucket.unit() && unit.drain == bucket.drain();
        let debt = Debt { debt: self.numbers(), unit: bucket.unit(), last_us: self.time() };
        (same && self.form() == DEBT).then_some(debt)
    }

    /// The count, if it is one and of a window of this size.
    #[inline]
    fn count_of(self, window: &Window, unit: Unit) -> Option<WindowCount> {
        let size_us = window.size_us();
        let count = WindowCount { window: self.time(), size_us, count: self.numbers() };
        (unit.size == size_us && self.form() == WINDOW).then_some(count)
    }

    /// The counts, if there are two and of windows of this size.
    #[inline]
    fn pair_of(self, window: &Window, unit: Unit) -> Option<WindowPair> {
        let size_us = window.size_us();
        let (current, previous) = self.counts();
        let pair = WindowPair { window: self.time(), size_us, current, previous };
        (unit.size == size_us && self.form() == PAIR).then_some(pair)
    }

    /// The latest time that it is known to have been written at.
    #[inline]
    pub(crate) fn seen_us(self, unit: Unit) -> u64 {
        match self.form() {
            DEBT => self.time(),
            _ => self.time().saturating_mul(unit.size),
        }
    }

    /// Where the state is, if it is not here.
    #[inline]
    pub(crate) fn place(self) -> Option<u32> {
        let is_place = self.form() == ELSEWHERE;
        is_place.then(|| u32::try_from(self.numbers()).unwrap_or(u32::MAX))
    }

    /// The state, written in `unit`; `None` if it is elsewhere.
    #[inline]
    pub(crate) fn state(self, unit: Unit) -> Option<State> {
        let (time, numbers, size) = (self.time(), self.numbers(), unit.size);
        let (current, previous) = self.counts();
        match self.form() {
            DEBT => Some(State::Debt(Debt { debt: numbers, unit: size, last_us: time })),
            WINDOW => {
                Some(State::Count(WindowCount { window: time, size_us: size, count: numbers }))
            }
            PAIR => {
                Some(State::Pair(WindowPair { window: time, size_us: size, current, previous }))
            }
            _ => None,
        }
    }

    /// When the state is as new, by the quota that it was written under; 0 if it always was.
    pub(crate) fn expires_us(self, unit: Unit) -> u64 {
        let (time, numbers) = (self.time(), self.numbers());
        match self.form() {
            _ if numbers == 0 => 0,
            DEBT => time.saturating_add(numbers.div_ceil(unit.drain.max(1))),
            WINDOW => (time + 1).saturating_mul(unit.size),
            PAIR => {
                let windows = if self.counts().0 > 0 { 2 } else { 1 };
                (time + windows).saturating_mul(unit.size)
            }
            _ => 0,
        }
    }

    /// Whether it is as new, without a division.
    #[inline]
    pub(crate) fn has_expired(self, unit: Unit, now_us: u64) -> bool {
        match self.form() {
            DEBT => {
                let elapsed_us = now_us.saturating_sub(self.time());
                self.numbers() <= elapsed_us.saturating_mul(unit.drain)
            }
            _ => self.expires_us(unit) <= now_us,
        }
    }
}

#[cfg(test)]
mod tests;
