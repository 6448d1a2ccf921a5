//! How much work it is to find the rules of a request, counted in steps and not in time.

use std::fmt::Write;

use super::Meeting;
use super::index::Effort;
use crate::limits::{MAX_PATH_SEGMENTS, MAX_RULES};
use crate::policy::Policy;
use crate::request::{Attributes, RequestView};

fn parse(text: &str) -> Policy {
    Policy::parse(text, &|_| None).unwrap_or_else(|errors| panic!("{}", errors.render("-", text)))
}

fn effort(policy: &Policy, request: &impl RequestView) -> (usize, Effort) {
    let mut effort = Effort::default();
    let mut meeting = Meeting::default();
    policy.meet_counted(request, &mut meeting, &mut effort);
    (meeting.met.len(), effort)
}

fn path(path: &str) -> Attributes {
    let own = [("header.x-tenant", "t3"), ("header.x-api-key", "k"), ("host", "h3.test")];
    Attributes::from_pairs(own.into_iter().chain([("path", path), ("ip", "1.2.3.4")])).unwrap()
}

/// A file of so many rules, of which a request for `/svc3/items/7` meets three.
fn file(rules: usize, one: impl Fn(usize) -> String) -> String {
    let mut text =
        "rules:\n  ip: { limit: 1/s, key: ip }\n  all: { limit: 1/s, match: { path: /svc3/** } }\n"
            .to_owned();
    for number in 2..rules {
        let _ = writeln!(text, "  r{number}: {{ limit: 1/s, match: {{ {} }} }}", one(number));
    }
    text
}

#[test]
fn many_rules_cost_no_more_steps_than_few() {
    type Kind = fn(usize) -> String;
    let kinds: [(&str, Kind); 10] = [
        ("paths", |n| format!("path: \"/svc{n}/items/{{id}}\"")),
        ("deep paths", |n| {
            format!("path: \"/svc3/items/7/{}\"", if n == 3 { "**".into() } else { n.to_string() })
        }),
        ("any number of segments", |n| format!("path: \"/svc{n}/**/7\"")),
        ("any beginning", |n| format!("path: \"/**/{}\"", if n == 3 { 7 } else { n + 100 })),
        ("hosts", |n| format!("host: h{n}.test")),
        ("headers", |n| format!("headers: {{ x-tenant: t{n} }}")),
        ("hosts below", |n| format!("host: [h{n}.test, \"*.x{n}.test\"]")),
        ("any header and one of its own", |n| {
            format!("headers: {{ x-api-key: \"*\", x-tenant: t{n} }}")
        }),
        ("a path and hosts", |n| format!("path: /svc3/**, host: h{n}.test")),
        ("a path and headers", |n| format!("path: /svc3/**, headers: {{ x-tenant: t{n} }}")),
    ];
    for (kind, one) in kinds {
        let (few, many) = (parse(&file(10, one)), parse(&file(MAX_RULES, one)));
        let request = path("/svc3/items/7");
        let (met, steps) = effort(&few, &request);
        assert_eq!((met, steps.rules), (3, 3), "{kind}");
        assert_eq!(effort(&many, &request), (3, steps), "{kind}");
    }
}

#[test]
fn many_wildcards_do_not_multiply() {
    // Each of these could be passed in a great many ways.
    let pattern = "/**/a".repeat(15);
    let policy = parse(&format!(
        "rules: {{ r: {{ limit: 1/s, match: {{ path: [\"{pattern}/b\", \"{pattern}/**\"] }} }} }}"
    ));
    let nodes = 2 * 15 + 3;
    for (count, met) in [(14, 0), (15, 1), (MAX_PATH_SEGMENTS, 1), (10_000, 1)] {
        let (found, steps) = effort(&policy, &path(&"/a".repeat(count)));
        assert_eq!(found, met, "{count}");
        assert!(steps.nodes <= (MAX_PATH_SEGMENTS + 1) * nodes, "{count}: {steps:?}");
    }
    let (_, steps) = effort(&policy, &path(&"/x".repeat(10_000)));
    assert!(steps.nodes <= nodes + 2, "what is too deep is not followed: {steps:?}");
}

#[test]
fn one_way_is_not_followed_twice() {
    // Without care the second `**` would be reached again with each `a`.
    let policy = parse("rules: { r: { limit: 1/s, match: { path: /**/a/**/b } } }");
    for count in [1, 10, 60] {
        let (met, steps) = effort(&policy, &path(&format!("{}/b", "/a".repeat(count))));
        assert_eq!(met, 1);
        assert!(steps.nodes <= 4 * (count + 2), "{count}: {steps:?}");
    }
}

#[test]
fn a_host_of_many_labels_is_cut() {
    let policy = parse("rules: { r: { limit: 1/s, match: { host: \"*.test\" } } }");
    let long = format!("{}test", "a.".repeat(20_000));
    let request = Attributes::from_pairs([("host", &long)]).unwrap();
    assert_eq!(effort(&policy, &request).0, 1, "it is below test however long it is");
}
