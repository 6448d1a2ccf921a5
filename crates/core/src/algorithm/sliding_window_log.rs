//! Sliding window log: the time of every unit admitted in the last W. Exact in every interval,
//! at the price of an entry for each moment at which something was admitted.

use std::collections::VecDeque;

use super::Admission;
use crate::quota::Window;

/// Units admitted at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When.
    pub time_us: u64,
    /// How many.
    pub units: u64,
}

/// What a log remembers: entries, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: VecDeque<LogEntry>,
    units: u64,
}

impl Log {
    /// A log from entries, oldest first.
    #[must_use]
    pub fn new(entries: VecDeque<LogEntry>) -> Self {
        let units = entries.iter().map(|entry| entry.units).sum();
        Self { entries, units }
    }

    /// The entries, oldest first, those that have left the window included.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &LogEntry> + ExactSizeIterator {
        self.entries.iter()
    }

    /// Units in (now − W, now]; an entry later than now counts as now.
    fn held(&self, window: &Window, now_us: u64) -> u64 {
        let gone = self.entries.iter().take_while(|entry| is_out(entry, window, now_us));
        self.units - gone.map(|entry| entry.units).sum::<u64>()
    }

    /// Whether `cost` more units fit the last W.
    #[must_use]
    pub fn admit(&self, window: &Window, cost: u64, now_us: u64) -> Admission {
        if cost > window.max_requests() {
            return Admission::NEVER;
        }
        let used = self.held(window, now_us) + cost;
        let Some(excess) = used.checked_sub(window.max_requests()).filter(|excess| *excess > 0)
        else {
            return Admission::NOW;
        };
        Admission::after(self.until_out_us(window, excess, now_us))
    }

    /// Until the `nth` oldest unit leaves the window.
    fn until_out_us(&self, window: &Window, nth: u64, now_us: u64) -> u64 {
        let mut seen = 0;
        let live = self.entries.iter().skip_while(|entry| is_out(entry, window, now_us));
        for entry in live {
            seen += entry.units;
            if seen >= nth {
                return until_out_us(entry, window, now_us);
            }
        }
        0
    }

    /// Remembers `cost` units that were found to fit.
    pub fn charge(&mut self, window: &Window, cost: u64, now_us: u64) {
        self.forget(window, now_us);
        self.anchor(window, now_us);
        self.units += cost;
        match self.entries.back_mut() {
            Some(last) if last.time_us == now_us => last.units += cost,
            _ => self.entries.push_back(LogEntry { time_us: now_us, units: cost }),
        }
    }

    /// After a clock that stepped back: what was later happened now, and what has left the window does
    /// not come back with a longer one. Whether it did.
    pub fn anchor(&mut self, window: &Window, now_us: u64) -> bool {
        if self.entries.back().is_none_or(|newest| newest.time_us <= now_us) {
            return false;
        }
        self.forget(window, now_us);
        let mut later = 0;
        while let Some(entry) = self.entries.pop_back_if(|entry| entry.time_us > now_us) {
            later += entry.units;
        }
        self.entries.push_back(LogEntry { time_us: now_us, units: later });
        true
    }

    /// Units that still fit.
    #[must_use]
    pub fn remaining(&self, window: &Window, now_us: u64) -> u64 {
        window.max_requests().saturating_sub(self.held(window, now_us))
    }

    /// Until the newest entry leaves the window.
    #[must_use]
    pub fn reset_after_us(&self, window: &Window, now_us: u64) -> u64 {
        let newest = self.entries.back().filter(|entry| !is_out(entry, window, now_us));
        newest.map_or(0, |entry| until_out_us(entry, window, now_us))
    }

    /// Drops up to `units` of those admitted at `charged_at_us`; the newest where it is not known.
    pub fn refund(&mut self, window: &Window, units: u64, charged_at_us: Option<u64>, now_us: u64) {
        self.forget(window, now_us);
        self.anchor(window, now_us);
        let charged_at_us = charged_at_us.map(|at_us| at_us.min(now_us));
        let mut left = units;
        for entry in self.entries.iter_mut().rev() {
            if charged_at_us.is_none_or(|at_us| at_us == entry.time_us) {
                let taken = entry.units.min(left);
                entry.units -= taken;
                self.units -= taken;
                left -= taken;
            }
            if left == 0 || charged_at_us.is_some_and(|at_us| at_us > entry.time_us) {
                break;
            }
        }
        self.entries.retain(|entry| entry.units > 0);
    }

    /// Remembers `units` whether they fit or not, up to 2·L in all; returns the units forgiven.
    pub fn overcharge(&mut self, window: &Window, units: u64, now_us: u64) -> u64 {
        let room = (2 * window.max_requests()).saturating_sub(self.held(window, now_us));
        let taken = units.min(room);
        if taken > 0 {
            self.charge(window, taken, now_us);
        } else {
            // What is there is tied to now, and to this window, all the same.
            self.forget(window, now_us);
            self.anchor(window, now_us);
        }
        units - taken
    }

    /// Drops entries that have left the window.
    fn forget(&mut self, window: &Window, now_us: u64) {
        while let Some(entry) = self.entries.pop_front_if(|entry| is_out(entry, window, now_us)) {
            self.units -= entry.units;
        }
    }
}

/// Whether an entry is W old or older.
fn is_out(entry: &LogEntry, window: &Window, now_us: u64) -> bool {
    entry.time_us + window.size_us() <= now_us
}

fn until_out_us(entry: &LogEntry, window: &Window, now_us: u64) -> u64 {
    entry.time_us.min(now_us) + window.size_us() - now_us
}
