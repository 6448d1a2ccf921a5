//! Owns [`Tied`]: a counter of ticks that is cheap to read, tied every few milliseconds to the
//! system's clock, which is not.
//!
//! From a tie on time moves by ticks, for [`TRUST_US`] and no further. So whatever the ticks do (they
//! run on while the system sleeps, or begin anew after it), nobody is told a time that is further
//! ahead; and a tie that is ahead goes slower, so that the system's clock has caught up when the next
//! one is due. Time itself is never taken back.
//!
//! A counter that goes back by less than it is trusted for is taken for another processor's: time
//! stands, and a reader may be told a little less than another was before.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tollkeeper_core::whole_us;

use super::versioned::Versioned;

/// How long ticks are trusted before they are tied to the system's clock again.
pub(super) const TRUST_US: u64 = 5_000;

/// Over how long the rate of ticks is measured, again and again. The system's clock is steered, by
/// up to 500 parts in a million.
const MEASURE: Duration = Duration::from_millis(100);

/// How much slower than measured ticks are counted, so that a tie is seldom ahead: one part in so many.
const SLOW: u64 = 8192;

/// How far a rate may be from what it should be: one part in so many. Further, and ticks or the
/// system's clock have stood or jumped while it was measured.
const PLAUSIBLE: u64 = 64;

/// How far apart the two clocks may be read to count as one moment, and how often that is tried.
const MOMENT_NS: u64 = 20_000;
const TRIES: usize = 8;

/// Bits behind the point of a rate.
const POINT: u32 = 32;

const _: () = assert!(TRUST_US.leading_zeros() > POINT, "what is trusted fits 64 bits");

/// The two clocks.
pub(super) trait Source: Debug {
    /// The counter.
    fn ticks(&self) -> u64;

    /// How long so many ticks should take.
    fn nanos(&self, ticks: u64) -> u64;

    /// What has passed by the system's clock since a moment that does not change.
    fn passed(&self) -> Duration;
}

/// The system's time, mostly by ticks.
#[derive(Debug)]
pub(super) struct Tied<S> {
    source: S,
    /// The time when nothing had passed.
    start_us: u64,
    /// For how many ticks a tie is trusted.
    trusted: u64,
    /// The numbers of the last [`Tie`].
    tie: Versioned<3>,
    /// Held by whoever ties.
    measured: Mutex<Measured>,
}

/// A moment that both clocks have shown, and microseconds a tick from it on, as a fixed-point number.
#[derive(Clone, Copy, Debug)]
struct Tie {
    ticks: u64,
    us: u64,
    rate: u64,
}

impl Tie {
    /// The time so many ticks later, at most as many as are trusted: so the product fits.
    #[inline]
    fn after(&self, ticks: u64) -> u64 {
        self.us + ((ticks * self.rate) >> POINT)
    }
}

impl<S: Source> Tied<S> {
    /// Shows `start_us` and what passes from here on.
    pub(super) fn new(source: S, start_us: u64) -> Self {
        let (reading, _) = Reading::new(&source);
        let nominal = source.nanos(1 << 40) / (1_000 << (40 - POINT));
        let slow = nominal - nominal / PLAUSIBLE;
        let measured = Measured { nominal, rate: slow, from: reading };
        Self {
            source,
            start_us,
            // As if no tick were longer: none is.
            trusted: (TRUST_US << POINT) / (nominal + nominal / PLAUSIBLE).max(1),
            tie: Versioned::new([reading.after, start_us + whole_us(reading.passed), slow]),
            measured: Mutex::new(measured),
        }
    }

    /// Shows `now_us` for ever.
    pub(super) fn standing(source: S, now_us: u64) -> Self {
        let moving = Self::new(source, now_us);
        let [ticks, ..] = moving.tie.read();
        Self { tie: Versioned::new([ticks, now_us, 0]), trusted: u64::MAX, ..moving }
    }

    /// The time now.
    #[inline]
    pub(super) fn now_us(&self) -> u64 {
        let now = self.source.ticks();
        let tie = self.tie();
        // Who is behind has passed very many.
        let passed = now.wrapping_sub(tie.ticks);
        if passed < self.trusted { tie.after(passed) } else { self.tie_anew() }
    }

    #[inline]
    fn tie(&self) -> Tie {
        let [ticks, us, rate] = self.tie.read();
        Tie { ticks, us, rate }
    }

    /// Ties the ticks to the system's clock, and returns the time.
    #[cold]
    fn tie_anew(&self) -> u64 {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.source.ticks();
        let tie = self.tie();
        let (passed, lacking) = (now.wrapping_sub(tie.ticks), tie.ticks.wrapping_sub(now));
        if passed < self.trusted {
            // Somebody else has just done it.
            return tie.after(passed);
        }
        if lacking < self.trusted {
            return tie.us;
        }
        let (reading, one_moment) = Reading::new(&self.source);
        let system_us = self.start_us + whole_us(reading.passed);
        // Nobody was told more.
        let us = system_us.max(tie.after(self.trusted));
        if one_moment {
            let ahead_us = (us - system_us).min(TRUST_US);
            let rate = measured.rate(reading) * (TRUST_US - ahead_us) / TRUST_US;
            self.set(Tie { ticks: reading.after, us, rate });
        }
        // Else somebody stops us at every try; the next caller tries again.
        us
    }

    /// Only for whoever holds `measured`.
    fn set(&self, tie: Tie) {
        self.tie.write([tie.ticks, tie.us, tie.rate]);
    }
}

/// What both clocks showed at one moment: the system's between two readings of the counter.
#[derive(Clone, Copy, Debug)]
struct Reading {
    before: u64,
    passed: Duration,
    after: u64,
}

impl Reading {
    /// Reads both clocks, and again while something comes between; whether it succeeded.
    fn new(source: &impl Source) -> (Self, bool) {
        let read = || {
            let before = source.ticks();
            Self { before, passed: source.passed(), after: source.ticks() }
        };
        let is_moment = |it: &Self| source.nanos(it.after.wrapping_sub(it.before)) <= MOMENT_NS;
        let mut reading = read();
        for _ in 1..TRIES {
            if is_moment(&reading) {
                break;
            }
            reading = read();
        }
        (reading, is_moment(&reading))
    }
}

/// How long a tick takes.
#[derive(Debug)]
struct Measured {
    /// What it should be.
    nominal: u64,
    /// What it was when it was last measured.
    rate: u64,
    /// Since when it is being measured.
    from: Reading,
}

impl Measured {
    /// The rate from `now` on.
    fn rate(&mut self, now: Reading) -> u64 {
        let passed_ns = now.passed.saturating_sub(self.from.passed).as_nanos();
        if passed_ns < MEASURE.as_nanos() {
            return self.rate;
        }
        // Ticks that pass unseen make the rate slower, and never faster.
        let ticks = u128::from(now.after.wrapping_sub(self.from.before)).max(1);
        let rate = u64::try_from((passed_ns << POINT) / (ticks * 1_000)).unwrap_or(u64::MAX);
        if rate.abs_diff(self.nominal) <= self.nominal / PLAUSIBLE {
            self.rate = rate - rate / SLOW;
        }
        self.from = now;
        self.rate
    }
}

#[cfg(test)]
mod tests;
