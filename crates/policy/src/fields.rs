//! The tables of what may stand in the file: each map, its fields, what each takes, one line of
//! documentation. The reader and the schema both follow them, so they cannot disagree.
//!
//! A name that a later version will take stands under `later`: it is refused as such. To support
//! it, move it to `fields`.

use self::blocks::{CONCURRENCY, GCRA, LEAKING_BUCKET, TOKEN_BUCKET, WINDOW};
use self::store::ON_FAILURE;

mod blocks;
mod store;

pub(crate) use self::store::STORE;

/// A map of the file.
pub(crate) struct Shape {
    pub(crate) doc: &'static str,
    /// A whole one, for messages.
    pub(crate) example: &'static str,
    pub(crate) fields: &'static [Field],
    pub(crate) later: &'static [&'static str],
}

/// A field of a map.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
}

/// What a field takes.
pub(crate) enum Kind {
    /// A whole number of at least 1.
    Count { max: u64 },
    /// `5`, `300/min`.
    Rate,
    /// `60`, `1m30s`.
    Duration,
    /// A duration that is not shorter and not longer than these.
    DurationWithin { min_us: u64, max_us: u64 },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text of a form.
    Text(&'static TextForm),
    /// The name of an algorithm.
    Algorithm,
    /// `100/min burst 20`.
    Limit,
    /// A list of those.
    Limits,
    /// Where state is kept.
    StoreUrl,
    /// `127.0.0.1:8080`.
    Address,
    /// A map with fields of its own.
    Map(&'static Shape),
    /// A map from names that the user chooses to rules.
    Rules(&'static Shape),
}

/// What a text looks like, in three ways that say the same.
pub(crate) struct TextForm {
    /// For messages, to follow the word "expected".
    pub(crate) expected: &'static str,
    /// For the schema.
    pub(crate) pattern: &'static str,
    pub(crate) fits: fn(&str) -> bool,
}

const fn optional(name: &'static str, doc: &'static str, kind: Kind) -> Field {
    Field { name, doc, kind, required: false }
}

const fn required(name: &'static str, doc: &'static str, kind: Kind) -> Field {
    Field { name, doc, kind, required: true }
}

pub(crate) static TOP: Shape = Shape {
    doc: "A policy of Tollkeeper: which limits there are, where their state is kept, and where the service listens.",
    example: "{ rules: { api: { limit: 100/min } } }",
    fields: &[
        required(
            "rules",
            "The rules by name; a name is 1 to 64 of A-Z a-z 0-9 _ . -",
            Kind::Rules(&RULE),
        ),
        optional("store", "Where the state of the limits is kept.", Kind::Map(&STORE)),
        optional(
            "listen",
            "The addresses on which the service listens; a door not named stays closed. Without it, http on 127.0.0.1:8080.",
            Kind::Map(&LISTEN),
        ),
    ],
    later: &["admin", "client_ip", "headers"],
};

pub(crate) static LISTEN: Shape = Shape {
    doc: "The addresses on which the service listens.",
    example: "{ http: \"127.0.0.1:8080\" }",
    fields: &[optional("http", "The address of the HTTP API.", Kind::Address)],
    later: &["gateway", "grpc", "resp", "admin"],
};

pub(crate) static RULE: Shape = Shape {
    doc: "One rule: an algorithm with its block, or limits in the short form.",
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
    ],
    later: &["match", "key", "cost", "tiers", "refund_on", "when_missing", "exempt", "consistency"],
};

impl Shape {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::Algorithm;

    use super::*;

    #[test]
    fn every_algorithm_has_its_block() {
        for algorithm in Algorithm::ALL {
            let field = RULE.field(algorithm.name()).unwrap();
            assert!(matches!(field.kind, Kind::Map(_)), "{algorithm}");
        }
    }

    #[test]
    fn a_name_is_either_known_or_for_later() {
        for shape in [&TOP, &STORE, &LISTEN, &RULE] {
            for name in shape.later {
                assert!(shape.field(name).is_none(), "{name}");
            }
        }
    }
}
