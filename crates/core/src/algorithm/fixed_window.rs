//! Fixed window: at most L in each window of length W, windows counted from the Unix epoch.
//!
//! The cheapest to keep; two windows' worth can pass around an edge.

use super::Admission;
use crate::quota::Window;
use crate::state::Step;

/// What a fixed window remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCount {
    /// The window's number: its start divided by its size.
    pub window: u64,
    /// The W that it was counted with.
    pub size_us: u64,
    /// Units admitted in it.
    pub count: u64,
}

impl WindowCount {
    /// A window that nobody has touched.
    #[must_use]
    #[inline]
    pub fn fresh(window: &Window, now_us: u64) -> Self {
        Self { window: window.windows_in(now_us), size_us: window.size_us(), count: 0 }
    }

    /// What counts in the window of `now_us`.
    ///
    /// A window later than now's is now's. One of another size counts whole while any of it can
    /// lie in now's window.
    #[must_use]
    #[inline]
    pub fn at(&self, window: &Window, now_us: u64) -> u64 {
        let start_us = window.windows_in(now_us) * window.size_us();
        if self.end_us() > start_us { self.count } else { 0 }
    }

    /// Whether `cost` fits this window.
    #[must_use]
    #[inline]
    pub fn admit(&self, window: &Window, cost: u64, now_us: u64) -> Admission {
        if cost > window.max_requests() {
            return Admission::NEVER;
        }
        if self.at(window, now_us) + cost <= window.max_requests() {
            return Admission::NOW;
        }
        Admission::after(until_end_us(window, now_us))
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

    /// What counts when `cost` units were taken, what remains, and the time until nothing counts; `None` if
    /// they do not fit.
    #[inline(always)]
    #[must_use]
    pub fn taken(&self, window: &Window, cost: u64, now_us: u64) -> Option<(Self, [u64; 2])> {
        let (size_us, this) = (window.size_us(), window.windows_in(now_us));
        let start_us = this * size_us;
        let count = if self.end_us() > start_us { self.count } else { 0 };
        let count = count.checked_add(cost).filter(|count| *count <= window.max_requests())?;
        let reset_after_us = if count == 0 { 0 } else { size_us - (now_us - start_us) };
        let numbers = [window.max_requests() - count, reset_after_us];
        Some((Self { window: this, size_us, count }, numbers))
    }

    #[inline]
    fn end_us(&self) -> u64 {
        (self.window + 1).saturating_mul(self.size_us)
    }

    /// Counts `cost` units that were found to fit.
    #[inline]
    pub fn charge(&mut self, window: &Window, cost: u64, now_us: u64) {
        self.write(window, self.at(window, now_us) + cost, now_us);
    }

    /// After a clock that stepped back, or a changed size: the count belongs to now's window.
    /// Whether it was so.
    #[inline]
    pub fn anchor(&mut self, window: &Window, now_us: u64) -> bool {
        let stale = self.size_us != window.size_us() || self.window > window.windows_in(now_us);
        if stale {
            self.write(window, self.at(window, now_us), now_us);
        }
        stale
    }

    /// Units that still fit.
    #[must_use]
    #[inline]
    pub fn remaining(&self, window: &Window, now_us: u64) -> u64 {
        window.max_requests().saturating_sub(self.at(window, now_us))
    }

    /// Until the window ends, if anything counts in it.
    #[must_use]
    #[inline]
    pub fn reset_after_us(&self, window: &Window, now_us: u64) -> u64 {
        if self.at(window, now_us) == 0 { 0 } else { until_end_us(window, now_us) }
    }

    /// Takes `units` off, if the window that they were charged in is still this one.
    pub fn refund(&mut self, window: &Window, units: u64, charged_at_us: Option<u64>, now_us: u64) {
        let this = window.windows_in(now_us);
        let is_held = |at_us: u64| window.windows_in(at_us.min(now_us)) == this;
        let units = if charged_at_us.is_none_or(is_held) { units } else { 0 };
        self.write(window, self.at(window, now_us).saturating_sub(units), now_us);
    }

    /// Counts `units` whether they fit or not, up to 2·L; returns the units forgiven.
    pub fn overcharge(&mut self, window: &Window, units: u64, now_us: u64) -> u64 {
        let count = self.at(window, now_us);
        let taken = units.min((2 * window.max_requests()).saturating_sub(count));
        self.write(window, count + taken, now_us);
        units - taken
    }

    #[inline]
    fn write(&mut self, window: &Window, count: u64, now_us: u64) {
        *self = Self { count, ..Self::fresh(window, now_us) };
    }
}

#[inline]
fn until_end_us(window: &Window, now_us: u64) -> u64 {
    window.size_us() - (now_us - window.windows_in(now_us) * window.size_us())
}
