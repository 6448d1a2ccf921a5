//! `TK006`: a header that sets a cost or a tier, where nobody's headers count.

use super::{Advice, AdviceCode};
use crate::error::quoted;
use crate::policy::Policy;
use crate::rule::{Rule, Source};

pub(super) fn check(policy: &Policy, rule: &Rule, advice: &mut Vec<Advice>) {
    if !policy.client_ip().trusted_proxies.is_empty() {
        return;
    }
    let mut say = |what: String, at: &[&str]| {
        let message = format!(
            "rule {} {what}: such a header counts only from a trusted proxy, or from an app that \
             tells it to POST /v1/check",
            quoted(rule.name())
        );
        let help = "name the proxy that writes the header: `client_ip: { trusted_proxies: \
                    [10.0.0.0/8] }`; or let the app say it: `attribute:NAME`";
        advice.push(Advice::new(AdviceCode::UntrustedHeader, message, help).of(rule, at));
    };
    if let Some(Source::Header(name)) = rule.cost().source() {
        let cost = rule.cost().default_cost();
        say(format!("takes {cost} of a request, whatever its `{name}` says"), &["cost", "header"]);
    }
    if let Some(Source::Header(name)) = rule.tiers().map(crate::rule::Tiers::by) {
        let what = format!("gives a request its own limits, whatever its `{name}` says");
        say(what, &["tiers", "by"]);
    }
}
