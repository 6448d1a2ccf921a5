//! `TK005`: a limit that can never be the one that denies.
//!
//! Rules with tiers are left out: whoever changes the tier takes what is used along, so that no
//! relation between two limits of a tier holds for sure. So are those that give back what failed
//! requests took, for the same reason.

use super::cover::counts_all_of;
use super::quota::hides;
use super::{Advice, AdviceCode};
use crate::error::quoted;
use crate::limits::MAX_COMPARED_RULES;
use crate::policy::Policy;
use crate::rule::{Limit, Rule};

pub(super) fn check(policy: &Policy, advice: &mut Vec<Advice>) {
    let compared = || policy.rules().iter().enumerate().take(MAX_COMPARED_RULES);
    for (place, rule) in compared().filter(|(_, rule)| rule.tiers().is_none() && !rule.is_shadow())
    {
        for (nth, limit) in rule.limits().iter().enumerate() {
            let within = stricter_within(rule, nth);
            let elsewhere =
                || compared().find_map(|outer| stricter_in(policy, outer, (place, rule), limit));
            if let Some(by) = within.or_else(elsewhere) {
                advice.push(say(rule, nth, limit, by));
            }
        }
    }
}

fn say(rule: &Rule, nth: usize, limit: &Limit, by: &Limit) -> Advice {
    let message = format!(
        "limit {} ({}) makes no difference: {} ({}) counts the same requests, and denies whatever \
         it would deny",
        quoted(limit.name()),
        limit.quota(),
        quoted(by.name()),
        by.quota()
    );
    let help = "remove it, or make it the stricter one over a longer time: a burst and a long-term \
                limit are `limits: [20/s, 5000/day]`";
    Advice::new(AdviceCode::Hidden, message, help).of_limit(rule, None, nth)
}

/// Whether whatever one rule counts is counted by another, which denies, at the same time.
fn decides_for(policy: &Policy, outer: &Rule, inner: &Rule) -> bool {
    let on_failure = |rule: &Rule| rule.on_failure().unwrap_or(policy.store().on_failure);
    // A rule that says nothing of requests may be there to be asked by its name alone.
    let is_described = !inner.match_().is_any() || !inner.key().is_empty();
    is_described
        && outer.tiers().is_none()
        && !outer.is_shadow()
        && outer.refund_on().is_empty()
        && on_failure(outer) == on_failure(inner)
        && counts_all_of(outer, inner)
}

/// A stricter limit of the same rule. Of two that hide each other the second one is hidden.
fn stricter_within(rule: &Rule, nth: usize) -> Option<&Limit> {
    if !rule.refund_on().is_empty() {
        return None;
    }
    let limit = rule.limits().get(nth)?;
    let mut others = rule.limits().iter().enumerate().filter(|(other, _)| *other != nth);
    let is_stricter = |other: usize, by: &Limit| {
        hides(by.quota(), limit.quota()) && (other < nth || !hides(limit.quota(), by.quota()))
    };
    others.find(|(other, by)| is_stricter(*other, by)).map(|(_, by)| by)
}

/// A stricter limit of another rule. Of two that hide each other the second one is hidden.
fn stricter_in<'r>(
    policy: &Policy,
    (other, outer): (usize, &'r Rule),
    (place, inner): (usize, &Rule),
    limit: &Limit,
) -> Option<&'r Limit> {
    if other == place || !decides_for(policy, outer, inner) {
        return None;
    }
    let is_first = other < place || !decides_for(policy, inner, outer);
    let is_stricter = |by: &&Limit| {
        hides(by.quota(), limit.quota()) && (is_first || !hides(limit.quota(), by.quota()))
    };
    outer.limits().iter().find(is_stricter)
}
