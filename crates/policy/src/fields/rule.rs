//! The table of a rule.

use tollkeeper_core::consistency::MAX_PARTS;

use super::blocks::{CONCURRENCY, GCRA, LEAKING_BUCKET, TOKEN_BUCKET, WINDOW};
use super::matching::{COST, EXEMPT, KEY, MATCH, REFUND_ON, TIERS, WHEN_MISSING};
use super::store::ON_FAILURE;
use super::{Kind, Shape, optional};

/// The words for who decides.
const CONSISTENCY: &[&str] = &["exact", "lease", "sync", "share"];

pub(crate) static RULE: Shape = Shape {
    doc: "One rule: an algorithm with its block, or limits in the short form, and to which requests they apply how.",
    example: "{ limit: 100/min }",
    fields: &[
        optional(
            "algorithm",
            "Which algorithm decides. Its block, or a limit, says how much.",
            Kind::Algorithm,
        ),
        optional(
            "token_bucket",
            "Tokens refill at a rate up to a capacity; a request takes one.",
            Kind::Map(&TOKEN_BUCKET),
        ),
        optional(
            "gcra",
            "The same decisions as token_bucket, kept as a single arrival time.",
            Kind::Map(&GCRA),
        ),
        optional(
            "leaking_bucket",
            "Requests queue and leave at a steady rate; a full queue denies.",
            Kind::Map(&LEAKING_BUCKET),
        ),
        optional(
            "fixed_window",
            "So many in each window, windows aligned to the clock.",
            Kind::Map(&WINDOW),
        ),
        optional(
            "sliding_window_log",
            "So many in every interval of the window's length, exactly.",
            Kind::Map(&WINDOW),
        ),
        optional(
            "sliding_window_counter",
            "So many in the window, the one before weighted by its overlap.",
            Kind::Map(&WINDOW),
        ),
        optional("concurrency", "So many at the same time.", Kind::Map(&CONCURRENCY)),
        optional(
            "limit",
            "A limit in one line, such as 100/min or 5/s burst 20; a token bucket unless algorithm says otherwise.",
            Kind::Limit,
        ),
        optional(
            "limits",
            "Several limits on one key, such as [20/s, 5000/day]; all must admit.",
            Kind::Limits,
        ),
        optional("shadow", "true counts what the rule would deny, and denies nothing.", Kind::Flag),
        optional(
            "on_failure",
            "What the rule decides while the store's server gives no answer; what the store says if not given.",
            Kind::Word(ON_FAILURE),
        ),
        optional(
            "consistency",
            "Who decides when many processes share the limit: exact (the default) asks the store each time; lease spends units here that were taken from the store in advance, which admits no more and asks seldom; sync decides here and tells the store now and then, which can admit too much for so long; share gives each process its part of the limit. No effect with memory://.",
            Kind::Word(CONSISTENCY),
        ),
        optional(
            "period",
            "With consistency: lease, for how long units are taken in advance; what suits the limit if not given. With consistency: sync, how often the store is told; 100ms if not given.",
            Kind::Duration,
        ),
        optional(
            "sub_shards",
            "With consistency: sync, over how many keys of the store one key is split, for a key that is too busy for one server; 1 if not given.",
            Kind::Count { max: MAX_PARTS },
        ),
        optional(
            "match",
            "To which requests the rule applies: all that is given must hold. Every request if not given.",
            Kind::Map(&MATCH),
        ),
        optional(
            "key",
            "What requests are told apart by, one thing or a list: ip, header:NAME, cookie:NAME, query:NAME, route, method, host, user, attribute:NAME. All share one counter if not given.",
            Kind::Texts(&KEY),
        ),
        optional(
            "when_missing",
            "What happens to a request that lacks a part of the key: skip (the default) does not apply the rule to it, deny denies it, anonymous counts all of them together.",
            Kind::Word(WHEN_MISSING),
        ),
        optional(
            "cost",
            "How many units a request takes; 1 if not given. A number, or where the request says it.",
            Kind::CountOr(&COST),
        ),
        optional(
            "tiers",
            "Other limits for some, by what their requests say; all others have the rule's own.",
            Kind::Map(&TIERS),
        ),
        optional(
            "refund_on",
            "Answers that give back what the request has taken: statuses such as 404, or classes such as 5xx.",
            Kind::Texts(&REFUND_ON),
        ),
        optional("exempt", "To whom the rule does not apply.", Kind::Map(&EXEMPT)),
    ],
    later: &[],
};
