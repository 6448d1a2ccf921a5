//! `TK008`: requests that are held back for longer than clients wait.

use tollkeeper_core::{Leak, LeakMode, Quota, format_duration};

use super::{Advice, AdviceCode};
use crate::error::quoted;
use crate::rule::Rule;

/// How long a client waits: many have a limit of 30 s, proxies one of 60 s.
const PATIENCE_US: u64 = 30_000_000;

pub(super) fn check(rule: &Rule, advice: &mut Vec<Advice>) {
    let tiers = rule.tiers().map_or(0, |tiers| tiers.list().len());
    for tier in std::iter::once(None).chain((0..tiers).map(Some)) {
        for (nth, limit) in rule.limits_of(tier).iter().enumerate() {
            let Quota::LeakingBucket(leak) = limit.quota() else { continue };
            let longest_us = longest_us(leak);
            if rule.is_shadow() || leak.mode() != LeakMode::Shape || longest_us <= PATIENCE_US {
                continue;
            }
            let message = format!(
                "rule {} holds requests back for up to {}: many clients and proxies give up after \
                 30s or 60s, and ask again",
                quoted(rule.name()),
                format_duration(longest_us.next_multiple_of(1_000_000))
            );
            let help = "deny those that would wait too long: `max_delay: 5s`; or give the queue \
                        less room";
            let said = Advice::new(AdviceCode::LongWait, message, help);
            advice.push(said.of_limit(rule, tier, nth));
        }
    }
}

/// How long the last one waits that a queue takes.
fn longest_us(leak: &Leak) -> u64 {
    let bucket = leak.bucket();
    let before = (bucket.capacity() - 1) * bucket.unit();
    let full_us = before.div_ceil(bucket.drain());
    leak.max_delay_us().map_or(full_us, |most_us| most_us.min(full_us))
}
