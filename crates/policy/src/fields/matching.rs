//! The tables of what a rule says of requests: which ones it takes, who is counted, what it costs.

use super::{Kind, Shape, TextForm, TextsForm, optional, required};
use crate::limits::{
    MAX_COST, MAX_EXEMPT_KEYS, MAX_FIELD_NAME_BYTES, MAX_HEADERS, MAX_HOSTS, MAX_KEY_PARTS,
    MAX_METHODS, MAX_NETWORKS, MAX_PATHS, MAX_STATUSES,
};
use crate::networks;
use crate::rule::{WhenMissing, cost, host, key, path, status};

pub(super) const WHEN_MISSING: &[&str] =
    &[WhenMissing::Skip.name(), WhenMissing::Deny.name(), WhenMissing::Anonymous.name()];

static PATHS: TextsForm = TextsForm {
    expected: path::EXPECTED,
    pattern: "^/[^?#]*$",
    numbers: false,
    min: 1,
    max: MAX_PATHS,
};

static METHODS: TextsForm = TextsForm {
    expected: "a method in upper case such as `GET`",
    pattern: "^[^a-z\\s]{1,32}$",
    numbers: false,
    min: 1,
    max: MAX_METHODS,
};

static HOSTS: TextsForm = TextsForm {
    expected: host::EXPECTED,
    pattern: "^(\\*\\.)?[A-Za-z0-9_.-]+$|^\\[[0-9A-Fa-f:.]+\\]$",
    numbers: false,
    min: 1,
    max: MAX_HOSTS,
};

static HEADERS: TextsForm = TextsForm {
    expected: "a value, or `\"*\"` for any",
    pattern: "^\\S(.*\\S)?$",
    numbers: true,
    min: 1,
    max: MAX_HEADERS,
};

pub(super) static MATCH: Shape = Shape {
    doc: "To which requests a rule applies; all that is given must hold.",
    example: "{ path: \"/api/**\", methods: [GET] }",
    fields: &[
        optional(
            "path",
            "A path or a list of them: /search is that path, /users/{id} and /users/* any one segment, /api/** is /api and all below it, /a/**/z any number of segments between.",
            Kind::Texts(&PATHS),
        ),
        optional("methods", "The methods, in upper case.", Kind::Texts(&METHODS)),
        optional(
            "host",
            "A host or a list of them; *.example.com is every host below example.com.",
            Kind::Texts(&HOSTS),
        ),
        optional(
            "headers",
            "Headers that must be there, each with its exact value or * for any.",
            Kind::Pairs(&HEADERS),
        ),
    ],
    later: &[],
};

pub(super) static KEY: TextsForm = TextsForm {
    expected: key::EXPECTED,
    pattern: "^(ip|route|method|host|user|(header|cookie|query|attribute):.+)$",
    numbers: false,
    min: 1,
    max: MAX_KEY_PARTS,
};

pub(super) static REFUND_ON: TextsForm = TextsForm {
    expected: status::EXPECTED,
    pattern: "^[1-5]([0-9][0-9]|xx)$",
    numbers: true,
    min: 1,
    max: MAX_STATUSES,
};

static NAME: TextForm = TextForm {
    expected: "a name of 1 to 64 visible ASCII characters",
    pattern: "^[!-~]{1,64}$",
    fits: |text| {
        let visible = |b: u8| b.is_ascii_graphic();
        (1..=MAX_FIELD_NAME_BYTES).contains(&text.len()) && text.bytes().all(visible)
    },
};

static BY: TextForm = TextForm {
    expected: cost::EXPECTED_SOURCE,
    pattern: "^(attribute|header):.+$",
    fits: |_| true,
};

pub(crate) static COST: Shape = Shape {
    doc: "Where a request says how many units it takes.",
    example: "{ header: x-cost, min: 1, max: 100, default: 1 }",
    fields: &[
        optional(
            "header",
            "The header with the cost; it counts only from a trusted proxy.",
            Kind::Text(&NAME),
        ),
        optional("attribute", "The attribute with the cost.", Kind::Text(&NAME)),
        optional(
            "min",
            "The least that it can be; 0 if not given, which only looks.",
            Kind::Number { min: 0, max: MAX_COST },
        ),
        optional(
            "max",
            "The most that it can be; no bound if not given.",
            Kind::Number { min: 1, max: MAX_COST },
        ),
        optional(
            "default",
            "What it is where the request does not say, or not in digits; if not given 1, or the nearest that min and max allow.",
            Kind::Number { min: 0, max: MAX_COST },
        ),
    ],
    later: &[],
};

pub(super) static TIERS: Shape = Shape {
    doc: "Other limits for some, by what their requests say.",
    example: "{ by: attribute:plan, limits: { pro: [200/s, 100000/day] } }",
    fields: &[
        required(
            "by",
            "Where a request says which tier it has: attribute:NAME, or header:NAME, which counts only from a trusted proxy.",
            Kind::Text(&BY),
        ),
        required(
            "limits",
            "The limits of each tier by what the request says, one or a list.",
            Kind::TierLimits,
        ),
    ],
    later: &[],
};

static IPS: TextsForm = TextsForm {
    expected: networks::EXPECTED,
    pattern: "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$",
    numbers: false,
    min: 1,
    max: MAX_NETWORKS,
};

static KEYS: TextsForm = TextsForm {
    expected: "a key such as `alice`",
    pattern: "^.+$",
    numbers: true,
    min: 1,
    max: MAX_EXEMPT_KEYS,
};

pub(crate) static EXEMPT: Shape = Shape {
    doc: "To whom a rule does not apply.",
    example: "{ ips: [10.0.0.0/8], keys: [alice] }",
    fields: &[
        optional("ips", "Addresses and networks of clients.", Kind::Texts(&IPS)),
        optional(
            "keys",
            "Keys. A key of one part is its value; one of several parts is written as it is counted, such as alice|/search.",
            Kind::Texts(&KEYS),
        ),
    ],
    later: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_and_numbers_told_are_those_that_count() {
        assert_eq!(WHEN_MISSING, WhenMissing::ALL.map(WhenMissing::name));
        assert!(NAME.expected.contains(&format!("1 to {MAX_FIELD_NAME_BYTES} ")));
        assert!(NAME.pattern.contains(&format!("{{1,{MAX_FIELD_NAME_BYTES}}}")));
    }
}
