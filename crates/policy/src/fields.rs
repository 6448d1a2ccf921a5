//! The tables of what may stand in the file: each map, its fields, what each takes, one line of
//! documentation. The reader and the schema both follow them, so they cannot disagree.
//!
//! A name that a later version will take stands under `later`: it is refused as such. To support
//! it, move it to `fields`.

mod blocks;
mod matching;
mod rule;
mod store;
mod top;

pub(crate) use self::matching::{COST, EXEMPT};
pub(crate) use self::rule::RULE;
pub(crate) use self::store::STORE;
pub(crate) use self::top::TOP;

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
    /// Whether nothing of its value is ever shown.
    pub(crate) secret: bool,
}

/// What a field takes.
pub(crate) enum Kind {
    /// A whole number of at least 1.
    Count { max: u64 },
    /// A whole number from one to another.
    Number { min: u64, max: u64 },
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
    /// One text, or a list of texts.
    Texts(&'static TextsForm),
    /// A map from names that the user chooses to texts.
    Pairs(&'static TextsForm),
    /// The name of an algorithm.
    Algorithm,
    /// `100/min burst 20`.
    Limit,
    /// A list of those.
    Limits,
    /// A map from names that the user chooses to a limit or a list of limits.
    TierLimits,
    /// A whole number from 1, or a map with fields of its own.
    CountOr(&'static Shape),
    /// Where state is kept.
    StoreUrl,
    /// `http://127.0.0.1:3000`.
    Upstream,
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

/// What the texts of a list look like. Whether one is right is said where it is compiled.
pub(crate) struct TextsForm {
    /// One of them for messages, to follow the word "expected".
    pub(crate) expected: &'static str,
    /// One of them for the schema.
    pub(crate) pattern: &'static str,
    /// Whether one of them may look like a number.
    pub(crate) numbers: bool,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

const fn optional(name: &'static str, doc: &'static str, kind: Kind) -> Field {
    Field { name, doc, kind, required: false, secret: false }
}

const fn required(name: &'static str, doc: &'static str, kind: Kind) -> Field {
    Field { name, doc, kind, required: true, secret: false }
}

const fn secret(name: &'static str, doc: &'static str, kind: Kind) -> Field {
    Field { name, doc, kind, required: false, secret: true }
}

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
        for shape in [&TOP, &STORE, &top::LISTEN, &RULE] {
            for name in shape.later {
                assert!(shape.field(name).is_none(), "{name}");
            }
        }
    }
}
