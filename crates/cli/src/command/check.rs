//! `tollkeeper check`

use std::process::ExitCode;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tollkeeper_core::{Algorithm, Store};
use tollkeeper_engine::{Ask, Engine, Target};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::{Policy, StoreUrl};
use tollkeeper_server::decision_json;
use tollkeeper_stores::AnyStore;

use super::block_on;
use crate::args::CheckArgs;
use crate::client::send;
use crate::config::{load, store_url};
use crate::output::{Failure, human, say};

/// How long a store may take to decide.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let decision = match store_url(&args.store)? {
        Some(store) => in_store(args, store)?,
        None => block_on(from_service(args))?,
    };
    let allowed = decision["allowed"].as_bool().unwrap_or(false);
    if args.json {
        say(&decision.to_string())?;
    } else {
        say(&told(&decision, allowed, args.cost))?;
    }
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn from_service(args: &CheckArgs) -> Result<Value, Failure> {
    let url = format!("{}/v1/check", args.url.trim_end_matches('/'));
    let mut body = json!({ "key": args.key, "cost": args.cost });
    let named = [("rule", &args.rule), ("limit", &args.limit), ("algorithm", &args.algorithm)];
    for (name, value) in named {
        if let Some(value) = value {
            body[name] = json!(value);
        }
    }
    let reply = send(Method::POST, &url, body.to_string()).await?;
    let answer: Value = serde_json::from_slice(&reply.body)
        .map_err(|_| Failure::told(format!("{url} answered {} without JSON", reply.status)))?;
    if answer["allowed"].is_boolean() {
        return Ok(answer);
    }
    let detail = answer["detail"].as_str().unwrap_or("no reason given");
    Err(Failure::told(format!("{url} answered {}: {detail}", reply.status)))
}

fn in_store(args: &CheckArgs, store: StoreUrl) -> Result<Value, Failure> {
    let policy = match &args.rule {
        Some(_) => load(args.config.as_deref())?.policy()?,
        None => Policy::default(),
    };
    let algorithm = args.algorithm.as_deref().map(str::parse::<Algorithm>).transpose();
    let target = match (&args.rule, &args.limit) {
        (Some(rule), _) => Target::Rule(rule),
        (None, limit) => Target::Inline {
            limit: limit.as_deref().unwrap_or_default(),
            algorithm: algorithm.map_err(Failure::told)?,
        },
    };
    let ask = Ask { target, key: Some(&args.key), cost: args.cost };
    let policy = policy.stored_at(store);
    block_on(async {
        let store = AnyStore::open(policy.store(), SystemClock::new()).map_err(Failure::told)?;
        // Of several servers, those that the key does not lie on need not be there.
        match store.opened().await {
            Err(error) if store.shards() == 1 => return Err(Failure::told(error)),
            _ => {}
        }
        let engine = Engine::new(policy, store);
        let deciding = tokio::time::timeout(PATIENCE, engine.check(ask)).await;
        let late = |_| Failure::told("the store gave no answer within 5 s");
        let verdict = deciding.map_err(late)?.map_err(Failure::told)?;
        Ok(decision_json(&verdict))
    })
}

fn told(decision: &Value, allowed: bool, cost: u64) -> String {
    let number = |name: &str| decision[name].as_u64().unwrap_or(0);
    let time = |ms: u64| human(ms * 1000);
    let limit = number("limit");
    let at_least = if decision["at_least"] == true { "at least " } else { "" };
    let left = format!("{at_least}{} of {limit} remaining", number("remaining"));
    let reset = time(number("reset_after_ms"));
    if allowed {
        let delay = match number("delay_ms") {
            0 => String::new(),
            ms => format!(", to wait {}", time(ms)),
        };
        return format!("allowed: {left}, as new in {reset}{delay}");
    }
    let rule = decision["rule"].as_str().unwrap_or_default();
    match decision["retry_after_ms"].as_u64() {
        Some(ms) => format!("denied by {rule}: {left}, retry in {}", time(ms)),
        None => format!("denied by {rule}: a cost of {cost} can never fit a limit of {limit}"),
    }
}
