//! Decides whether one rule applies to a request whose path it matches, and how.

use compact_str::CompactString;

use super::facts::Facts;
use super::key;
use crate::request::RequestView;
use crate::rule::{HeaderMatch, Rule, WhenMissing};

/// What a rule makes of a request.
pub(super) enum Outcome {
    /// It counts it.
    Applies { tier: Option<usize>, key: CompactString, cost: u64 },
    /// It denies it, since this part of its key is missing.
    Denies { part: usize },
    /// Nothing, for this reason.
    Not(Why),
}

/// Why a rule does not apply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// None of its paths is the request's.
    Path,
    /// None of its methods is the request's.
    Method,
    /// None of its hosts is the request's.
    Host,
    /// The header at this place is missing or another.
    Header(usize),
    /// The client's address is exempt.
    ExemptIp,
    /// The key is exempt.
    ExemptKey,
    /// The part of the key at this place is missing.
    Missing(usize),
}

/// What `rule` makes of a request; `pattern` is the place of the path that matched, if it has any.
pub(super) fn apply<R: RequestView + ?Sized>(
    rule: &Rule,
    pattern: Option<usize>,
    facts: &Facts<'_, R>,
) -> Outcome {
    if let Some(why) = mismatch(rule, facts) {
        return Outcome::Not(why);
    }
    let hot = rule.hot();
    if hot.has_exempt && rule.exempt().has_ip(|| facts.ip()) {
        return Outcome::Not(Why::ExemptIp);
    }
    let key = match key::key(rule, pattern, facts) {
        Ok(key) => key,
        Err(part) if hot.when_missing == WhenMissing::Deny => return Outcome::Denies { part },
        Err(part) => return Outcome::Not(Why::Missing(part)),
    };
    if hot.has_exempt && key::is_exempt(rule, &key) {
        return Outcome::Not(Why::ExemptKey);
    }
    let tiers = if hot.has_tiers { rule.tiers() } else { None };
    let tier = tiers.and_then(|tiers| tiers.position(facts.told(tiers.by())?));
    let cost = hot.fixed_cost.unwrap_or_else(|| {
        let told = rule.cost().source().and_then(|source| facts.told(source));
        rule.cost().of(told)
    });
    Outcome::Applies { tier, key, cost }
}

/// What does not hold of all that a rule asks for beside the path.
fn mismatch<R: RequestView + ?Sized>(rule: &Rule, facts: &Facts<'_, R>) -> Option<Why> {
    if !facts.has_method_of(rule) {
        return Some(Why::Method);
    }
    let is_one =
        |host: &str| rule.match_().hosts().iter().any(|pattern| pattern.matches_normal(host));
    if rule.hot().has_hosts && !facts.host().is_some_and(is_one) {
        return Some(Why::Host);
    }
    if !rule.hot().has_headers {
        return None;
    }
    let holds = |header: &HeaderMatch| header.holds(facts.header(header.name()));
    rule.match_().headers().iter().position(|header| !holds(header)).map(Why::Header)
}
