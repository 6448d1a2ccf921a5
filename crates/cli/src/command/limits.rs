//! `tollkeeper limits`: every limit of a policy, for whom it is and what happens on a failure.

use std::process::ExitCode;

use serde_json::{Value, json};
use tollkeeper_core::{Bucket, Quota, format_duration};
use tollkeeper_policy::{Cost, Exempt, Limit, Match, Policy, Rule, StoreUrl, WhenMissing};

use super::decided_by;
use crate::args::LimitsArgs;
use crate::config::load;
use crate::output::{Failure, say, table_within};

/// The widest that the table gets, unless a word of it is wider.
const WIDTH: usize = 100;

/// One limit, where it applies.
struct Active<'p> {
    rule: &'p Rule,
    /// Which of the tiers has it; the rule itself if none.
    tier: Option<usize>,
    limit: &'p Limit,
    /// Who decides it, if not the store each time.
    decided_by: Option<String>,
    /// What is decided while the store gives no answer; nothing where that cannot be.
    on_failure: Option<&'static str>,
}

pub(crate) fn run(args: &LimitsArgs) -> Result<ExitCode, Failure> {
    let policy = load(args.file.as_deref().or(args.config.as_deref()))?.policy()?;
    let active = active(&policy);
    if args.json {
        let limits: Vec<Value> = active.iter().map(as_json).collect();
        say(&format!("{:#}", Value::Array(limits)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let header =
        ["rule", "tier", "limit", "key", "match", "cost", "consistency", "failure", "shadow"];
    say(table_within(WIDTH, &header, active.iter().map(row)).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Every limit, in the order of the file: of each rule its own, then those of its tiers.
fn active(policy: &Policy) -> Vec<Active<'_>> {
    let mut active = Vec::new();
    for rule in policy.rules() {
        let on_failure = rule.on_failure().unwrap_or(policy.store().on_failure).name();
        let on_failure = (policy.store().url != StoreUrl::Memory).then_some(on_failure);
        let tiers = rule.tiers().map_or(0, |tiers| tiers.list().len());
        for tier in std::iter::once(None).chain((0..tiers).map(Some)) {
            active.extend(rule.limits_of(tier).iter().map(|limit| {
                let decided_by = decided_by(policy, limit);
                Active { rule, tier, limit, decided_by, on_failure }
            }));
        }
    }
    active
}

impl Active<'_> {
    fn tier(&self) -> Option<&str> {
        Some(self.rule.tiers()?.list().get(self.tier?)?.name())
    }
}

fn row(active: &Active<'_>) -> Vec<String> {
    let Active { rule, limit, .. } = active;
    vec![
        limit.name().to_owned(),
        active.tier().unwrap_or_default().to_owned(),
        format!("{}, {}", brief(limit.quota()), limit.quota().algorithm()),
        key(rule),
        match_(rule.match_(), rule.exempt()),
        cost(rule.cost()),
        active.decided_by.clone().unwrap_or_default(),
        active.on_failure.unwrap_or_default().to_owned(),
        if rule.is_shadow() { "shadow".to_owned() } else { String::new() },
    ]
}

/// How much is allowed, as short as the file has it.
fn brief(quota: &Quota) -> String {
    // A bucket whose capacity is the count of its rate has no burst of its own.
    let bucket = |bucket: &Bucket, word: &str| {
        let (rate, capacity) = (bucket.rate_text(), bucket.capacity());
        match rate.starts_with(&format!("{capacity}/")) {
            true => rate,
            false => format!("{rate} {word} {capacity}"),
        }
    };
    match quota {
        Quota::TokenBucket(tokens) | Quota::Gcra(tokens) => bucket(tokens, "burst"),
        Quota::LeakingBucket(leak) => {
            let delay = leak.max_delay_us().map(|us| format!(" wait {}", format_duration(us)));
            format!("{}{}", bucket(leak.bucket(), "queue"), delay.unwrap_or_default())
        }
        other => other.to_string(),
    }
}

fn key(rule: &Rule) -> String {
    let parts: Vec<String> = rule.key().iter().map(ToString::to_string).collect();
    match (parts.is_empty(), rule.on_missing()) {
        (true, _) => "one for all".to_owned(),
        (false, WhenMissing::Skip) => parts.join(", "),
        (false, missing) => format!("{} (else {})", parts.join(", "), missing.name()),
    }
}

/// The values that headers must have are not told, since they may come from variables.
fn match_(match_: &Match, exempt: &Exempt) -> String {
    let mut said: Vec<String> = Vec::new();
    let list = |items: Vec<String>| items.join(", ");
    if !match_.methods().is_empty() {
        said.push(list(match_.methods().iter().map(ToString::to_string).collect()));
    }
    if !match_.paths().is_empty() {
        said.push(list(match_.paths().iter().map(ToString::to_string).collect()));
    }
    if !match_.hosts().is_empty() {
        let hosts = match_.hosts().iter().map(ToString::to_string).collect();
        said.push(format!("host {}", list(hosts)));
    }
    if !match_.headers().is_empty() {
        let headers = match_.headers().iter().map(|header| header.name().to_owned()).collect();
        said.push(format!("header {}", list(headers)));
    }
    if said.is_empty() {
        said.push("every request".to_owned());
    }
    let (networks, keys) = (exempt.networks().list().len(), exempt.keys().len());
    for (count, noun) in [(networks, "network"), (keys, "key")].into_iter().filter(|one| one.0 > 0)
    {
        let plural = if count == 1 { "" } else { "s" };
        said.push(format!("but {count} {noun}{plural}"));
    }
    said.join(" ")
}

fn cost(cost: &Cost) -> String {
    let bounds = cost.bounds();
    match cost.source() {
        None if cost.default_cost() == 1 => String::new(),
        None => cost.default_cost().to_string(),
        Some(source) => {
            let (least, most) = (bounds.start(), bounds.end());
            match cost.default_cost() {
                1 => format!("{source} {least} to {most}"),
                usual => format!("{source} {least} to {most} else {usual}"),
            }
        }
    }
}

fn as_json(active: &Active<'_>) -> Value {
    let Active { rule, limit, .. } = active;
    let (match_, exempt, cost) = (rule.match_(), rule.exempt(), rule.cost());
    json!({
        "rule": rule.name(),
        "limit": limit.name(),
        "tier": active.tier(),
        "tier_by": rule.tiers().map(|tiers| tiers.by().to_string()),
        "algorithm": limit.quota().algorithm().name(),
        "allows": limit.quota().to_string(),
        "most": limit.quota().limit(),
        "key": rule.key().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "when_missing": rule.on_missing().name(),
        "match": {
            "path": match_.paths().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "methods": match_.methods(),
            "host": match_.hosts().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "headers": match_.headers().iter().map(|header| header.name()).collect::<Vec<_>>(),
        },
        "exempt": { "ips": exempt.networks().list().len(), "keys": exempt.keys().len() },
        "cost": {
            "from": cost.source().map(ToString::to_string),
            "min": cost.bounds().start(),
            "max": cost.bounds().end(),
            "default": cost.default_cost(),
        },
        "consistency": active.decided_by.as_deref().unwrap_or("exact"),
        "on_failure": active.on_failure,
        "shadow": rule.is_shadow(),
    })
}
