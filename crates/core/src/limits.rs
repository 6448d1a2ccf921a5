//! The named maximum of everything in this crate, and the relations between them.

/// The first whole number that a double cannot tell from its neighbour.
///
/// Redis computes in doubles, so every number that decides stays below it, on every store alike.
pub const EXACT: u64 = 1 << 53;

/// The longest period, window, lease or delay: 400 days.
pub const MAX_PERIOD_US: u64 = 400 * 86_400 * 1_000_000;

/// The latest moment that is decided at, in the year 2253: two periods later is still exact.
pub const MAX_TIME_US: u64 = EXACT - 1 - 2 * MAX_PERIOD_US;

/// The largest count of a window, and the most permits of a concurrency limit.
pub const MAX_WINDOW_COUNT: u64 = 1 << 32;

/// The most limits that one request may meet.
pub const MAX_CHECKS: usize = 32;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1024;

/// What the name of a part adds to a key that is split, in bytes.
pub const MAX_PART_BYTES: usize = 3;

/// The longest name of a limit, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// The longest life of a reservation: a day.
pub const MAX_RESERVATION_US: u64 = 86_400 * 1_000_000;

/// The life of a reservation that names none: ten minutes.
pub const DEFAULT_RESERVATION_US: u64 = 600 * 1_000_000;

const _: () = {
    assert!(2 * MAX_PERIOD_US < EXACT, "two windows from now stay exact");
    assert!(2 * MAX_WINDOW_COUNT < EXACT, "a count in debt stays exact");
    assert!(MAX_RESERVATION_US <= MAX_PERIOD_US);
};
