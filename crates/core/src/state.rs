//! Owns [`State`]: what a store keeps for one key under one limit, and the dispatch from a quota
//! to its algorithm's file.
//!
//! A store does four things with a state: it asks [`State::admit`], then perhaps calls
//! [`State::charge`] or [`State::anchor`], and reads the numbers afterwards.

use crate::algorithm::concurrency::Leases;
use crate::algorithm::debt::Debt;
use crate::algorithm::fixed_window::WindowCount;
use crate::algorithm::sliding_window_counter::WindowPair;
use crate::algorithm::sliding_window_log::Log;
use crate::algorithm::{Admission, gcra, leaking_bucket, token_bucket};
use crate::quota::Quota;

/// What is remembered of one key under one limit. It names its own unit, so that it survives a
/// changed limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// A bucket's debt: `token_bucket`, `gcra`, `leaking_bucket`.
    Debt(Debt),
    /// `fixed_window`.
    Count(WindowCount),
    /// `sliding_window_counter`.
    Pair(WindowPair),
    /// `sliding_window_log`.
    Log(Box<Log>),
    /// `concurrency`.
    Leases(Box<Leases>),
}

impl State {
    /// The state of a key that nobody has touched.
    #[must_use]
    #[inline]
    pub fn fresh(quota: &Quota, now_us: u64) -> Self {
        match quota {
            Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => {
                Self::Debt(Debt::fresh(bucket, now_us))
            }
            Quota::LeakingBucket(leak) => Self::Debt(Debt::fresh(leak.bucket(), now_us)),
            Quota::FixedWindow(window) => Self::Count(WindowCount::fresh(window, now_us)),
            Quota::SlidingWindowCounter(window) => Self::Pair(WindowPair::fresh(window, now_us)),
            Quota::SlidingWindowLog(_) => Self::Log(Box::default()),
            Quota::Concurrency(_) => Self::Leases(Box::default()),
        }
    }

    /// Whether this is a state of the quota's algorithm.
    #[must_use]
    pub fn fits(&self, quota: &Quota) -> bool {
        matches!(
            (quota, self),
            (Quota::TokenBucket(_) | Quota::Gcra(_) | Quota::LeakingBucket(_), Self::Debt(_))
                | (Quota::FixedWindow(_), Self::Count(_))
                | (Quota::SlidingWindowCounter(_), Self::Pair(_))
                | (Quota::SlidingWindowLog(_), Self::Log(_))
                | (Quota::Concurrency(_), Self::Leases(_))
        )
    }

    /// Asks, then charges or anchors, then reads the numbers: all that a request with this limit
    /// alone needs, in one dispatch.
    #[inline]
    pub fn step(&mut self, quota: &Quota, cost: u64, permit: u128, now_us: u64) -> Step {
        match (quota, self) {
            (Quota::TokenBucket(bucket) | Quota::Gcra(bucket), Self::Debt(state)) => {
                let (step, after) = state.take(bucket, cost, now_us);
                *state = after;
                step
            }
            (Quota::LeakingBucket(leak), Self::Debt(state)) => {
                let admission = leaking_bucket::admit(leak, state, cost, now_us);
                state.step(leak.bucket(), admission, cost, now_us)
            }
            (Quota::FixedWindow(window), Self::Count(state)) => state.step(window, cost, now_us),
            (Quota::SlidingWindowCounter(window), Self::Pair(state)) => {
                state.step(window, cost, now_us)
            }
            (quota, state) => {
                let admission = state.admit(quota, cost, now_us);
                let written = match cost {
                    0 => false,
                    _ if admission.is_yes() => {
                        state.charge(quota, cost, permit, now_us);
                        true
                    }
                    _ => state.anchor(quota, now_us),
                };
                let remaining = state.remaining(quota, now_us);
                Step {
                    admission,
                    remaining,
                    reset_after_us: state.reset_after_us(quota, now_us),
                    written,
                }
            }
        }
    }

    /// What the limit says to a request of `cost`. Writes nothing.
    #[must_use]
    #[inline]
    pub fn admit(&self, quota: &Quota, cost: u64, now_us: u64) -> Admission {
        match (quota, self) {
            (Quota::TokenBucket(bucket), Self::Debt(state)) => {
                token_bucket::admit(bucket, state, cost, now_us)
            }
            (Quota::Gcra(bucket), Self::Debt(state)) => gcra::admit(bucket, state, cost, now_us),
            (Quota::LeakingBucket(leak), Self::Debt(state)) => {
                leaking_bucket::admit(leak, state, cost, now_us)
            }
            (Quota::FixedWindow(window), Self::Count(state)) => state.admit(window, cost, now_us),
            (Quota::SlidingWindowCounter(window), Self::Pair(state)) => {
                state.admit(window, cost, now_us)
            }
            (Quota::SlidingWindowLog(window), Self::Log(state)) => {
                state.admit(window, cost, now_us)
            }
            (Quota::Concurrency(in_flight), Self::Leases(state)) => {
                state.admit(in_flight, cost, now_us)
            }
            _ => self.misfit(Admission::NEVER),
        }
    }

    /// Takes `cost` units that [`admit`](Self::admit) admitted at the same `now_us`. `permit` is
    /// who holds them, where units are held.
    #[inline]
    pub fn charge(&mut self, quota: &Quota, cost: u64, permit: u128, now_us: u64) {
        match (quota, self) {
            (Quota::FixedWindow(window), Self::Count(state)) => state.charge(window, cost, now_us),
            (Quota::SlidingWindowCounter(window), Self::Pair(state)) => {
                state.charge(window, cost, now_us);
            }
            (Quota::SlidingWindowLog(window), Self::Log(state)) => {
                state.charge(window, cost, now_us);
            }
            (Quota::Concurrency(in_flight), Self::Leases(state)) => {
                state.charge(in_flight, cost, permit, now_us);
            }
            (quota, Self::Debt(state)) => {
                if let Some(bucket) = quota.bucket() {
                    state.charge(bucket, cost, now_us);
                }
            }
            (_, state) => state.misfit(()),
        }
    }

    /// Ties the state to a clock that stepped back, and a window to a changed size, so that what
    /// a denial promised holds. Whether that was so; no change otherwise.
    #[inline]
    pub fn anchor(&mut self, quota: &Quota, now_us: u64) -> bool {
        match (quota, self) {
            (Quota::FixedWindow(window), Self::Count(state)) => state.anchor(window, now_us),
            (Quota::SlidingWindowCounter(window), Self::Pair(state)) => {
                state.anchor(window, now_us)
            }
            (quota, Self::Debt(state)) => {
                quota.bucket().is_some_and(|bucket| state.anchor(bucket, now_us))
            }
            (Quota::SlidingWindowLog(window), Self::Log(state)) => state.anchor(window, now_us),
            (_, Self::Leases(state)) => state.anchor(now_us),
            (_, state) => state.misfit(false),
        }
    }

    /// Whole units available.
    #[must_use]
    #[inline]
    pub fn remaining(&self, quota: &Quota, now_us: u64) -> u64 {
        match (quota, self) {
            (Quota::FixedWindow(window), Self::Count(state)) => state.remaining(window, now_us),
            (Quota::SlidingWindowCounter(window), Self::Pair(state)) => {
                state.remaining(window, now_us)
            }
            (Quota::SlidingWindowLog(window), Self::Log(state)) => state.remaining(window, now_us),
            (Quota::Concurrency(in_flight), Self::Leases(state)) => {
                state.remaining(in_flight, now_us)
            }
            (quota, Self::Debt(state)) => {
                quota.bucket().map_or(0, |bucket| state.remaining(bucket, now_us))
            }
            _ => self.misfit(0),
        }
    }

    /// Until the state is as new, which is also how long it must be kept.
    #[must_use]
    #[inline]
    pub fn reset_after_us(&self, quota: &Quota, now_us: u64) -> u64 {
        match (quota, self) {
            (Quota::FixedWindow(window), Self::Count(state)) => {
                state.reset_after_us(window, now_us)
            }
            (Quota::SlidingWindowCounter(window), Self::Pair(state)) => {
                state.reset_after_us(window, now_us)
            }
            (Quota::SlidingWindowLog(window), Self::Log(state)) => {
                state.reset_after_us(window, now_us)
            }
            (Quota::Concurrency(_), Self::Leases(state)) => state.reset_after_us(now_us),
            (quota, Self::Debt(state)) => {
                quota.bucket().map_or(0, |bucket| state.reset_after_us(bucket, now_us))
            }
            _ => self.misfit(0),
        }
    }

    /// Gives back `units` of a charge at `charged_at_us`. Permits are released, not refunded.
    pub fn refund(&mut self, quota: &Quota, units: u64, charged_at_us: Option<u64>, now_us: u64) {
        match (quota, self) {
            (Quota::FixedWindow(window), Self::Count(state)) => {
                state.refund(window, units, charged_at_us, now_us);
            }
            (Quota::SlidingWindowCounter(window), Self::Pair(state)) => {
                state.refund(window, units, charged_at_us, now_us);
            }
            (Quota::SlidingWindowLog(window), Self::Log(state)) => {
                state.refund(window, units, charged_at_us, now_us);
            }
            (quota, Self::Debt(state)) => {
                if let Some(bucket) = quota.bucket() {
                    state.refund(bucket, units, charged_at_us, now_us);
                }
            }
            _ => {}
        }
    }

    /// Takes `units` whether they fit or not, up to one further limit; returns the units forgiven.
    pub fn overcharge(&mut self, quota: &Quota, units: u64, now_us: u64) -> u64 {
        match (quota, self) {
            (Quota::FixedWindow(window), Self::Count(state)) => {
                state.overcharge(window, units, now_us)
            }
            (Quota::SlidingWindowCounter(window), Self::Pair(state)) => {
                state.overcharge(window, units, now_us)
            }
            (Quota::SlidingWindowLog(window), Self::Log(state)) => {
                state.overcharge(window, units, now_us)
            }
            (quota, Self::Debt(state)) => {
                quota.bucket().map_or(units, |bucket| state.overcharge(bucket, units, now_us))
            }
            _ => units,
        }
    }

    /// A state under a quota of another algorithm: the algorithm is part of every key, so a store
    /// that comes here has mixed up its keys.
    fn misfit<T>(&self, instead: T) -> T {
        debug_assert!(false, "{self:?} is of another algorithm");
        instead
    }
}

/// What became of a request that met one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the limit said.
    pub admission: Admission,
    /// Whole units available afterwards.
    pub remaining: u64,
    /// Until the state is as new.
    pub reset_after_us: u64,
    /// Whether the state changed.
    pub written: bool,
}
