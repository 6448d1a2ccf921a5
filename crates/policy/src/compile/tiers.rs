//! Turns raw tiers into limits with labels, and adds them to their rule.

use tollkeeper_core::{Algorithm, format_duration};

use super::quota;
use crate::error::{Fault, Problems, quoted};
use crate::limits::MAX_TIER_BYTES;
use crate::raw::{RawMap, RawTier};
use crate::rule::limit::Labelled;
use crate::rule::{Rule, RuleError, Source};

/// The rule with the tiers that the file gives it. `None` if they were refused and reported.
pub(super) fn add(
    rule: Rule,
    map: &RawMap,
    algorithm: Option<Algorithm>,
    problems: &mut Problems,
) -> Option<Rule> {
    let (Some(field), Some(tiers)) = (map.field("tiers"), map.map("tiers")) else {
        return Some(rule);
    };
    let by = by(tiers, problems);
    let raw = tiers.tiers("limits");
    let secret = map.field("algorithm").is_some_and(|field| field.is_secret());
    let mut read = Vec::with_capacity(raw.len());
    for tier in raw {
        read.extend(labelled(tier, algorithm, secret, problems));
    }
    let by = by?;
    if read.is_empty() || read.len() < raw.len() {
        return None;
    }
    match rule.tiered(by, read) {
        Ok(rule) => Some(rule),
        Err(error) => {
            let (span, fault) = match &error {
                RuleError::BadTier { tier, reason } => {
                    let tier = raw.iter().find(|raw| *raw.name == **tier);
                    duplicate(tier, reason, field.key_span)
                }
                _ => (field.key_span, Fault::new(error.to_string())),
            };
            problems.add(span, fault);
            None
        }
    }
}

fn duplicate(
    tier: Option<&RawTier>,
    reason: &RuleError,
    at: crate::error::Span,
) -> (crate::error::Span, Fault) {
    let Some((tier, RuleError::DuplicateLimit { first, second, .. })) = tier.zip(Some(reason))
    else {
        return (at, Fault::new(reason.to_string()));
    };
    let message = format!(
        "limits {} and {} of tier {} are the same",
        first + 1,
        second + 1,
        quoted(&tier.name)
    );
    let span = tier.limits.get(*second).map_or(tier.name_span, |limit| limit.span);
    (span, Fault::new(message).help("remove one of them"))
}

fn by(tiers: &RawMap, problems: &mut Problems) -> Option<Source> {
    let (field, text) = (tiers.field("by")?, tiers.text("by")?);
    match Source::read(text) {
        Ok(source) => Some(source),
        Err(refused) => {
            let fault = field.scalar.as_ref().map(|scalar| refused.fault("`by` is", scalar));
            fault.into_iter().for_each(|fault| problems.add(field.span, fault));
            None
        }
    }
}

fn labelled(
    tier: &RawTier,
    algorithm: Option<Algorithm>,
    algorithm_is_secret: bool,
    problems: &mut Problems,
) -> Option<(String, Vec<Labelled>)> {
    if !(1..=MAX_TIER_BYTES).contains(&tier.name.len()) {
        let fault = Fault::new(format!("the name of a tier has {} bytes", tier.name.len()))
            .expected(format!("1 to {MAX_TIER_BYTES}"));
        problems.add(tier.name_span, fault);
        return None;
    }
    let subject = format!("tier {} has", quoted(&tier.name));
    let mut limits = Vec::with_capacity(tier.limits.len());
    for limit in &tier.limits {
        let quota = quota::short(&subject, limit, algorithm, algorithm_is_secret, problems);
        limits.extend(quota.map(|quota| (format_duration(limit.short.period_us()), quota)));
    }
    (limits.len() == tier.limits.len()).then(|| (tier.name.as_ref().to_owned(), limits))
}
