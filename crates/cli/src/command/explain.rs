//! `tollkeeper explain`: which rules a request meets, and why.

use std::process::ExitCode;

use serde_json::{Value, json};
use tollkeeper_policy::{Attributes, Explained, Limit, Policy};

use super::decided_by;
use crate::args::ExplainArgs;
use crate::config::load;
use crate::output::{Failure, say};

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let policy = load(args.file.as_deref().or(args.config.as_deref()))?.policy()?;
    let request = request(args)?;
    let explained = policy.explain(&request);
    if args.json {
        let rules: Vec<Value> = explained.iter().map(|rule| as_json(&policy, rule)).collect();
        say(&format!("{:#}", Value::Array(rules)))?;
    } else {
        for rule in &explained {
            say(&told(&policy, rule))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn request(args: &ExplainArgs) -> Result<Attributes, Failure> {
    let (path, query) = match args.path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (args.path.as_str(), None),
    };
    let mut request = Attributes::new();
    let mut set = |name: &str, value: &str| request.set(name, value).map_err(Failure::told);
    set("method", &args.method)?;
    set("path", path)?;
    let named = [("query", query), ("host", args.host.as_deref()), ("ip", args.ip.as_deref())];
    for (name, value) in named {
        if let Some(value) = value {
            set(name, value)?;
        }
    }
    for header in &args.headers {
        let (name, value) = header.split_once(':').ok_or_else(|| {
            Failure::told(format!("`--header` is `{header}`; expected NAME: VALUE"))
        })?;
        set(&format!("header.{}", name.trim().to_lowercase()), value.trim())?;
    }
    for attribute in &args.attributes {
        let (name, value) = attribute.split_once('=').ok_or_else(|| {
            Failure::told(format!("`--attribute` is `{attribute}`; expected NAME=VALUE"))
        })?;
        set(&format!("attribute.{}", name.trim()), value.trim())?;
    }
    Ok(if args.untrusted { request.untrusted() } else { request })
}

fn told(policy: &Policy, explained: &Explained<'_>) -> String {
    let mark = match (explained.applies(), explained.denied) {
        (true, _) => "applies",
        (false, true) => "denies",
        (false, false) => "does not apply",
    };
    let mut lines = vec![format!("{}  {mark}: {}", explained.rule.name(), explained.why)];
    if let Some(met) = &explained.met {
        let tier =
            explained.tier().map_or_else(String::new, |tier| format!(", tier {}", tier.name()));
        let shadow = if explained.rule.is_shadow() { ", shadow" } else { "" };
        lines.push(format!("  key {}, cost {}{tier}{shadow}", met.key, met.cost));
        lines.extend(explained.limits().iter().map(|limit| {
            let by = decided_by(policy, limit).map_or_else(String::new, |by| format!("  {by}"));
            format!("  limit {}  {}{by}", limit.name(), limit.quota())
        }));
    }
    lines.extend(explained.notes.iter().map(|note| format!("  note: {note}")));
    lines.join("\n")
}

fn as_json(policy: &Policy, explained: &Explained<'_>) -> Value {
    let met = explained.met.as_ref();
    let limit = |limit: &Limit| {
        json!({
            "name": limit.name(),
            "quota": limit.quota().to_string(),
            "consistency": policy.consistency_of(limit).to_string(),
        })
    };
    json!({
        "rule": explained.rule.name(),
        "applies": explained.applies(),
        "denied": explained.denied,
        "why": explained.why,
        "notes": explained.notes,
        "key": met.map(|met| met.key.as_str()),
        "cost": met.map(|met| met.cost),
        "tier": explained.tier().map(|tier| tier.name()),
        "shadow": explained.rule.is_shadow(),
        "limits": explained.limits().iter().map(limit).collect::<Vec<_>>(),
    })
}
