//! Paths: random rules and random paths, and a naive matcher that must say the same.

mod naive;

use std::str::FromStr;
use std::sync::LazyLock;

use tollkeeper_policy::{Match, PathPattern, Policy, RequestView, Rule};

/// Rules and paths that are looked at.
const MAX_RULES: usize = 16;
const MAX_PATHS: usize = 16;

/// What a rule needs a limit from.
static LIMITED: LazyLock<Policy> =
    LazyLock::new(|| Policy::parse("rules: { r: { limit: 1/s } }", &|_| None).unwrap());

struct At<'p>(&'p str);

impl RequestView for At<'_> {
    fn path(&self) -> Option<&str> {
        Some(self.0)
    }
}

/// Takes the bytes as lines: rules, each of patterns between blanks, up to an empty line, and then
/// paths.
pub fn paths(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (rules, paths) = text.split_once("\n\n").unwrap_or((&text, "/"));
    let rules: Vec<Vec<&str>> = rules.split('\n').take(MAX_RULES).filter_map(patterns).collect();
    let policy = Policy::from_rules(rules.iter().enumerate().map(rule)).unwrap();
    for path in paths.split('\n').take(MAX_PATHS) {
        let segments = naive::segments(path);
        let expected: Vec<usize> = rules
            .iter()
            .enumerate()
            .filter(|(_, patterns)| patterns.iter().any(|one| naive::is_path(one, &segments)))
            .map(|(place, _)| place)
            .collect();
        let meeting = policy.meet(&At(path));
        let met: Vec<usize> = meeting.met.iter().map(|met| met.rule).collect();
        assert_eq!(met, expected, "{path:?} of {rules:?}");
        for (place, explained) in policy.explain(&At(path)).iter().enumerate() {
            assert_eq!(explained.applies(), expected.contains(&place), "{path:?} of {rules:?}");
        }
    }
}

/// The patterns of a rule: those that can be read, the first of each.
fn patterns(line: &str) -> Option<Vec<&str>> {
    let mut good: Vec<(&str, PathPattern)> = Vec::new();
    for text in line.split(' ').take(8) {
        match PathPattern::from_str(text) {
            Ok(pattern) if Match::any().path(text).is_ok() => {
                assert_eq!(pattern.as_str(), text);
                good.push((text, pattern));
            }
            Ok(_) => panic!("{text:?} is a pattern, and not one that can be matched"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    (!good.is_empty()).then(|| good.into_iter().map(|(text, _)| text).collect())
}

fn rule((place, patterns): (usize, &Vec<&str>)) -> Rule {
    let mut match_ = Match::any();
    for pattern in patterns {
        // The same path twice in one rule is refused, and changes nothing.
        match_ = match_.clone().path(pattern).unwrap_or(match_);
    }
    let quota = *LIMITED.rules()[0].limits()[0].quota();
    Rule::new(format!("r{place}"), [quota]).unwrap().matching(match_)
}
