//! What an algorithm has to say for itself; all the rest is the same for every algorithm (see `slot`).

use std::fmt::Debug;

use super::Spec;

/// One algorithm with its parameters: the rule by which a state is read and changed.
///
/// A state is read in two steps. [`Algorithm::seen_at`] turns what was stored into what it means at a moment, under the
/// parameters of today; every other question is put to such a state, at that same moment.
pub(super) trait Algorithm: Debug + Sized {
    /// What is remembered of the past.
    type State: Clone + Debug;

    /// Whether `refund` and `settle` change the state. Permits are only ever released.
    const ADJUSTABLE: bool = true;

    /// The rule of a specification, if it is one of this algorithm's.
    fn from_spec(spec: &Spec) -> Option<Self>;

    /// The capacity, or the most units in a window, or held.
    fn limit(&self) -> u64;

    /// The state of a key that nobody has charged yet.
    fn fresh(&self, now_us: u64) -> Self::State;

    /// The state as it stands at `now_us`: in this rule's unit, re-anchored if it has seen a later time, and without
    /// what time has taken since.
    fn seen_at(&self, state: &Self::State, now_us: u64) -> Self::State;

    /// Whether even a denial writes the state: it has seen a later time than `now_us`, or counts in other windows.
    fn is_stale(&self, state: &Self::State, now_us: u64) -> bool;

    /// Whether a request would be admitted. A cost above the limit is never put here.
    fn admits(&self, state: &Self::State, now_us: u64, cost: u64) -> bool;

    /// Takes the cost of an admitted request.
    fn charge(&self, state: &mut Self::State, now_us: u64, cost: u64, id: u128);

    /// Whole units available.
    fn remaining(&self, state: &Self::State, now_us: u64) -> u64;

    /// The time until the state is as new.
    fn reset_after_us(&self, state: &Self::State, now_us: u64) -> u64;

    /// How long a request admitted to this state (before its charge) is to be held.
    fn delay_us(&self, _state: &Self::State) -> u64 {
        0
    }

    /// Gives units back: those of the charge made at `charged_at_us`, or any.
    fn give_back(
        &self,
        state: &mut Self::State,
        now_us: u64,
        units: u64,
        charged_at_us: Option<u64>,
    );

    /// Takes units without asking, into debt if need be, at most one further limit deep.
    fn take_regardless(&self, state: &mut Self::State, now_us: u64, units: u64);

    /// Ends a permit; whether it was held.
    fn release(&self, _state: &mut Self::State, _id: u128) -> bool {
        false
    }

    /// Gives a permit a new life from `now_us` on; whether it was held.
    fn renew(&self, _state: &mut Self::State, _now_us: u64, _id: u128) -> bool {
        false
    }
}

/// What a count becomes when `extra` units are taken regardless: at most twice the limit, unless it is beyond already.
pub(super) fn count_into_debt(count: u128, extra: u64, limit: u64) -> u128 {
    let deepest = u128::from(limit) * 2;
    (count + u128::from(extra)).min(deepest.max(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debt_is_at_most_one_further_limit() {
        assert_eq!(count_into_debt(3, 4, 10), 7);
        assert_eq!(count_into_debt(3, 17, 10), 20);
        assert_eq!(count_into_debt(3, 18, 10), 20);
        assert_eq!(count_into_debt(3, u64::MAX, 10), 20);
    }

    #[test]
    fn what_is_deeper_already_stays() {
        assert_eq!(count_into_debt(25, 1, 10), 25);
    }
}
