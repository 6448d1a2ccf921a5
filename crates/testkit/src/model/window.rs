//! Fixed windows and the sliding window counter: a history of charges, each booked in a window.
//!
//! Window `w` is `[w·W, (w+1)·W)` from the Unix epoch. The fixed window looks at the charges of this window, the
//! counter also at those of the one before.

use num_bigint::BigInt;

use super::Spec;
use super::algorithm::{Algorithm, count_into_debt};
use super::exact::{floor_or_zero, whole};

/// The parameters of either.
#[derive(Debug)]
pub(super) struct Windows {
    max: u64,
    window_us: u64,
    /// Whether the window before this one counts too.
    sliding: bool,
}

/// Units charged, and the window they are booked in.
#[derive(Clone, Copy, Debug)]
struct Charge {
    window: i128,
    units: u128,
}

/// What is remembered of the past.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    charges: Vec<Charge>,
    /// The window of the last write.
    seen: i128,
    /// The length of the windows meant here.
    window_us: u64,
}

impl Booked {
    /// The units booked in a window.
    fn count(&self, window: i128) -> u128 {
        let in_window = self.charges.iter().filter(|charge| charge.window == window);
        in_window.map(|charge| charge.units).sum()
    }

    /// Books units in a window.
    fn book(&mut self, window: i128, units: u128) {
        self.charges.push(Charge { window, units });
    }

    /// Strikes up to `units` of a window's units out; how many it were.
    fn strike(&mut self, window: i128, units: u128) -> u128 {
        let mut struck = 0;
        for charge in &mut self.charges {
            if charge.window == window {
                let off = charge.units.min(units - struck);
                charge.units -= off;
                struck += off;
            }
        }
        struck
    }
}

impl Windows {
    /// The window a moment is in.
    fn window_of(&self, at_us: u64) -> i128 {
        i128::from(at_us / self.window_us)
    }

    /// How far a moment is into its window.
    fn elapsed_us(&self, at_us: u64) -> u64 {
        at_us % self.window_us
    }

    /// The units of the window before this one that still count.
    fn carried(&self, state: &Booked, now_us: u64) -> u64 {
        if !self.sliding {
            return 0;
        }
        let previous = state.count(self.window_of(now_us) - 1);
        let left = whole(self.window_us - self.elapsed_us(now_us)) / whole(self.window_us);
        floor_or_zero(&(left * BigInt::from(previous)))
    }

    /// The units that count now.
    fn used(&self, state: &Booked, now_us: u64) -> u128 {
        state.count(self.window_of(now_us)) + u128::from(self.carried(state, now_us))
    }

    /// In which of this rule's windows a charge of another rule's window counts now, if in any: in this one if it may
    /// reach into it, else in the one before if it may reach into that.
    fn rebooked(&self, window: i128, window_us: u64, now_us: u64) -> Option<i128> {
        let end_us = (window + 1) * i128::from(window_us);
        let start_us = |window: i128| window * i128::from(self.window_us);
        let this = self.window_of(now_us);
        [this, this - 1].into_iter().find(|&window| end_us > start_us(window))
    }
}

impl Algorithm for Windows {
    type State = Booked;

    fn from_spec(spec: &Spec) -> Option<Self> {
        let (max, window_us, sliding) = match spec {
            Spec::FixedWindow { max, window_us } => (*max, *window_us, false),
            Spec::SlidingWindowCounter { max, window_us } => (*max, *window_us, true),
            _ => return None,
        };
        Some(Self { max, window_us, sliding })
    }

    fn limit(&self) -> u64 {
        self.max
    }

    fn fresh(&self, now_us: u64) -> Booked {
        Booked { charges: Vec::new(), seen: self.window_of(now_us), window_us: self.window_us }
    }

    fn seen_at(&self, state: &Booked, now_us: u64) -> Booked {
        let this = self.window_of(now_us);
        let mut now = self.fresh(now_us);
        // A clock that stepped back: the last window seen is taken for this one, the one before likewise.
        let ahead = (state.seen - i128::from(now_us / state.window_us)).max(0);
        for charge in &state.charges {
            let window = if state.window_us == self.window_us {
                Some(charge.window - ahead)
            } else {
                self.rebooked(charge.window - ahead, state.window_us, now_us)
            };
            let oldest = if self.sliding { this - 1 } else { this };
            if let Some(window) = window.filter(|&window| window >= oldest) {
                now.book(window, charge.units);
            }
        }
        now
    }

    fn is_stale(&self, state: &Booked, now_us: u64) -> bool {
        // Left in another rule's windows, it would be read otherwise in each of this rule's windows.
        state.window_us != self.window_us || state.seen > i128::from(now_us / state.window_us)
    }

    fn admits(&self, state: &Booked, now_us: u64, cost: u64) -> bool {
        self.used(state, now_us) + u128::from(cost) <= u128::from(self.max)
    }

    fn charge(&self, state: &mut Booked, now_us: u64, cost: u64, _id: u128) {
        state.book(self.window_of(now_us), u128::from(cost));
    }

    fn remaining(&self, state: &Booked, now_us: u64) -> u64 {
        let left = u128::from(self.max).saturating_sub(self.used(state, now_us));
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    fn reset_after_us(&self, state: &Booked, now_us: u64) -> u64 {
        let this = self.window_of(now_us);
        let to_end_us = self.window_us - self.elapsed_us(now_us);
        match (state.count(this) > 0, state.count(this - 1) > 0) {
            (true, _) if self.sliding => to_end_us + self.window_us,
            (true, _) => to_end_us,
            (false, true) if self.sliding => to_end_us,
            (false, _) => 0,
        }
    }

    fn give_back(&self, state: &mut Booked, now_us: u64, units: u64, charged_at_us: Option<u64>) {
        let this = self.window_of(now_us);
        let units = u128::from(units);
        if let Some(at_us) = charged_at_us {
            // Of a window that is gone nothing is booked any more, so nothing is struck out.
            state.strike(self.window_of(at_us.min(now_us)), units);
        } else {
            let struck = state.strike(this, units);
            state.strike(this - 1, units - struck);
        }
    }

    fn take_regardless(&self, state: &mut Booked, now_us: u64, units: u64) {
        let this = self.window_of(now_us);
        let count = state.count(this);
        state.book(this, count_into_debt(count, units, self.max) - count);
    }
}
