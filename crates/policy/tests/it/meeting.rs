//! What requests meet, case by case.

use tollkeeper_policy::limits::MAX_PATH_SEGMENTS;
use tollkeeper_policy::{Attributes, Policy};

fn parse(text: &str) -> Policy {
    Policy::parse(text, &|_| None).unwrap_or_else(|errors| panic!("{}", errors.render("-", text)))
}

/// A policy of one rule with these lines.
fn rule(lines: &str) -> Policy {
    parse(&format!("rules:\n  r:\n    limit: 5/s\n    {}\n", lines.replace('\n', "\n    ")))
}

fn request(pairs: &[(&str, &str)]) -> Attributes {
    Attributes::from_pairs(pairs.iter().copied()).unwrap()
}

fn meets(policy: &Policy, pairs: &[(&str, &str)]) -> bool {
    !policy.meet(&request(pairs)).met.is_empty()
}

fn takes_path(pattern: &str, path: &str) -> bool {
    meets(&rule(&format!("match: {{ path: \"{pattern}\" }}")), &[("path", path)])
}

#[test]
fn patterns_of_paths() {
    for (pattern, paths, others) in [
        ("/", &["/", "//", "/.", "/a/.."][..], &["/a"][..]),
        ("/search", &["/search", "/search/", "/search?q=1"], &["/Search", "/search/x", "/"]),
        ("/api/**", &["/api", "/api/", "/api/x", "/api/x/y/"], &["/", "/apix", "/x/api"]),
        ("/**", &["/", "/a", "/a/b/c"], &[]),
        ("/a/*/c", &["/a/b/c", "/a/%2F/c"], &["/a/c", "/a//c", "/a/b/b/c"]),
        ("/users/{id}", &["/users/7", "/users/7/"], &["/users", "/users/", "/users/7/x"]),
        ("/a/**/z", &["/a/z", "/a/b/z", "/a/b/c/z", "/a/z/z"], &["/a", "/z", "/a/z/b"]),
        ("/**/z", &["/z", "/a/z", "/a/b/z"], &["/", "/z/a"]),
        ("/**/a/**/b/**", &["/a/b", "/x/a/x/b/x", "/a/a/b/b"], &["/b/a", "/a", "/b"]),
        ("/a/**/**/z", &["/a/z", "/a/b/z"], &["/a"]),
        ("/a/**/{x}", &["/a/b", "/a/b/c"], &["/a"]),
        ("/caf%C3%A9", &["/café", "/caf%c3%a9", "/caf%C3%A9/"], &["/cafe"]),
        ("/café", &["/caf%c3%a9"], &["/caf%c3"]),
        ("/a%2Fb", &["/a%2fb", "/a%2Fb"], &["/a/b", "/a%252Fb"]),
        ("/a:b", &["/a:b", "/a%3Ab"], &["/a"]),
        ("/api/", &["/api", "/api/"], &["/api/x"]),
    ] {
        for path in paths {
            assert!(takes_path(pattern, path), "{pattern} takes {path}");
        }
        for path in others {
            assert!(!takes_path(pattern, path), "{pattern} does not take {path}");
        }
    }
}

#[test]
fn no_spelling_of_a_path_dodges_a_limit() {
    for path in [
        "/admin/users",
        "//admin//users//",
        "/./admin/./users",
        "/x/../admin/users",
        "/../admin/users",
        "/admin/x/../users",
        "/%61dmin/users",
        "/%2e/admin/%75sers",
        "/x/%2e%2e/admin/users",
        "/x/.%2E/admin/users/%2e",
        "/admin/users?/../..",
        "/admin/users#x",
    ] {
        assert!(takes_path("/admin/users", path), "{path}");
        assert!(takes_path("/admin/**", path), "{path}");
        assert!(!takes_path("/x/**", path), "{path}");
    }
}

#[test]
fn a_path_that_is_too_deep_still_meets_what_ends_open() {
    let policy = parse(
        "rules:
  all: { limit: 1/s, match: { path: /** } }
  api: { limit: 1/s, match: { path: /api/** } }
  middle: { limit: 1/s, match: { path: /api/**/z } }
  other: { limit: 1/s, match: { path: /other/**/z } }
  one: { limit: 1/s, match: { path: \"/api/{x}/**\" } }
  exact: { limit: 1/s, match: { path: [/api, /api/a] } }",
    );
    let names = |path: &str| -> Vec<String> {
        let meeting = policy.meet(&request(&[("path", path)]));
        meeting.met.iter().map(|met| policy.rules()[met.rule].name().to_owned()).collect()
    };
    let deep = |count: usize| format!("/api{}", "/a".repeat(count - 1));
    assert_eq!(names(&deep(MAX_PATH_SEGMENTS)), ["all", "api", "one"]);
    assert_eq!(names(&deep(MAX_PATH_SEGMENTS + 1)), ["all", "api", "middle", "one"]);
    assert_eq!(names(&deep(10_000)), ["all", "api", "middle", "one"]);
    let back = format!("{}{}", deep(10_000), "/..".repeat(9_999));
    assert_eq!(names(&back), ["all", "api", "exact"]);
}

#[test]
fn all_that_is_given_must_hold() {
    let policy = rule(
        "match:\n  path: [/a, /b]\n  methods: [GET, POST]\n  host: [example.com, \"*.example.org\"]\n  headers: { X-A: \"1\", x-b: \"*\" }",
    );
    let good = [
        ("path", "/b"),
        ("method", "get"),
        ("host", "EXAMPLE.com:8080"),
        ("header.x-a", "1"),
        ("header.X-B", "anything"),
    ];
    assert!(meets(&policy, &good));
    for (name, other) in [
        ("path", "/c"),
        ("method", "HEAD"),
        ("host", "example.org"),
        ("header.x-a", "2"),
        ("header.x-a", "1, 1"),
    ] {
        let changed = good.map(|(known, value)| (known, if known == name { other } else { value }));
        assert!(!meets(&policy, &changed), "{name} is {other}");
        let without: Vec<_> = good.into_iter().filter(|(known, _)| *known != name).collect();
        assert!(!meets(&policy, &without), "without {name}");
    }
    let other = good
        .map(|(name, value)| if name == "host" { (name, "a.example.org.") } else { (name, value) });
    assert!(meets(&policy, &other));
    assert!(meets(&rule(""), &[]), "without a match every request is meant");
}

#[test]
fn what_is_missing_skips_denies_or_is_anonymous() {
    let policy = |when: &str| rule(&format!("key: header:x-api-key\nwhen_missing: {when}"));
    let (without, with) = (request(&[]), request(&[("header.x-api-key", "k")]));
    for when in ["skip", "deny", "anonymous"] {
        let meeting = policy(when).meet(&with);
        assert_eq!((meeting.met[0].key.as_str(), meeting.denial()), ("k", None));
    }
    assert!(rule("key: header:x-api-key").meet(&without).is_empty(), "skip is the default");
    assert!(policy("skip").meet(&without).is_empty());
    assert_eq!(policy("anonymous").meet(&without).met[0].key, "<anonymous>");
    let meeting = policy("deny").meet(&without);
    assert_eq!((meeting.met.len(), meeting.denial().map(|denied| denied.rule)), (0, Some(0)));

    let shadow = rule("key: [ip, user]\nwhen_missing: deny\nshadow: true");
    let meeting = shadow.meet(&request(&[("ip", "::1")]));
    assert_eq!((meeting.denied[0].part, meeting.denied[0].shadow), (1, true));
    assert_eq!(meeting.denial(), None, "a shadow denies nothing");
}

#[test]
fn every_part_of_a_key() {
    let told = [
        ("ip", "192.0.2.7"),
        ("method", "get"),
        ("path", "/users/7?tag=a%20b+c&tag=d"),
        ("host", "API.example.com:443"),
        ("header.x-api-key", " k "),
        ("header.cookie", "a=1; session=\"s%201\"; session=2"),
        ("user", "alice"),
        ("attribute.plan", "pro"),
    ];
    for (part, key) in [
        ("ip", "192.0.2.7"),
        ("header:X-Api-Key", "k"),
        ("cookie:session", "s 1"),
        ("query:tag", "a b c"),
        ("route", "/users/{id}"),
        ("method", "GET"),
        ("host", "api.example.com"),
        ("attribute:plan", "pro"),
        ("user", "alice"),
        ("attribute:user", "alice"),
        ("[user, method]", "alice|GET"),
    ] {
        let policy = rule(&format!("match: {{ path: [/x, \"/users/{{id}}\", /**] }}\nkey: {part}"));
        assert_eq!(policy.meet(&request(&told)).met[0].key, key, "{part}");
    }
    let policy = rule("key: route");
    assert!(!meets(&policy, &told), "without a path the rule knows no route");
    assert_eq!(policy.meet(&request(&[("route", "/r/{x}")])).met[0].key, "/r/{x}");
    let policy = rule("match: { path: /** }\nkey: route");
    let told = request(&told).with("route", "/users/{user}").unwrap();
    assert_eq!(policy.meet(&told).met[0].key, "/users/{user}", "the app knows better");
}

#[test]
fn costs_are_bounded_and_need_trust() {
    let fixed = rule("cost: 7");
    assert_eq!(fixed.meet(&request(&[])).met[0].cost, 7);
    assert_eq!(rule("").meet(&request(&[])).met[0].cost, 1);
    let policy = rule("cost: { header: X-Cost, min: 2, max: 100, default: 5 }");
    for (value, cost) in [
        ("7", 7),
        (" 7 ", 7),
        ("1", 2),
        ("0", 2),
        ("101", 100),
        ("18446744073709551616", 100),
        ("", 5),
        ("-3", 5),
        ("+3", 5),
        ("1.5", 5),
        ("ten", 5),
    ] {
        let told = request(&[("header.x-cost", value)]);
        assert_eq!(policy.meet(&told).met[0].cost, cost, "{value}");
        assert_eq!(policy.meet(&told.untrusted()).met[0].cost, 5, "{value}");
    }
    assert_eq!(policy.meet(&request(&[])).met[0].cost, 5);
    let policy = rule("cost: { attribute: tokens, max: 50 }");
    let told = request(&[("tokens", "20")]).untrusted();
    assert_eq!(policy.meet(&told).met[0].cost, 20, "the app's word always counts");
    assert_eq!(policy.meet(&request(&[("tokens", "0")])).met[0].cost, 0);
    assert_eq!(policy.meet(&request(&[])).met[0].cost, 1);
    assert_eq!(rule("cost: { header: x, min: 9 }").meet(&request(&[])).met[0].cost, 9);
}

#[test]
fn tiers_have_other_limits() {
    let policy = parse(
        "rules:
  r:
    limits: [20/s, 5000/day]
    tiers: { by: attribute:plan, limits: { pro: [200/s, 100000/day], free: 10/s } }
  h: { limit: 1/s, tiers: { by: header:x-plan, limits: { pro: 2/s } } }",
    );
    let limits = |told: &Attributes, rule: usize| -> Vec<(String, u64)> {
        let meeting = policy.meet(told);
        let limits = policy.rules()[rule].limits_of(meeting.met[rule].tier);
        limits.iter().map(|limit| (limit.name().to_owned(), limit.quota().limit())).collect()
    };
    let of = |limits: &[(&str, u64)]| -> Vec<(String, u64)> {
        limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect()
    };
    let own = of(&[("r/1s", 20), ("r/1d", 5000)]);
    assert_eq!(limits(&request(&[]), 0), own);
    assert_eq!(limits(&request(&[("plan", "Pro")]), 0), own);
    assert_eq!(limits(&request(&[("plan", "pro")]), 0), of(&[("r/1s", 200), ("r/1d", 100_000)]));
    assert_eq!(limits(&request(&[("plan", "free")]), 0), of(&[("r/1s", 10)]), "usage survives");
    let told = request(&[("header.x-plan", "pro")]);
    assert_eq!(limits(&told, 1), of(&[("h", 2)]));
    assert_eq!(limits(&told.untrusted(), 1), of(&[("h", 1)]));
    assert!(policy.rules()[1].trusts_headers() && !policy.rules()[0].trusts_headers());
    assert_eq!(policy.quota("r/1d").unwrap().limit(), 5000);
    assert_eq!(policy.rules()[0].limits_of(Some(9)).len(), 2, "no such tier");
}

#[test]
fn some_are_exempt() {
    let policy = rule(
        "key: user\nexempt: { ips: [10.0.0.0/8, \"2001:db8::/32\"], keys: [root, \"sha256:x\"] }",
    );
    for (ip, user, counted) in [
        ("192.0.2.1", "alice", true),
        ("10.1.2.3", "alice", false),
        ("::ffff:10.1.2.3", "alice", false),
        ("2001:db8::7", "alice", false),
        ("192.0.2.1", "root", false),
        ("192.0.2.1", "Root", true),
        ("192.0.2.1", "sha256:x", false),
        ("192.0.2.1", "sha256:y", true),
    ] {
        assert_eq!(meets(&policy, &[("ip", ip), ("user", user)]), counted, "{ip} {user}");
    }
    assert!(meets(&policy, &[("user", "alice")]), "an address that is not known is not exempt");
    let policy = rule("key: [user, method]\nexempt: { keys: [\"root|GET\"] }");
    assert!(!meets(&policy, &[("user", "root"), ("method", "get")]));
    assert!(meets(&policy, &[("user", "root"), ("method", "PUT")]));
    assert!(meets(&policy, &[("user", "root|GET"), ("method", "GET")]));
}

#[test]
fn checks_are_made_of_what_is_met() {
    let policy = parse(
        "rules:
  a: { limits: [1/s, 9/min], key: ip, cost: 3 }
  b: { limit: 2/s, shadow: true }
  c: { limit: 1/s, match: { path: /never } }",
    );
    let meeting = policy.meet(&request(&[("ip", "1.2.3.4"), ("path", "/")]));
    let checks: Vec<_> = policy
        .checks(&meeting)
        .map(|check| (check.limit, check.key, check.cost, check.shadow))
        .collect();
    assert_eq!(
        checks,
        [("a/1s", "1.2.3.4", 3, false), ("a/1m", "1.2.3.4", 3, false), ("b", "global", 1, true),]
    );
}
