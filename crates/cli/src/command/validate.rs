//! `tollkeeper validate`

use std::process::ExitCode;

use serde_json::{Value, json};
use tollkeeper_policy::{Advice, Limit, Policy, PolicyErrors, render_advice};

use super::decided_by;
use crate::args::ValidateArgs;
use crate::config::{Loaded, load};
use crate::output::{Failure, advise, say, table};

pub(crate) fn run(args: &ValidateArgs) -> Result<ExitCode, Failure> {
    let loaded = load(args.file.as_deref().or(args.config.as_deref()))?;
    if args.json {
        let (told, code) = match &loaded.policy {
            Ok(policy) => {
                let advice = policy.advice_in(&loaded.text);
                let listed: Vec<Value> = advice.iter().map(as_json).collect();
                let told = json!({ "valid": true, "rules": rules(policy), "advice": listed });
                (told, code(&advice, args.strict))
            }
            Err(errors) => (json!({ "valid": false, "errors": list(errors) }), ExitCode::from(2)),
        };
        say(&format!("{told:#}"))?;
        return Ok(code);
    }
    let Loaded { name, text, policy, .. } = loaded;
    let policy = policy.map_err(|errors| Failure::told(errors.render(&name, &text)))?;
    let limits: usize = policy.rules().iter().map(|rule| rule.limits().len()).sum();
    let rows = policy.rules().iter().flat_map(|rule| {
        rule.limits().iter().map(|limit| {
            let shadow = rule.is_shadow().then(|| "shadow".to_owned());
            let notes: Vec<String> = decided_by(&policy, limit).into_iter().chain(shadow).collect();
            let quota = limit.quota();
            vec![
                limit.name().to_owned(),
                quota.algorithm().to_string(),
                quota.to_string(),
                notes.join(", "),
            ]
        })
    });
    say(table(&["limit", "algorithm", "allows", ""], rows).trim_end())?;
    let counted = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    };
    let advice = policy.advice_in(&text);
    let (rules, limits) = (counted(policy.rules().len(), "rule"), counted(limits, "limit"));
    let warnings = match advice.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "warning")),
    };
    say(&format!("\n{name} is valid: {rules}, {limits}{warnings}"))?;
    if !advice.is_empty() {
        advise(&format!("\n{}", render_advice(&advice, &name, &text)));
    }
    Ok(code(&advice, args.strict))
}

/// Advice stops nobody who did not ask for that.
fn code(advice: &[Advice], strict: bool) -> ExitCode {
    if strict && !advice.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

fn rules(policy: &Policy) -> Vec<Value> {
    let limit = |limit: &Limit| {
        json!({
            "name": limit.name(),
            "algorithm": limit.quota().algorithm().name(),
            "limit": limit.quota().limit(),
            "allows": limit.quota().to_string(),
            "consistency": policy.consistency_of(limit).to_string(),
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

fn as_json(advice: &Advice) -> Value {
    json!({
        "code": advice.code.as_str(),
        "rule": advice.rule,
        "line": advice.line,
        "column": advice.column,
        "message": advice.message,
        "help": advice.help,
        "page": advice.code.page(),
    })
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
