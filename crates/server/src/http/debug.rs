//! `/debug/state` and `/debug/reset`: what is stored, decoded, and how to forget it.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tollkeeper_core::{Consistency, Entry, Field, Quota, Store, describe, describe_raw};
use tollkeeper_policy::{Policy, StoreUrl};

use super::Engine;
use super::problem::{Problem, echo};
use crate::wire::AppEngine;

const DEFAULT_STATES: usize = 100;
const MAX_STATES: usize = 10_000;

/// The states that are meant.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) rule: Option<String>,
    pub(super) key: Option<String>,
    pub(super) limit: Option<usize>,
}

impl Query {
    /// Reads those parameters that are `known`; a limit is at most `most`.
    pub(super) fn parse(
        query: Option<String>,
        known: &[&str],
        most: usize,
    ) -> Result<Self, Problem> {
        let pairs: Vec<(String, String)> = decode(query.as_deref().unwrap_or_default())?;
        let mut parsed = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                unknown if !known.contains(&unknown) => return Err(stranger(unknown, known)),
                "rule" => parsed.rule = Some(value),
                "key" => parsed.key = Some(value),
                _ => {
                    let expected = format!("a whole number from 1 to {most}");
                    let number = value.parse().ok().filter(|n| (1..=most).contains(n));
                    let number = number.ok_or_else(|| Problem::field("limit", &value, &expected));
                    parsed.limit = Some(number?);
                }
            }
        }
        Ok(parsed)
    }
}

fn stranger(name: &str, known: &[&str]) -> Problem {
    let known = known.join("`, `");
    Problem::bad_request(format!("unknown parameter {}; expected `{known}`", echo(name)))
}

/// Decodes a query string.
fn decode(query: &str) -> Result<Vec<(String, String)>, Problem> {
    axum::extract::Query::<Vec<(String, String)>>::try_from_uri(
        &format!("/?{query}")
            .parse()
            .map_err(|_| Problem::bad_request("the query is not valid"))?,
    )
    .map(|axum::extract::Query(pairs)| pairs)
    .map_err(|error| Problem::bad_request(format!("the query is not valid: {error}")))
}

pub(super) async fn state(
    State(engine): Engine,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query, &["rule", "key", "limit"], MAX_STATES)?;
    let most = query.limit.unwrap_or(DEFAULT_STATES);
    let entries = engine.inspect(query.rule.as_deref(), query.key.as_deref(), most).await?;
    let policy = engine.policy();
    let named = |rule: &str| query.rule.as_deref().is_none_or(|wanted| wanted == rule);
    let store = engine.store().kind();
    let mut shown = Map::new();
    for rule in policy.rules().iter().filter(|rule| named(rule.name())) {
        shown.insert(rule.name().to_owned(), empty(store, rule.algorithm().name()));
    }
    for entry in &entries {
        let rule = entry.limit.split('/').next().unwrap_or_default();
        let algorithm = entry.algorithm.name();
        let group = shown.entry(rule).or_insert_with(|| empty(store, algorithm));
        if group["algorithm"] != algorithm {
            // Limits that came with requests need not be of one kind.
            group["algorithm"] = Value::Null;
        }
        if let Some(keys) = group.get_mut("keys").and_then(Value::as_object_mut) {
            let name = engine.store().name_of(entry);
            keys.insert(name, one_state(counted_by(&engine, &policy, &entry.limit), entry));
        }
    }
    let body = match shown.len() {
        1 => shown.into_iter().next().map(|(_, only)| only).unwrap_or_default(),
        _ => json!({ "rules": shown }),
    };
    Ok(Json(body).into_response())
}

pub(super) async fn reset(
    State(engine): Engine,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query, &["rule", "key"], MAX_STATES)?;
    let forgotten = engine.reset(query.rule.as_deref(), query.key.as_deref()).await?;
    Ok(Json(json!({ "reset": forgotten })).into_response())
}

fn empty(store: &str, algorithm: &str) -> Value {
    json!({ "algorithm": algorithm, "store": store, "keys": {} })
}

/// What the states of a limit are counted by: of one that processes decide, what the store gives away,
/// a part of a key that is split, or the part of this process.
fn counted_by(engine: &AppEngine, policy: &Policy, limit: &str) -> Option<Quota> {
    let limit = policy.limit(limit)?;
    let (store, quota) = (engine.store(), limit.quota());
    Some(match limit.consistency() {
        _ if policy.store().url == StoreUrl::Memory => *quota,
        Consistency::Share { nodes } => {
            quota.share(nodes.map(u64::from).or_else(|| store.nodes()).unwrap_or(1))
        }
        how => how.stored(quota),
    })
}

fn one_state(quota: Option<Quota>, entry: &Entry) -> Value {
    // A rule that has changed its algorithm has left states of the old one.
    let quota = quota.filter(|quota| quota.algorithm() == entry.algorithm);
    let mut shown = fields(describe(quota.as_ref(), &entry.state));
    shown.insert("ttl_ms".into(), entry.ttl_us.div_ceil(1000).into());
    shown.insert("raw".into(), fields(describe_raw(&entry.state)).into());
    Value::Object(shown)
}

fn fields(fields_of: Vec<(&'static str, Field)>) -> Map<String, Value> {
    fields_of.into_iter().map(|(name, field)| (name.to_owned(), value(field))).collect()
}

fn value(field: Field) -> Value {
    match field {
        Field::Whole(number) => number.into(),
        Field::Text(text) => text.into(),
        Field::List(list) => list.into_iter().map(|item| Value::Object(fields(item))).collect(),
        _ => Value::Null,
    }
}
