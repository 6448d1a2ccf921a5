//! What is planned for one key, in whichever way it is decided here.

/// What is to be told to one request, and what is to be asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the request is told.
    pub told: Told,
    /// What to draw from the store. It is to be answered.
    pub draw: Option<Draw>,
}

/// What a request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It may go.
    Admitted(Spent),
    /// It may not, for so long.
    Denied {
        /// When the store is asked again.
        retry_after_us: u64,
    },
    /// Units are on their way: it is decided when they are here, then.
    Waits,
    /// The store decides it: the key is not busy.
    Store,
    /// There is nothing left, and the store does not answer.
    Lost,
}

/// Units that were spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// What is left here.
    pub left: u64,
    /// Until when they can be put back: then the first of them would have ended.
    pub ends_us: u64,
}

/// Units to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// How many are wanted.
    pub most: u64,
    /// How many the request that waits for them needs.
    pub least: u64,
}

/// Three to five quarters of `us`, so that processes do not ask all at once.
pub(crate) fn about(us: u64, chance: u32) -> u64 {
    let half = u128::from(us / 2) * u128::from(chance) / u128::from(u32::MAX);
    us - us / 4 + u64::try_from(half).unwrap_or(0)
}

/// A number of units or microseconds, rounded up.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(crate) fn whole(number: f64) -> u64 {
    number.ceil() as u64
}
