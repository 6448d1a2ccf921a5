//! Every maximum at its edge.

use tollkeeper_policy::limits::{
    MAX_DEPTH, MAX_ERRORS, MAX_EXEMPT_KEYS, MAX_HEADERS, MAX_HOSTS, MAX_KEY_PARTS, MAX_LIMITS,
    MAX_METHODS, MAX_NETWORKS, MAX_NODES, MAX_PATHS, MAX_PATTERN_BYTES, MAX_PATTERN_SEGMENTS,
    MAX_RULES, MAX_STATUSES, MAX_TIERS,
};
use tollkeeper_policy::{Policy, PolicyErrors};

fn parse(text: &str) -> Result<Policy, PolicyErrors> {
    Policy::parse(text, &|_| None)
}

fn message(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn rules_of_a_file() {
    let rules = |count: usize| -> String {
        let rules = (0..count).map(|i| format!("  r{i}: {{ limit: 1/s }}\n"));
        format!("rules:\n{}", rules.collect::<String>())
    };
    assert_eq!(parse(&rules(MAX_RULES)).unwrap().rules().len(), MAX_RULES);
    assert_eq!(message(&rules(MAX_RULES + 1)), "1:1: `rules` has 10001 rules");
}

#[test]
fn limits_of_a_rule() {
    let limits = |count: usize| -> String {
        let limits: Vec<String> = (1..=count).map(|i| format!("{i}/s")).collect();
        format!("rules: {{ r: {{ limits: [{}] }} }}", limits.join(", "))
    };
    assert_eq!(parse(&limits(MAX_LIMITS)).unwrap().rules()[0].limits().len(), MAX_LIMITS);
    assert_eq!(message(&limits(MAX_LIMITS + 1)), "1:15: `limits` has 17 entries");
    assert_eq!(message(&limits(0)), "1:15: `limits` has 0 entries");
}

#[test]
fn depth_with_and_without_aliases() {
    let nested = |depth: usize| format!("x: {}{}", "[".repeat(depth), "]".repeat(depth));
    let too_deep = "nested deeper";
    assert!(!message(&nested(MAX_DEPTH - 1)).contains(too_deep));
    assert!(message(&nested(MAX_DEPTH)).contains(too_deep));
    assert!(message(&nested(300)).contains(too_deep));
    assert!(message(&"[".repeat(100_000)).contains(too_deep));
    assert!(message(&"- ".repeat(100_000)).contains(too_deep));

    let mut chained = "a0: &a0 [x]\n".to_owned();
    for i in 1..MAX_DEPTH {
        chained += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
    }
    assert!(message(&chained).contains(too_deep));
}

#[test]
fn nodes_with_and_without_aliases() {
    let too_many = "more than 1000000 keys and values";
    // The map, the key and the list are nodes too.
    let plain = |count: usize| format!("x: [{}]", "1,".repeat(count));
    assert!(!message(&plain(MAX_NODES - 3)).contains(too_many));
    assert!(message(&plain(MAX_NODES - 2)).contains(too_many));

    let aliased =
        |count: usize| format!("a: &a [{}]\nb: [{}]", "1,".repeat(998), "*a,".repeat(count));
    // Each list is 999 nodes; the map, two keys and the second list are four.
    assert!(!message(&aliased(999)).contains(too_many));
    assert!(message(&aliased(1001)).contains(too_many));
}

#[test]
fn a_long_text_behind_many_aliases_takes_its_memory_once() {
    let text = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), "*a,".repeat(200_000));
    assert!(message(&text).starts_with("1:1: "));
}

#[test]
fn an_alias_cannot_hold_itself() {
    assert_eq!(
        message("rules: &a { r: *a }"),
        "1:16: this alias stands inside what it is an alias for"
    );
    assert_eq!(message("rules: *a"), "1:8: this alias has no anchor before it");
}

#[test]
fn errors_of_a_file() {
    let wrong = |count: usize| -> String {
        let rules = (0..count).map(|i| format!("  r{i}: {{ limit: 1 }}\n"));
        format!("rules:\n{}", rules.collect::<String>())
    };
    let errors = parse(&wrong(MAX_ERRORS)).unwrap_err();
    assert_eq!((errors.iter().count(), errors.has_more()), (MAX_ERRORS, false));
    let text = wrong(MAX_ERRORS + 1);
    let errors = parse(&text).unwrap_err();
    assert_eq!((errors.iter().count(), errors.has_more()), (MAX_ERRORS, true));
    assert!(errors.render("f", &text).ends_with("\nonly the first 50 errors are shown\n"));
    assert_eq!(parse(&wrong(9_000)).unwrap_err().iter().count(), MAX_ERRORS);
}

#[test]
fn the_same_mistake_behind_aliases_is_told_once() {
    let errors = parse("rules:\n  a: &a { limit: 1 }\n  b: *a\n  c: *a\n").unwrap_err();
    assert_eq!(errors.iter().count(), 1);
}

#[test]
fn lists_of_a_rule() {
    type One = fn(usize) -> String;
    let cases: [(&str, usize, One); 9] = [
        ("match: { path: [@] }", MAX_PATHS, |i| format!("/p{i}")),
        ("match: { methods: [@] }", MAX_METHODS, |i| format!("M{i}")),
        ("match: { host: [@] }", MAX_HOSTS, |i| format!("h{i}.test")),
        ("match: { headers: { @ } }", MAX_HEADERS, |i| format!("x{i}: v")),
        ("key: [@]", MAX_KEY_PARTS, |i| format!("header:x{i}")),
        ("refund_on: [@]", MAX_STATUSES, |i| format!("{}", 100 + i)),
        ("exempt: { ips: [@] }", MAX_NETWORKS, |i| format!("10.0.{}.{}", i / 256, i % 256)),
        ("key: ip, exempt: { keys: [@] }", MAX_EXEMPT_KEYS, |i| format!("k{i}")),
        ("tiers: { by: attribute:p, limits: { @ } }", MAX_TIERS, |i| format!("t{i}: 1/s")),
    ];
    for (lines, max, one) in cases {
        let file = |count: usize| {
            let list: Vec<String> = (0..count).map(one).collect();
            format!("rules: {{ r: {{ limit: 1/s, {} }} }}", lines.replace('@', &list.join(", ")))
        };
        assert!(parse(&file(max)).is_ok(), "{lines}");
        let told = message(&file(max + 1));
        assert!(told.contains(&format!("has {} ", max + 1)), "{told}");
        let told = message(&file(0));
        assert!(told.contains("has 0 "), "{told}");
    }
}

#[test]
fn patterns_of_paths() {
    let file =
        |path: &str| format!("rules: {{ r: {{ limit: 1/s, match: {{ path: \"{path}\" }} }} }}");
    let long = |length: usize| format!("/{}", "a".repeat(length - 1));
    assert!(parse(&file(&long(MAX_PATTERN_BYTES))).is_ok());
    assert!(message(&file(&long(MAX_PATTERN_BYTES + 1))).contains("which is too long"));
    let deep = |count: usize| "/a".repeat(count);
    assert!(parse(&file(&deep(MAX_PATTERN_SEGMENTS))).is_ok());
    assert!(message(&file(&deep(MAX_PATTERN_SEGMENTS + 1))).contains("too many segments"));
}
