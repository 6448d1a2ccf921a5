//! A second matcher, written from the documentation alone: no index, one rule after the other, one
//! pattern by recursion. It is slow and says what is right.

use std::net::{IpAddr, Ipv6Addr};

use sha2::{Digest, Sha256};
use tollkeeper_policy::limits::{MAX_KEY_PART_BYTES, MAX_PATH_SEGMENTS};

use super::random::{CostSpec, RuleSpec, Told};

/// A rule that applies: its place, tier, key and cost.
pub(crate) type Met = (usize, Option<usize>, String, u64);

/// What a request meets, and which rules deny it for which part.
pub(crate) fn meet(rules: &[RuleSpec], told: &Told, prefix: u8) -> (Vec<Met>, Vec<(usize, usize)>) {
    let (mut met, mut denied) = (Vec::new(), Vec::new());
    for (place, rule) in rules.iter().enumerate() {
        let Some(pattern) = matching(rule, told) else { continue };
        let ip = told.ip.map(canonical);
        let is_exempt = |ip: IpAddr| ip.to_string().starts_with("10.");
        if rule.exempt_tens && ip.is_some_and(is_exempt) {
            continue;
        }
        let key = match key(rule, told, pattern, prefix) {
            Ok(key) => key,
            Err(part) if rule.when_missing == "deny" => {
                denied.push((place, part));
                continue;
            }
            Err(_) => continue,
        };
        // One part is compared by its value, which is never the one that nobody can send.
        let is_exempt = match rule.key.len() {
            0 => false,
            1 => rule.exempt_keys.iter().any(|known| written(known.as_bytes()) == key),
            _ => rule.exempt_keys.contains(&key),
        };
        if is_exempt {
            continue;
        }
        met.push((place, tier(rule, told), key, cost(rule, told)));
    }
    (met, denied)
}

/// `None` if the rule is not for the request; else the pattern that matched, if it has any.
fn matching<'s>(rule: &'s RuleSpec, told: &Told) -> Option<Option<&'s str>> {
    let lower = |text: &str| text.to_ascii_lowercase();
    if !rule.methods.is_empty() {
        let method = told.method.as_deref()?.to_ascii_uppercase();
        rule.methods.iter().find(|known| **known == method)?;
    }
    if !rule.hosts.is_empty() {
        let host = host(told)?;
        rule.hosts.iter().find(|pattern| match pattern.strip_prefix("*.") {
            Some(above) => host
                .strip_suffix(&lower(above))
                .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
            None => lower(pattern) == host,
        })?;
    }
    for (name, value) in &rule.headers {
        let found = told.header_of(name)?;
        if *value != "*" && *value != found.trim() {
            return None;
        }
    }
    if rule.paths.is_empty() {
        return Some(None);
    }
    let path = segments(told.path.as_deref()?);
    let found = rule.paths.iter().find(|pattern| is_path(pattern, &path));
    found.map(|pattern| Some(pattern.as_str()))
}

/// The host in lower case, without its port and a dot at its end.
fn host(told: &Told) -> Option<String> {
    let host = told.host.as_deref()?.to_ascii_lowercase();
    let host = host.split(':').next()?.to_owned();
    let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
    (!host.is_empty()).then_some(host)
}

fn segments(path: &str) -> Vec<Vec<u8>> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut segments: Vec<Vec<u8>> = Vec::new();
    for segment in path.split('/').map(|segment| decode(segment, false)) {
        match segment.as_slice() {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    segments
}

fn is_path(pattern: &str, path: &[Vec<u8>]) -> bool {
    let steps: Vec<&str> = pattern.split('/').filter(|step| !step.is_empty()).collect();
    if path.len() > MAX_PATH_SEGMENTS {
        let rest = steps.iter().position(|step| *step == "**");
        return rest.is_some_and(|rest| agree(&steps[..rest], &path[..rest]));
    }
    agree(&steps, path)
}

fn agree(steps: &[&str], path: &[Vec<u8>]) -> bool {
    match (steps, path) {
        ([], []) => true,
        (["**", rest @ ..], _) => (0..=path.len()).any(|skipped| agree(rest, &path[skipped..])),
        ([step, rest @ ..], [segment, below @ ..]) => {
            let any = *step == "*" || step.starts_with('{');
            (any || decode(step, false) == *segment) && agree(rest, below)
        }
        _ => false,
    }
}

fn decode(text: &str, plus: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match (first, code.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &after[2..];
            }
            (b'+', _) if plus => {
                out.push(b' ');
                rest = after;
            }
            (byte, _) => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

fn key(rule: &RuleSpec, told: &Told, pattern: Option<&str>, prefix: u8) -> Result<String, usize> {
    if rule.key.is_empty() {
        return Ok("global".into());
    }
    let mut parts = Vec::new();
    for (place, part) in rule.key.iter().enumerate() {
        match value(part, told, pattern, prefix).filter(|value| !value.is_empty()) {
            Some(value) => parts.push(written(&value)),
            None if rule.when_missing == "anonymous" => parts.push("<anonymous>".into()),
            None => return Err(place),
        }
    }
    match parts.as_slice() {
        [one] => Ok(one.clone()),
        _ => {
            let escaped = |part: &String| part.replace('\\', "\\\\").replace('|', "\\|");
            Ok(parts.iter().map(escaped).collect::<Vec<_>>().join("|"))
        }
    }
}

fn value(part: &str, told: &Told, pattern: Option<&str>, prefix: u8) -> Option<Vec<u8>> {
    let text = match part.split_once(':') {
        Some(("header", name)) => told.header_of(name)?.trim().to_owned(),
        Some(("attribute", name)) => told.attribute_of(name)?.to_owned(),
        Some(("query", name)) => {
            let query = told.query.as_deref()?;
            let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            let mut named = pairs.filter(|(key, _)| decode(key, true) == name.as_bytes());
            return named.next().map(|(_, value)| decode(value, true));
        }
        Some((_, name)) => {
            let cookies = told.header_of("cookie")?.split(';').filter_map(|c| c.split_once('='));
            let (_, value) = cookies.into_iter().find(|(key, _)| key.trim() == name)?;
            let value = value.trim();
            let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
            return Some(decode(if quoted { &value[1..value.len() - 1] } else { value }, false));
        }
        None => match part {
            "ip" => match canonical(told.ip?) {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => {
                    let bits = |at: u8| ip.to_bits() >> (127 - at) & 1;
                    let kept = (0..prefix).fold(0, |sum, at| sum | bits(at) << (127 - at));
                    format!("{}/{prefix}", Ipv6Addr::from_bits(kept))
                }
            },
            "method" => told.method.as_deref()?.to_ascii_uppercase(),
            "host" => host(told)?,
            "user" => told.attribute_of("user")?.to_owned(),
            _ => match told.route.as_deref() {
                Some(route) if !route.is_empty() => route.to_owned(),
                _ => pattern?.to_owned(),
            },
        },
    };
    Some(text.into_bytes())
}

fn canonical(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

fn written(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text)
            if text.len() <= MAX_KEY_PART_BYTES
                && !text.starts_with("sha256:")
                && text != "<anonymous>" =>
        {
            text.to_owned()
        }
        _ => {
            let hex: String = Sha256::digest(value).iter().map(|b| format!("{b:02x}")).collect();
            format!("sha256:{hex}")
        }
    }
}

/// What a header or an attribute says, if it counts.
fn said<'t>(source: &str, told: &'t Told) -> Option<&'t str> {
    match source.split_once(':') {
        Some(("header", name)) if told.trusted => told.header_of(name).map(str::trim),
        Some(("attribute", name)) => told.attribute_of(name),
        _ => None,
    }
}

fn tier(rule: &RuleSpec, told: &Told) -> Option<usize> {
    let (by, tiers) = rule.tiers.as_ref()?;
    let value = said(by, told)?;
    tiers.iter().position(|tier| *tier == value)
}

fn cost(rule: &RuleSpec, told: &Told) -> u64 {
    match &rule.cost {
        CostSpec::Fixed(cost) => *cost,
        CostSpec::Told { by, min, max, default } => {
            let value = said(by, told).map(str::trim).unwrap_or_default();
            let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            match value.parse::<u128>() {
                Ok(number) if digits => {
                    let number = number.clamp(u128::from(*min), u128::from(*max));
                    u64::try_from(number).unwrap_or(*max)
                }
                Err(_) if digits => *max,
                _ => *default,
            }
        }
    }
}
