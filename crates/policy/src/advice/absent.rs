//! `TK003`: a rule that reads what a request never has.
//!
//! What an app says of a request can come through `POST /v1/check` and through the middleware. So
//! it is surely absent only in a service whose one door is the gateway.

use super::unmatched::OF_ANSWERS;
use super::{Advice, AdviceCode};
use crate::error::quoted;
use crate::policy::Policy;
use crate::rule::{KeyPart, Rule, Source, WhenMissing};

/// Headers that are for the next machine alone: each proxy takes them away or writes its own, and
/// HTTP/2 has nearly none of them.
const OF_ONE_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn check(policy: &Policy, rule: &Rule, advice: &mut Vec<Advice>) {
    let gateway_only = policy.listen().gateway.is_some() && policy.listen().http.is_none();
    for (nth, part) in rule.key().iter().enumerate() {
        let (what, help) = match (of_one_hop(part), absent(part, rule, gateway_only)) {
            (Some(found), _) => found,
            (None, Some((why, help))) => (format!("{}: {why}", effect(rule)), help),
            (None, None) => continue,
        };
        let message = format!("rule {} {what}", quoted(rule.name()));
        let at = ["key", &nth.to_string()];
        advice.push(Advice::new(AdviceCode::NeverThere, message, help).of(rule, &at));
    }
    if gateway_only {
        advice.extend(cost(rule));
        advice.extend(tiers(rule));
    }
}

/// What becomes of requests that lack the part.
fn effect(rule: &Rule) -> &'static str {
    match rule.on_missing() {
        WhenMissing::Skip => "applies to no request",
        WhenMissing::Deny if rule.is_shadow() => "would deny every request",
        WhenMissing::Deny => "denies every request",
        WhenMissing::Anonymous => "counts all requests together",
    }
}

/// What a rule does that counts by a header of one hop: it may be there, but it is not the client's.
fn of_one_hop(part: &KeyPart) -> Option<(String, String)> {
    let KeyPart::Header(name) = part else { return None };
    let what = format!(
        "does not tell clients apart by the header `{name}`: it is for one hop, so behind a proxy \
         it is missing or the proxy's own"
    );
    let help = "count by what a client is known by, such as `header:x-api-key` or `ip`";
    OF_ONE_HOP.contains(&name.as_str()).then(|| (what, help.to_owned()))
}

/// Why a part of a key is never there, and what to do about it.
fn absent(part: &KeyPart, rule: &Rule, gateway_only: bool) -> Option<(String, String)> {
    Some(match part {
        KeyPart::Header(name) if name == "set-cookie" => (
            "the header `set-cookie` is one of answers".into(),
            "write `cookie:NAME` for a cookie of the request".into(),
        ),
        KeyPart::Header(name) if OF_ANSWERS.contains(&name.as_str()) => (
            format!("the header `{name}` is one of answers"),
            "count by what requests have, such as `header:x-api-key` or `ip`".into(),
        ),
        KeyPart::Attribute(name) if gateway_only => (
            format!(
                "`attribute:{name}` is what an app says of a request, and `gateway` is the only \
                 door: it asks no app"
            ),
            "count by what the request itself has, such as `header:x-api-key` or `ip`; or let \
             your app ask POST /v1/check, or take the middleware"
                .into(),
        ),
        KeyPart::Route if gateway_only && rule.match_().paths().is_empty() => (
            "the gateway does not know the app's routes, and the rule has no path".into(),
            "add `match.path`, whose pattern is then the route".into(),
        ),
        _ => return None,
    })
}

fn cost(rule: &Rule) -> Option<Advice> {
    let Some(Source::Attribute(name)) = rule.cost().source() else { return None };
    let message = format!(
        "rule {} takes {} of every request: `attribute:{name}` is what an app says, and \
         `gateway` is the only door",
        quoted(rule.name()),
        rule.cost().default_cost()
    );
    let help = "take the cost from a header that a trusted proxy sets, or write it as a number";
    Some(Advice::new(AdviceCode::NeverThere, message, help).of(rule, &["cost", "attribute"]))
}

fn tiers(rule: &Rule) -> Option<Advice> {
    let Source::Attribute(name) = rule.tiers()?.by() else { return None };
    let message = format!(
        "rule {} gives nobody the limits of a tier: `attribute:{name}` is what an app says, and \
         `gateway` is the only door",
        quoted(rule.name())
    );
    let help = "take the tier from a header that a trusted proxy sets: `by: header:NAME`";
    Some(Advice::new(AdviceCode::NeverThere, message, help).of(rule, &["tiers", "by"]))
}
