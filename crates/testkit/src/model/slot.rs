//! One limit's place in a key: its rule, what is stored, and when what is stored counts as forgotten.
//!
//! Every write stores the state as it is seen at that moment, with the change, and notes when it will be as new.

use std::fmt::Debug;

use super::algorithm::Algorithm;
use super::exact::earliest_us;
use super::{Numbers, Spec};

/// What a key asks of each of its limits, whatever the algorithm.
pub(super) trait Meter: Debug {
    /// Whether this limit by itself admits the request.
    fn admits(&self, now_us: u64, cost: u64) -> bool;
    /// The numbers for a request that is not charged here.
    fn uncharged(&self, now_us: u64, cost: u64) -> Numbers;
    /// Charges an admitted request (cost 0 is a look and writes nothing) and gives the numbers after it.
    fn charge(&mut self, now_us: u64, cost: u64, id: u128) -> Numbers;
    /// If the state is stale, stores it as it is seen now.
    fn re_anchor(&mut self, now_us: u64);
    /// Gives units back.
    fn refund(&mut self, now_us: u64, units: u64, charged_at_us: Option<u64>);
    /// Brings a charge of `reserved` units, made at `charged_at_us`, to what it really was.
    fn settle(&mut self, now_us: u64, reserved: u64, actual: u64, charged_at_us: u64);
    /// Ends a permit; whether it was held.
    fn release(&mut self, now_us: u64, id: u128) -> bool;
    /// Gives a permit a new life; whether it was held.
    fn renew(&mut self, now_us: u64, id: u128) -> bool;
    /// Forgets everything.
    fn reset(&mut self);
    /// From when on the state counts as absent, if that is no later than `now_us`.
    fn forgotten_at_us(&self, now_us: u64) -> Option<u64>;
    /// Takes another specification of the same algorithm; what is stored stays as it is.
    fn reconfigure(&mut self, spec: &Spec);
}

/// What is stored for one limit.
#[derive(Debug)]
struct Stored<S> {
    state: S,
    /// From this moment on the state counts as absent.
    fresh_at_us: u64,
}

/// A rule and what is stored under it.
#[derive(Debug)]
pub(super) struct Slot<A: Algorithm> {
    rule: A,
    stored: Option<Stored<A::State>>,
}

impl<A: Algorithm> Slot<A> {
    /// An empty slot, if the specification is one of this algorithm's.
    pub(super) fn new(spec: &Spec) -> Option<Self> {
        let rule = A::from_spec(spec)?;
        Some(Self { rule, stored: None })
    }

    /// What is stored, unless there is nothing, or it counts as forgotten.
    fn present(&self, now_us: u64) -> Option<&A::State> {
        let stored = self.stored.as_ref()?;
        (now_us < stored.fresh_at_us).then_some(&stored.state)
    }

    /// The stored state as it stands now; `None` when there is none.
    fn seen(&self, now_us: u64) -> Option<A::State> {
        let state = self.present(now_us)?;
        Some(self.rule.seen_at(state, now_us))
    }

    /// The state as it stands now; a fresh one when there is none.
    fn seen_or_fresh(&self, now_us: u64) -> A::State {
        self.seen(now_us).unwrap_or_else(|| self.rule.fresh(now_us))
    }

    /// The only way anything gets stored.
    fn write(&mut self, now_us: u64, state: A::State) {
        let fresh_at_us = now_us + self.rule.reset_after_us(&state, now_us);
        self.stored = Some(Stored { state, fresh_at_us });
    }

    /// Whether the state seen now, left alone from now on, would admit the cost at `at_us`.
    fn would_admit(&self, seen: &A::State, at_us: u64, cost: u64) -> bool {
        let state = self.rule.seen_at(seen, at_us);
        cost <= self.rule.limit() && self.rule.admits(&state, at_us, cost)
    }

    /// How long until the state seen now, left alone, admits the cost; `None` for never.
    ///
    /// The state is taken as this rule reads it now. Whether a limit changed since the last write will let it be
    /// forgotten sooner, or be read otherwise later on, is not foreseen.
    fn retry_after_us(&self, seen: &A::State, now_us: u64, cost: u64) -> Option<u64> {
        if cost > self.rule.limit() {
            return None;
        }
        Some(earliest_us(now_us, |at_us| self.would_admit(seen, at_us, cost)) - now_us)
    }
}

impl<A: Algorithm> Meter for Slot<A> {
    fn admits(&self, now_us: u64, cost: u64) -> bool {
        self.would_admit(&self.seen_or_fresh(now_us), now_us, cost)
    }

    fn uncharged(&self, now_us: u64, cost: u64) -> Numbers {
        let state = self.seen_or_fresh(now_us);
        Numbers {
            allowed: self.would_admit(&state, now_us, cost),
            limit: self.rule.limit(),
            remaining: self.rule.remaining(&state, now_us),
            retry_after_us: self.retry_after_us(&state, now_us, cost),
            reset_after_us: self.rule.reset_after_us(&state, now_us),
            delay_us: 0,
        }
    }

    fn charge(&mut self, now_us: u64, cost: u64, id: u128) -> Numbers {
        if cost == 0 {
            return self.uncharged(now_us, cost);
        }
        let mut state = self.seen_or_fresh(now_us);
        let delay_us = self.rule.delay_us(&state);
        self.rule.charge(&mut state, now_us, cost, id);
        let numbers = Numbers {
            allowed: true,
            limit: self.rule.limit(),
            remaining: self.rule.remaining(&state, now_us),
            retry_after_us: Some(0),
            reset_after_us: self.rule.reset_after_us(&state, now_us),
            delay_us,
        };
        self.write(now_us, state);
        numbers
    }

    fn re_anchor(&mut self, now_us: u64) {
        let Some(state) = self.present(now_us) else {
            return;
        };
        if self.rule.is_stale(state, now_us) {
            let state = self.rule.seen_at(state, now_us);
            self.write(now_us, state);
        }
    }

    fn refund(&mut self, now_us: u64, units: u64, charged_at_us: Option<u64>) {
        if units == 0 || !A::ADJUSTABLE {
            return;
        }
        // A refund never creates a state.
        if let Some(mut state) = self.seen(now_us) {
            self.rule.give_back(&mut state, now_us, units, charged_at_us);
            self.write(now_us, state);
        }
    }

    fn settle(&mut self, now_us: u64, reserved: u64, actual: u64, charged_at_us: u64) {
        if !A::ADJUSTABLE {
            return;
        }
        if actual < reserved {
            self.refund(now_us, reserved - actual, Some(charged_at_us));
        } else if actual > reserved {
            let mut state = self.seen_or_fresh(now_us);
            self.rule.take_regardless(&mut state, now_us, actual - reserved);
            self.write(now_us, state);
        } else if let Some(state) = self.seen(now_us) {
            self.write(now_us, state);
        }
    }

    fn release(&mut self, now_us: u64, id: u128) -> bool {
        let Some(mut state) = self.seen(now_us) else {
            return false;
        };
        let held = self.rule.release(&mut state, id);
        if held {
            self.write(now_us, state);
        }
        held
    }

    fn renew(&mut self, now_us: u64, id: u128) -> bool {
        let Some(mut state) = self.seen(now_us) else {
            return false;
        };
        let held = self.rule.renew(&mut state, now_us, id);
        if held {
            self.write(now_us, state);
        }
        held
    }

    fn reset(&mut self) {
        self.stored = None;
    }

    fn forgotten_at_us(&self, now_us: u64) -> Option<u64> {
        let fresh_at_us = self.stored.as_ref()?.fresh_at_us;
        (fresh_at_us <= now_us).then_some(fresh_at_us)
    }

    fn reconfigure(&mut self, spec: &Spec) {
        if let Some(rule) = A::from_spec(spec) {
            self.rule = rule;
        }
    }
}
