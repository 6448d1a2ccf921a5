//! `TK002`: a rule, or a part of it, that no request meets.
//!
//! Rules do not stand in each other's way, and a path, a host or a method alone can nearly always
//! be met. What is found here are the exceptions, and what is almost surely a slip.

use std::net::Ipv6Addr;

use super::{Advice, AdviceCode};
use crate::error::quoted;
use crate::nearest::nearest;
use crate::rule::{HostPattern, Match, Rule};

/// Methods that people mean.
const USUAL: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

/// Further methods that are in use, and that look like slips of the usual ones.
const KNOWN: [&str; 16] = [
    "ACL",
    "BIND",
    "COPY",
    "LINK",
    "LIST",
    "LOCK",
    "MERGE",
    "MOVE",
    "PRI",
    "PROPPATCH",
    "PURGE",
    "QUERY",
    "REPORT",
    "SEARCH",
    "UNLOCK",
    "UPDATE",
];

/// Headers that only answers have.
pub(super) const OF_ANSWERS: [&str; 6] =
    ["etag", "location", "proxy-authenticate", "retry-after", "set-cookie", "www-authenticate"];

/// What no path has: each of these is percent-encoded in one.
const NOT_IN_PATHS: [char; 9] = ['<', '>', '[', ']', '\\', '^', '|', '"', '`'];

pub(super) fn check(rule: &Rule, advice: &mut Vec<Advice>) {
    let found = methods(rule)
        .into_iter()
        .chain(paths(rule))
        .chain(hosts(rule))
        .chain(headers(rule))
        .chain(exempt(rule));
    advice.extend(found);
}

fn say(rule: &Rule, at: &[&str], what: &str, help: String) -> Advice {
    let message = format!("rule {} {what}", quoted(rule.name()));
    Advice::new(AdviceCode::NeverMatches, message, help).of(rule, at)
}

/// What of a list of alternatives nobody meets: the rule as a whole, or this one of several.
fn dead(alternatives: usize, one: &str) -> String {
    match alternatives {
        1 => format!("matches no request: {one}"),
        _ => format!("has an alternative that matches no request: {one}"),
    }
}

fn methods(rule: &Rule) -> Vec<Advice> {
    let methods = rule.match_().methods();
    let slip = |(nth, method): (usize, &str)| {
        if USUAL.contains(&method) || KNOWN.contains(&method) {
            return None;
        }
        let near = nearest(method, USUAL.into_iter())?;
        let one = format!("no client sends the method {}", quoted(method));
        let at = ["match", "methods", &nth.to_string()];
        Some(say(rule, &at, &dead(methods.len(), &one), format!("did you mean `{near}`?")))
    };
    methods.iter().map(|method| &**method).enumerate().filter_map(slip).collect()
}

fn paths(rule: &Rule) -> Vec<Advice> {
    let paths = rule.match_().paths();
    let odd = |(nth, path): (usize, &crate::rule::PathPattern)| {
        let is_odd = |segment: &&str| segment.contains(NOT_IN_PATHS);
        let segment = path.as_str().split('/').find(is_odd)?;
        let one = format!(
            "{} in {} stands for itself, and no path has it",
            quoted(segment),
            quoted(path.as_str())
        );
        let help = "write `{id}` or `*` for one segment and `**` for any number of them; \
                    if the characters themselves are meant, percent-encode them";
        let at = ["match", "path", &nth.to_string()];
        Some(say(rule, &at, &dead(paths.len(), &one), help.to_owned()))
    };
    paths.iter().enumerate().filter_map(odd).collect()
}

/// Addresses are compared as texts, and clients write each of them in one way only.
fn hosts(rule: &Rule) -> Vec<Advice> {
    let hosts = rule.match_().hosts();
    let unusual = |(nth, host): (usize, &HostPattern)| {
        let inside = host.suffix().strip_prefix('[')?.strip_suffix(']')?;
        let usual = format!("[{}]", inside.parse::<Ipv6Addr>().ok()?);
        if usual == host.suffix() {
            return None;
        }
        let one = format!("clients write the host {} as `{usual}`", quoted(host.suffix()));
        let at = ["match", "host", &nth.to_string()];
        Some(say(rule, &at, &dead(hosts.len(), &one), format!("write `{usual}`")))
    };
    hosts.iter().enumerate().filter_map(unusual).collect()
}

fn headers(rule: &Rule) -> Vec<Advice> {
    let match_ = rule.match_();
    let mut found = Vec::new();
    for name in match_.headers().iter().map(|header| header.name()) {
        if OF_ANSWERS.contains(&name) {
            let what = format!("matches no request: the header `{name}` is one of answers");
            let help = match name {
                "set-cookie" => "requests carry their cookies in the header `cookie`".to_owned(),
                _ => format!("remove `{name}` from `match.headers`"),
            };
            found.push(say(rule, &["match", "headers", name], &what, help));
        }
    }
    if other_host(match_) {
        let what = "matches no request: `match.headers` asks for another host than `match.host`";
        let help = "remove `host` from `match.headers`: `match.host` takes any port, too";
        found.push(say(rule, &["match", "headers", "host"], what, help.to_owned()));
    }
    found
}

/// Whether the header `host` must be one that is none of the hosts.
fn other_host(match_: &Match) -> bool {
    let header = match_.headers().iter().find(|header| header.name() == "host");
    let value = header.and_then(|header| header.value());
    let is_none = |value: &str| !match_.hosts().iter().any(|host| host.matches(value));
    !match_.hosts().is_empty() && value.is_some_and(|value| is_none(value.expose()))
}

fn exempt(rule: &Rule) -> Option<Advice> {
    let networks = rule.exempt().networks();
    let whom = match (networks.has_every_v4(), networks.has_every_v6()) {
        (true, true) => "every client is exempt",
        (true, false) => "every client with an IPv4 address is exempt",
        _ => return None,
    };
    let what = format!("counts next to nobody: {whom}");
    let help = "name the networks that are meant, or remove the rule";
    Some(say(rule, &["exempt", "ips"], &what, help.to_owned()))
}
