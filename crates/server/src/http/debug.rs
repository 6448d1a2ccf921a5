//! `/debug/state` and `/debug/reset`: what is stored, decoded, and how to forget it.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tollkeeper_core::{Consistency, Entry, Field, Quota, Store, describe, describe_raw};
use tollkeeper_policy::{Policy, StoreUrl};

use super::Engine;
use super::problem::{Problem, echo};
use crate::metrics::INLINE;
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
        for (nth, (name, value)) in pairs.iter().enumerate() {
            if pairs[..nth].iter().any(|(before, _)| before == name) {
                return Err(twice(name));
            }
            match name.as_str() {
                unknown if !known.contains(&unknown) => return Err(stranger(unknown, known)),
                "rule" => parsed.rule = Some(value.clone()),
                "key" => parsed.key = Some(value.clone()),
                _ => {
                    let expected = format!("a whole number from 1 to {most}");
                    let number = value.parse().ok().filter(|n| (1..=most).contains(n));
                    let number = number.ok_or_else(|| Problem::field("limit", value, &expected));
                    parsed.limit = Some(number?);
                }
            }
        }
        Ok(parsed)
    }
}

/// One of them would be meant, and nobody can say which.
fn twice(name: &str) -> Problem {
    Problem::bad_request(format!("the parameter {} is there more than once", echo(name)))
}

/// The rule that is meant, if one is. `/debug/hot` knows limits that came with requests by a name,
/// which no rule can have.
fn rule(query: &Query) -> Result<Option<&str>, Problem> {
    match query.rule.as_deref() {
        Some(INLINE) => Err(Problem::field(
            "rule",
            INLINE,
            "the name of a rule; limits that came with requests are found by `key` alone",
        )),
        rule => Ok(rule),
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
    let policy = engine.policy();
    let entries = engine.inspect(rule(&query)?, query.key.as_deref(), most).await?;
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
    let forgotten = engine.reset(rule(&query)?, query.key.as_deref()).await?;
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
    if entry.lent > 0 {
        shown.insert("leased".into(), entry.lent.into());
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollkeeper_engine::{Ask, Target};

    use super::*;

    fn told(problem: &Problem) -> String {
        problem.to_json()["detail"].as_str().unwrap().to_owned()
    }

    /// The last was taken: `reset?key=a&key=b` forgot another than whoever wrote the first meant.
    #[test]
    fn a_parameter_that_comes_twice_is_named() {
        let parse =
            |query: &str| Query::parse(Some(query.to_owned()), &["rule", "key", "limit"], 9);
        for (query, name) in [
            ("key=a&key=b", "key"),
            ("key=a&key=a", "key"),
            ("rule=a&key=k&rule=b", "rule"),
            ("limit=1&limit=2", "limit"),
            ("key=a&ke%79=b", "key"),
        ] {
            let problem = parse(query).unwrap_err();
            let expected = format!("the parameter `{name}` is there more than once");
            assert_eq!(told(&problem), expected, "{query}");
        }
        let one = parse("rule=a&key=b&limit=3").unwrap();
        assert_eq!(
            (one.rule.as_deref(), one.key.as_deref(), one.limit),
            (Some("a"), Some("b"), Some(3))
        );
    }

    #[tokio::test]
    async fn limits_that_came_with_requests_are_found_by_key_alone() {
        let policy = Policy::parse("rules: { r: { limit: 1/s } }", &|_| None).unwrap();
        let engine = crate::wire::app(policy).unwrap().engine;
        let target = Target::Inline { limit: "5/h", algorithm: None };
        engine.check(Ask { target, key: Some("alice"), cost: 1 }).await.unwrap();
        let query = |text: &str| RawQuery(Some(text.to_owned()));
        let expected = "`rule` is `inline`; expected the name of a rule; \
                        limits that came with requests are found by `key` alone";
        let asked = state(State(Arc::clone(&engine)), query("rule=inline&key=alice")).await;
        assert_eq!(told(&asked.unwrap_err()), expected);
        let asked = reset(State(Arc::clone(&engine)), query("rule=inline")).await;
        assert_eq!(told(&asked.unwrap_err()), expected);
        // And so they are.
        assert_eq!(engine.inspect(None, Some("alice"), 9).await.unwrap().len(), 1);
        assert!(reset(State(Arc::clone(&engine)), query("key=alice")).await.is_ok());
        assert!(engine.inspect(None, Some("alice"), 9).await.unwrap().is_empty());
    }
}
