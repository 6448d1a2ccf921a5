//! `TK009`: a client that can choose by which address it is counted.

use super::{Advice, AdviceCode};
use crate::limits::DEFAULT_IPV6_PREFIX;
use crate::policy::Policy;
use crate::rule::{KeyPart, Rule};

pub(super) fn check(policy: &Policy, advice: &mut Vec<Advice>) {
    let settings = policy.client_ip();
    let is_counted = |rule: &Rule| rule.key().contains(&KeyPart::Ip);
    let is_asked = |rule: &Rule| {
        is_counted(rule) || !rule.exempt().networks().is_empty() || rule.trusts_headers()
    };
    let proxies = &settings.trusted_proxies;
    if (proxies.has_every_v4() || proxies.has_every_v6()) && policy.rules().iter().any(is_asked) {
        let message = "every client counts as a trusted proxy, so each can write its own address \
                       into X-Forwarded-For, a new one for each request"
            .to_owned();
        let help = "name the networks of your proxies alone, such as `trusted_proxies: \
                    [10.0.0.0/8]`";
        let said = Advice::new(AdviceCode::ManyFaces, message, help);
        advice.push(said.of_setting(&["client_ip", "trusted_proxies"]));
    }
    let prefix = settings.ipv6_prefix;
    if prefix > DEFAULT_IPV6_PREFIX && policy.rules().iter().any(is_counted) {
        let message = format!(
            "each /{prefix} of IPv6 addresses has a counter of its own, and a client can choose: \
             every customer has a /64 at least, which is {} of them",
            powers(prefix - DEFAULT_IPV6_PREFIX)
        );
        let said = Advice::new(AdviceCode::ManyFaces, message, "write `ipv6_prefix: 64`, or less");
        advice.push(said.of_setting(&["client_ip", "ipv6_prefix"]));
    }
}

/// Two to the power of `bits`, as people read it.
fn powers(bits: u8) -> String {
    match bits {
        0..=16 => (1_u32 << bits).to_string(),
        _ => format!("2^{bits}"),
    }
}
