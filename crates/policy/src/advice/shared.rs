//! `TK004`: signed-in users that are counted by their address alone.

use super::cover::covers;
use super::{Advice, AdviceCode};
use crate::error::quoted;
use crate::policy::Policy;
use crate::rule::{HeaderMatch, KeyPart, Rule, Source};

/// Headers by which a request shows who sends it.
const OF_USERS: [&str; 6] =
    ["api-key", "authorization", "cookie", "x-api-key", "x-auth-token", "x-user-id"];

pub(super) fn check(policy: &Policy, rule: &Rule, advice: &mut Vec<Advice>) {
    let of_place = |part: &KeyPart| {
        matches!(part, KeyPart::Ip | KeyPart::Route | KeyPart::Method | KeyPart::Host)
    };
    if !rule.key().contains(&KeyPart::Ip) || !rule.key().iter().all(of_place) {
        return;
    }
    let Some((sign, instead)) = signed_in(rule) else { return };
    if policy.rules().iter().any(|other| counts_users_of(other, rule)) {
        return;
    }
    let message = format!(
        "rule {} lets everybody behind one address share one counter, and {sign}: one busy user \
         of an office or a mobile network shuts out the others",
        quoted(rule.name())
    );
    let help = format!("count by who it is: `key: {instead}`");
    advice.push(Advice::new(AdviceCode::SharedAddress, message, help).of(rule, &["key"]));
}

/// How it is seen that requests of a rule have a user, and what to count by instead.
fn signed_in(rule: &Rule) -> Option<(String, String)> {
    // A header that must have one certain value is not a user's own.
    let shown =
        |header: &&HeaderMatch| header.value().is_none() && OF_USERS.contains(&header.name());
    if let Some(header) = rule.match_().headers().iter().find(shown) {
        let name = header.name();
        let instead = match name {
            "cookie" => "cookie:NAME".to_owned(),
            _ => format!("header:{name}"),
        };
        return Some((format!("its requests all have the header `{name}`"), instead));
    }
    match rule.tiers()?.by() {
        Source::Attribute(name) => {
            Some((format!("its tiers go by `attribute:{name}`"), "user".to_owned()))
        }
        Source::Header(_) => None,
    }
}

/// Whether another rule counts each user of the same requests, so that this one is meant to count
/// their addresses too.
fn counts_users_of(other: &Rule, rule: &Rule) -> bool {
    let of_user = |part: &KeyPart| {
        matches!(
            part,
            KeyPart::Header(_) | KeyPart::Cookie(_) | KeyPart::Query(_) | KeyPart::Attribute(_)
        )
    };
    other.key().iter().any(of_user) && covers(other.match_(), rule.match_())
}
