//! `TK010`: requests that cost more than a limit can ever give.

use super::{Advice, AdviceCode};
use crate::error::quoted;
use crate::rule::Rule;

pub(super) fn check(rule: &Rule, advice: &mut Vec<Advice>) {
    if rule.is_shadow() {
        return;
    }
    let (least, usual) = (*rule.cost().bounds().start(), rule.cost().default_cost());
    let tiers = rule.tiers().map_or(&[][..], |tiers| tiers.list());
    let own = (None, "");
    for (tier, name) in std::iter::once(own)
        .chain(tiers.iter().enumerate().map(|(nth, tier)| (Some(nth), tier.name())))
    {
        // Whichever has the least room decides.
        let limits = rule.limits_of(tier).iter().enumerate();
        let Some((nth, limit)) = limits.min_by_key(|(_, limit)| limit.quota().limit()) else {
            continue;
        };
        let most = limit.quota().limit();
        let (who, cost) = match (least > most, usual > most) {
            (true, _) => ("every request", least),
            (false, true) => ("every request that does not say what it costs", usual),
            (false, false) => continue,
        };
        let of_tier = tier.map(|_| format!(" of tier {}", quoted(name))).unwrap_or_default();
        let message = format!(
            "rule {} denies {who}{of_tier}, for ever: it takes {cost}, and the limit never has \
             more than {most}",
            quoted(rule.name())
        );
        let help = format!("let the limit have room for {cost} at once, or lower `cost`");
        advice.push(Advice::new(AdviceCode::TooDear, message, help).of_limit(rule, tier, nth));
    }
}
