//! The tables of the blocks: the parameters of each algorithm.

use tollkeeper_core::limits::{EXACT, MAX_WINDOW_COUNT};

use super::{Kind, Shape, optional, required};

/// Twice the debt of a full bucket must stay exact.
const MAX_CAPACITY: u64 = (EXACT - 1) / 2;

const MODES: &[&str] = &["shape", "meter"];

pub(super) static TOKEN_BUCKET: Shape = Shape {
    doc: "The parameters of token_bucket.",
    example: "{ capacity: 10, refill_rate: 5/s }",
    fields: &[
        required(
            "capacity",
            "The most tokens that are held: the largest burst.",
            Kind::Count { max: MAX_CAPACITY },
        ),
        required(
            "refill_rate",
            "How fast tokens come back; a bare number is per second.",
            Kind::Rate,
        ),
    ],
    later: &[],
};

pub(super) static GCRA: Shape = Shape {
    doc: "The parameters of gcra.",
    example: "{ burst: 10, rate: 5/s }",
    fields: &[
        required("burst", "The most that is admitted at once.", Kind::Count { max: MAX_CAPACITY }),
        required("rate", "The rate in the long run; a bare number is per second.", Kind::Rate),
    ],
    later: &[],
};

pub(super) static LEAKING_BUCKET: Shape = Shape {
    doc: "The parameters of leaking_bucket.",
    example: "{ queue_capacity: 10, leak_rate: 5/s }",
    fields: &[
        required(
            "queue_capacity",
            "The most requests that are queued.",
            Kind::Count { max: MAX_CAPACITY },
        ),
        required(
            "leak_rate",
            "How fast the queue drains; a bare number is per second.",
            Kind::Rate,
        ),
        optional(
            "mode",
            "shape (the default) holds requests back until it is their turn, meter only counts.",
            Kind::Word(MODES),
        ),
        optional(
            "max_delay",
            "A request that would wait longer is denied; a bare number is seconds.",
            Kind::Duration,
        ),
    ],
    later: &[],
};

pub(super) static WINDOW: Shape = Shape {
    doc: "The parameters of a window.",
    example: "{ max_requests: 10, window_size: 60s }",
    fields: &[
        required(
            "max_requests",
            "The most that is admitted in a window.",
            Kind::Count { max: MAX_WINDOW_COUNT },
        ),
        required("window_size", "How long a window is; a bare number is seconds.", Kind::Duration),
    ],
    later: &[],
};

pub(super) static CONCURRENCY: Shape = Shape {
    doc: "The parameters of concurrency.",
    example: "{ max_in_flight: 20, lease: 30s }",
    fields: &[
        required(
            "max_in_flight",
            "The most that is held at the same time.",
            Kind::Count { max: MAX_WINDOW_COUNT },
        ),
        required(
            "lease",
            "When a permit that is not renewed ends; a bare number is seconds.",
            Kind::Duration,
        ),
    ],
    later: &[],
};

#[cfg(test)]
mod tests {
    use tollkeeper_core::{Quota, Rate};

    use super::*;

    #[test]
    fn the_largest_counts_are_those_of_core() {
        let rate = Rate::new(1, 1).unwrap();
        assert!(Quota::token_bucket(MAX_CAPACITY, rate).is_ok());
        assert!(Quota::token_bucket(MAX_CAPACITY + 1, rate).is_err());
        assert!(Quota::fixed_window(MAX_WINDOW_COUNT, 1).is_ok());
        assert!(Quota::fixed_window(MAX_WINDOW_COUNT + 1, 1).is_err());
        assert!(Quota::concurrency(MAX_WINDOW_COUNT + 1, 1).is_err());
    }
}
