//! What simulated processes have in common: calls that are under way, and chance.

use tollkeeper_testkit::fleet::{CallId, Seat};

/// Calls that have not been answered, each with what it is for.
pub(crate) struct UnderWay<T>(Vec<(CallId, T)>);

impl<T> UnderWay<T> {
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn add(&mut self, call: CallId, what: T) {
        self.0.push((call, what));
    }

    /// What a call was for that is answered now.
    pub(crate) fn end(&mut self, call: CallId) -> T {
        self.find(call).unwrap()
    }

    /// The same, if it was one of these.
    pub(crate) fn find(&mut self, call: CallId) -> Option<T> {
        let at = self.0.iter().position(|(id, _)| *id == call)?;
        Some(self.0.swap_remove(at).1)
    }
}

/// Numbers that another process does not have, nor this one in another life.
pub(crate) struct Chance(u32);

impl Chance {
    pub(crate) fn of(seat: &Seat) -> Self {
        Self(u32::try_from(seat.nth).unwrap().wrapping_mul(0x9e37_79b9) ^ seat.life)
    }

    /// The number of now.
    pub(crate) fn now(&self) -> u32 {
        self.0
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0
    }
}
