//! Sliding window counter: this window's count plus the one before, weighted by how much of it
//! still overlaps the last W. Two numbers a key, and no edge to double up at.
//!
//! At most L by its estimate; 2·L in the worst interval of length W.

use super::Admission;
use crate::quota::Window;
use crate::state::Step;

/// What a sliding counter remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPair {
    /// The current window's number: its start divided by its size.
    pub window: u64,
    /// The W that it was counted with.
    pub size_us: u64,
    /// Units admitted in the current window.
    pub current: u64,
    /// Units admitted in the window before.
    pub previous: u64,
}

/// The counts as they stand at a moment, and how far into the window that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    current: u64,
    previous: u64,
    elapsed_us: u64,
}

impl WindowPair {
    /// Windows that nobody has touched.
    #[must_use]
    #[inline]
    pub fn fresh(window: &Window, now_us: u64) -> Self {
        let size_us = window.size_us();
        Self { window: window.windows_in(now_us), size_us, current: 0, previous: 0 }
    }

    /// The counts in the terms of now's window.
    ///
    /// Windows of another size count whole, as late as any of them can lie.
    #[inline]
    fn at(&self, window: &Window, now_us: u64) -> Counts {
        let size_us = window.size_us();
        let this = window.windows_in(now_us);
        let start_us = this * size_us;
        let elapsed_us = now_us - start_us;
        if self.size_us == size_us && self.window >= this {
            // As it is most of the time.
            return Counts { current: self.current, previous: self.previous, elapsed_us };
        }
        let mut counts = Counts { current: 0, previous: 0, elapsed_us };
        // A window later than now's is now's.
        let last = self.window.min(now_us / self.size_us.max(1));
        let edge_us = last * self.size_us;
        for (end_us, count) in [(edge_us + self.size_us, self.current), (edge_us, self.previous)] {
            if end_us > start_us {
                counts.current += count;
            } else if end_us + size_us > start_us {
                counts.previous += count;
            }
        }
        counts
    }

    /// Whether `cost` fits by the estimate.
    #[must_use]
    #[inline]
    pub fn admit(&self, window: &Window, cost: u64, now_us: u64) -> Admission {
        if cost > window.max_requests() {
            return Admission::NEVER;
        }
        let counts = self.at(window, now_us);
        if counts.used(window) + cost <= window.max_requests() {
            return Admission::NOW;
        }
        Admission::after(counts.retry_after_us(window, cost))
    }

    /// Asks, then charges or anchors, then reads the numbers.
    #[inline]
    pub fn step(&mut self, window: &Window, cost: u64, now_us: u64) -> Step {
        if let Some((taken, [remaining, reset_after_us])) = self.taken(window, cost, now_us) {
            let written = cost > 0;
            if written {
                *self = taken;
            }
            return Step { admission: Admission::NOW, remaining, reset_after_us, written };
        }
        let admission = self.admit(window, cost, now_us);
        let written = cost > 0 && self.anchor(window, now_us);
        let remaining = self.remaining(window, now_us);
        Step { admission, remaining, reset_after_us: self.reset_after_us(window, now_us), written }
    }

    /// What counts when `cost` units were taken, what remains, and the time until nothing weighs; `None` if
    /// they do not fit by the estimate.
    #[inline(always)]
    #[must_use]
    pub fn taken(&self, window: &Window, cost: u64, now_us: u64) -> Option<(Self, [u64; 2])> {
        let mut counts = self.at(window, now_us);
        let used = counts.used(window).checked_add(cost);
        let used = used.filter(|used| *used <= window.max_requests())?;
        counts.current += cost;
        let numbers = [window.max_requests() - used, counts.reset_after_us(window)];
        let Counts { current, previous, .. } = counts;
        let (this, size_us) = (window.windows_in(now_us), window.size_us());
        Some((Self { window: this, size_us, current, previous }, numbers))
    }

    /// Counts `cost` units that were found to fit.
    #[inline]
    pub fn charge(&mut self, window: &Window, cost: u64, now_us: u64) {
        let counts = self.at(window, now_us);
        self.write(window, counts.current + cost, counts.previous, now_us);
    }

    /// After a clock that stepped back, or a changed size: the counts belong to now's window and
    /// the one before. Whether it was so.
    #[inline]
    pub fn anchor(&mut self, window: &Window, now_us: u64) -> bool {
        let stale = self.size_us != window.size_us() || self.window > window.windows_in(now_us);
        if stale {
            let counts = self.at(window, now_us);
            self.write(window, counts.current, counts.previous, now_us);
        }
        stale
    }

    /// Units that still fit by the estimate.
    #[must_use]
    #[inline]
    pub fn remaining(&self, window: &Window, now_us: u64) -> u64 {
        window.max_requests().saturating_sub(self.at(window, now_us).used(window))
    }

    /// Until neither window weighs anything.
    #[must_use]
    #[inline]
    pub fn reset_after_us(&self, window: &Window, now_us: u64) -> u64 {
        self.at(window, now_us).reset_after_us(window)
    }

    /// Takes `units` off the window that they were charged in, if it still weighs.
    pub fn refund(&mut self, window: &Window, units: u64, charged_at_us: Option<u64>, now_us: u64) {
        let Counts { mut current, mut previous, .. } = self.at(window, now_us);
        let this = window.windows_in(now_us);
        match charged_at_us.map(|at_us| this - window.windows_in(at_us.min(now_us))) {
            None => {
                previous = previous.saturating_sub(units.saturating_sub(current));
                current = current.saturating_sub(units);
            }
            Some(0) => current = current.saturating_sub(units),
            Some(1) => previous = previous.saturating_sub(units),
            Some(_) => {}
        }
        self.write(window, current, previous, now_us);
    }

    /// Counts `units` whether they fit or not, up to 2·L; returns the units forgiven.
    pub fn overcharge(&mut self, window: &Window, units: u64, now_us: u64) -> u64 {
        let counts = self.at(window, now_us);
        let taken = units.min((2 * window.max_requests()).saturating_sub(counts.current));
        self.write(window, counts.current + taken, counts.previous, now_us);
        units - taken
    }

    #[inline]
    fn write(&mut self, window: &Window, current: u64, previous: u64, now_us: u64) {
        *self = Self { current, previous, ..Self::fresh(window, now_us) };
    }
}

impl Counts {
    /// floor(previous · (W − elapsed) / W) + current.
    #[inline]
    fn used(&self, window: &Window) -> u64 {
        let size_us = window.size_us();
        let left_us = size_us - self.elapsed_us;
        let weighted = match self.previous.checked_mul(left_us) {
            Some(product) => window.windows_in(product),
            // previous ≤ 2^34 and W < 2^45: the quotient is at most previous.
            None => {
                let product = u128::from(self.previous) * u128::from(left_us);
                u64::try_from(product / u128::from(size_us)).unwrap_or(u64::MAX)
            }
        };
        weighted + self.current
    }

    #[inline]
    fn reset_after_us(&self, window: &Window) -> u64 {
        let until_end_us = window.size_us() - self.elapsed_us;
        match self {
            Self { current: 1.., .. } => until_end_us + window.size_us(),
            Self { previous: 1.., .. } => until_end_us,
            _ => 0,
        }
    }

    /// The earliest moment at which `cost` fits. If what is current leaves room for it, that is in
    /// this window or at its end, since nothing else weighs then; if not, in the next window, where
    /// what is current weighs as previous, or at its end.
    fn retry_after_us(&self, window: &Window, cost: u64) -> u64 {
        let size_us = window.size_us();
        let until_end_us = size_us - self.elapsed_us;
        let free = window.max_requests() - cost;
        match free.checked_sub(self.current) {
            Some(free) => first_below(self.previous, free + 1, size_us) - self.elapsed_us,
            None => until_end_us + first_below(self.current, free + 1, size_us),
        }
    }
}

/// How far into a window a previous count of `count` weighs less than `bound`: the least e ≤ W with
/// count · (W − e) < bound · W. It is W where that is not before the window's end.
fn first_below(count: u64, bound: u64, size_us: u64) -> u64 {
    if count < bound {
        return 0;
    }
    // W − e ≤ ceil(bound · W / count) − 1.
    let left = (u128::from(bound) * u128::from(size_us)).div_ceil(u128::from(count)) - 1;
    size_us - u64::try_from(left).unwrap_or(size_us)
}
