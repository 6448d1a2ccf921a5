//! Whether the requests of one rule are all met by another one.
//!
//! A yes is certain; a no may only mean that it was not seen.

use std::ops::RangeInclusive;

use crate::rule::path::Step;
use crate::rule::{HostPattern, Match, PathPattern, Rule, WhenMissing};

/// Whether every request that `inner` counts is counted by `outer`, with at least the same cost,
/// under a key that is the same for all requests with the same key of `inner`.
pub(super) fn counts_all_of(outer: &Rule, inner: &Rule) -> bool {
    let same_paths = || outer.match_().paths() == inner.match_().paths();
    let keys = outer.key().iter().all(|part| inner.key().contains(part));
    // The route is the pattern that matched, unless the app has a name for it.
    let routes = !outer.key().contains(&crate::rule::KeyPart::Route) || same_paths();
    let missing = inner.on_missing() != WhenMissing::Anonymous
        || outer.on_missing() == WhenMissing::Anonymous;
    keys && routes
        && missing
        && costs_as_much(outer, inner)
        && exempts_no_more(outer, inner)
        && covers(outer.match_(), inner.match_())
}

fn costs_as_much(outer: &Rule, inner: &Rule) -> bool {
    let most = |bounds: RangeInclusive<u64>| *bounds.end();
    let least = |bounds: RangeInclusive<u64>| *bounds.start();
    outer.cost() == inner.cost() || least(outer.cost().bounds()) >= most(inner.cost().bounds())
}

fn exempts_no_more(outer: &Rule, inner: &Rule) -> bool {
    let (mine, its) = (outer.exempt(), inner.exempt());
    let ips = mine.networks().is_empty() || mine.networks() == its.networks();
    let same_keys = mine.keys() == its.keys() && outer.key() == inner.key();
    ips && (mine.keys().is_empty() || same_keys)
}

/// Whether `outer` matches every request that `inner` matches.
pub(super) fn covers(outer: &Match, inner: &Match) -> bool {
    let path = |path: &PathPattern| {
        outer.paths().iter().any(|other| covers_path(other.steps(), path.steps()))
    };
    let host = |host: &HostPattern| outer.hosts().iter().any(|other| covers_host(other, host));
    let paths =
        outer.paths().is_empty() || (!inner.paths().is_empty() && inner.paths().iter().all(path));
    let methods = outer.methods().is_empty()
        || (!inner.methods().is_empty()
            && inner.methods().iter().all(|method| outer.methods().contains(method)));
    let hosts =
        outer.hosts().is_empty() || (!inner.hosts().is_empty() && inner.hosts().iter().all(host));
    let headers = outer.headers().iter().all(|asked| {
        let same = inner.headers().iter().find(|header| header.name() == asked.name());
        same.is_some_and(|header| asked.value().is_none() || asked.value() == header.value())
    });
    paths && methods && hosts && headers
}

fn covers_host(outer: &HostPattern, inner: &HostPattern) -> bool {
    let (outer, inner) = (outer.suffix(), inner.suffix());
    outer == inner
        || (outer.starts_with('.') && inner.len() > outer.len() && inner.ends_with(outer))
}

/// Step by step from the end: whether what is left of `outer` covers what is left of `inner`.
fn covers_path(outer: &[Step], inner: &[Step]) -> bool {
    // For the steps of `outer` from one on, by how many of `inner` are left out; at first for none.
    let mut after: Vec<bool> = (0..=inner.len()).map(|left_out| left_out == inner.len()).collect();
    for step in outer.iter().rev() {
        let mut here = vec![false; inner.len() + 1];
        for left_out in (0..=inner.len()).rev() {
            let next = left_out + 1;
            here[left_out] = match (step, inner.get(left_out)) {
                (Step::Rest, None) => after[left_out],
                (Step::Rest, Some(_)) => after[left_out] || here[next],
                (Step::One, Some(Step::One | Step::Exact(_))) => after[next],
                (Step::Exact(mine), Some(Step::Exact(its))) => mine == its && after[next],
                _ => false,
            };
        }
        after = here;
    }
    after[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::Policy;
    use crate::request::Attributes;
    use tollkeeper_core::Quota;

    fn path(text: &str) -> PathPattern {
        text.parse().unwrap()
    }

    #[test]
    fn paths_that_cover_others() {
        for (outer, inner, covered) in [
            ("/a", "/a", true),
            ("/a", "/b", false),
            ("/**", "/a/b", true),
            ("/**", "/", true),
            ("/a/**", "/a", true),
            ("/a/**", "/a/*/c/**", true),
            ("/a/*", "/a/b", true),
            ("/a/b", "/a/*", false),
            ("/a/*", "/a/**", false),
            ("/a/**/z", "/a/b/c/z", true),
            ("/a/**/z", "/a/**/b/z", true),
            ("/a/**/z", "/a/**", false),
            ("/**/a/**", "/x/a/y", true),
            ("/**/a/**", "/x/b/y", false),
        ] {
            let covers = covers_path(path(outer).steps(), path(inner).steps());
            assert_eq!(covers, covered, "{outer} {inner}");
        }
    }

    #[test]
    fn hosts_methods_and_headers_that_cover_others() {
        let any = Match::any;
        let host = |host: &str| any().host(host).unwrap();
        assert!(covers(&any(), &host("a.example.com")));
        assert!(!covers(&host("a.example.com"), &any()));
        assert!(covers(&host("*.example.com"), &host("a.example.com")));
        assert!(covers(&host("*.example.com"), &host("*.a.example.com")));
        assert!(!covers(&host("*.example.com"), &host("example.com")));
        assert!(!covers(&host("*.a.example.com"), &host("*.example.com")));
        let get = any().method("GET").unwrap();
        assert!(covers(&get.clone().method("PUT").unwrap(), &get));
        assert!(!covers(&get, &get.clone().method("PUT").unwrap()));
        let header = |value: &str| any().header("x", value).unwrap();
        assert!(covers(&header("*"), &header("1")) && !covers(&header("1"), &header("*")));
        assert!(!covers(&header("1"), &header("2")) && !covers(&header("*"), &any()));
    }

    fn pattern() -> impl Strategy<Value = String> {
        let step = prop_oneof![Just("a"), Just("b"), Just("*"), Just("**")];
        prop::collection::vec(step, 0..5).prop_map(|steps| format!("/{}", steps.join("/")))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5_000) })]

        #[test]
        fn who_meets_the_inner_one_meets_the_outer_one(
            outer in pattern(),
            inner in pattern(),
            paths in prop::collection::vec("/([abc](/[abc]){0,5})?", 1..30),
            deep in "(/[ab]){0,3}",
        ) {
            let match_ = |pattern: &str| Match::any().path(pattern).unwrap();
            if !covers(&match_(&outer), &match_(&inner)) {
                return Ok(());
            }
            let rule = |name: &str, pattern: &str| {
                Rule::new(name, [Quota::fixed_window(1, 1).unwrap()]).unwrap().matching(match_(pattern))
            };
            let policy = Policy::from_rules([rule("outer", &outer), rule("inner", &inner)]).unwrap();
            let deep = format!("{deep}{}", "/c".repeat(100));
            for path in paths.iter().chain([&deep]) {
                let request = Attributes::from_pairs([("path", path.as_str())]).unwrap();
                let met: Vec<usize> = policy.meet(&request).met.iter().map(|met| met.rule).collect();
                prop_assert!(!met.contains(&1) || met.contains(&0), "{} {} {}", outer, inner, path);
            }
        }
    }
}
