//! `tollkeeper validate`

use std::process::ExitCode;

use serde_json::{Value, json};
use tollkeeper_policy::{Policy, PolicyErrors};

use crate::args::ValidateArgs;
use crate::config::load;
use crate::output::{Failure, say, table};

pub(crate) fn run(args: &ValidateArgs) -> Result<ExitCode, Failure> {
    let loaded = load(args.file.as_deref().or(args.config.as_deref()))?;
    if args.json {
        let (told, code) = match &loaded.policy {
            Ok(policy) => (json!({ "valid": true, "rules": rules(policy) }), ExitCode::SUCCESS),
            Err(errors) => (json!({ "valid": false, "errors": list(errors) }), ExitCode::from(2)),
        };
        say(&format!("{told:#}"))?;
        return Ok(code);
    }
    let name = loaded.name.clone();
    let policy = loaded.policy()?;
    let limits: usize = policy.rules().iter().map(|rule| rule.limits().len()).sum();
    let rows = policy.rules().iter().flat_map(|rule| {
        rule.limits().iter().map(|limit| {
            let shadow = if rule.is_shadow() { "shadow" } else { "" };
            let quota = limit.quota();
            vec![
                limit.name().to_owned(),
                quota.algorithm().to_string(),
                quota.to_string(),
                shadow.to_owned(),
            ]
        })
    });
    say(table(&["limit", "algorithm", "allows", ""], rows).trim_end())?;
    let counted = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    };
    let (rules, limits) = (counted(policy.rules().len(), "rule"), counted(limits, "limit"));
    say(&format!("\n{name} is valid: {rules}, {limits}"))?;
    Ok(ExitCode::SUCCESS)
}

fn rules(policy: &Policy) -> Vec<Value> {
    let limit = |limit: &tollkeeper_policy::Limit| {
        json!({
            "name": limit.name(),
            "algorithm": limit.quota().algorithm().name(),
            "limit": limit.quota().limit(),
            "allows": limit.quota().to_string(),
        })
    };
    policy
        .rules()
        .iter()
        .map(|rule| {
            let limits: Vec<Value> = rule.limits().iter().map(limit).collect();
            json!({ "name": rule.name(), "shadow": rule.is_shadow(), "limits": limits })
        })
        .collect()
}

fn list(errors: &PolicyErrors) -> Vec<Value> {
    errors
        .iter()
        .map(|error| {
            json!({
                "line": error.line,
                "column": error.column,
                "message": error.message,
                "expected": error.expected,
                "help": error.help,
            })
        })
        .collect()
}
