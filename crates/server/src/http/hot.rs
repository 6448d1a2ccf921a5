//! `/debug/hot`: which keys are asked for most, now.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tollkeeper_engine::EngineError;
use tollkeeper_policy::Policy;

use super::App;
use super::debug::Query;
use super::problem::Problem;
use crate::hot::{HotKey, MAX_HOT_KEYS};
use crate::metrics::INLINE;

const DEFAULT_KEYS: usize = 20;

pub(super) async fn keys(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query, &["rule", "limit"], MAX_HOT_KEYS)?;
    let rule = query.rule.as_deref();
    rule.map(|rule| known(&app.engine.policy(), rule)).transpose()?;
    let hottest = app.metrics.hot().hottest(rule, query.limit.unwrap_or(DEFAULT_KEYS));
    let rate = |count: u64| per_second(count, hottest.window_us);
    let one = |hot: &HotKey| {
        json!({
            "rule": hot.rule,
            "key": hot.key,
            "per_second": rate(hot.most),
            "at_least_per_second": rate(hot.least),
            "denied_per_second": rate(hot.denied),
        })
    };
    let body = json!({
        "window_s": thousandths(hottest.window_us as f64 / 1e6),
        "sampled": hottest.one_of,
        "per_second": rate(hottest.total),
        "missed_per_second": rate(hottest.missed),
        "keys": hottest.keys.iter().map(one).collect::<Vec<Value>>(),
    });
    Ok(Json(body).into_response())
}

/// Whether there can be keys of such a rule. Limits that came with requests have one too.
fn known(policy: &Policy, rule: &str) -> Result<(), EngineError> {
    if rule == INLINE || policy.position(rule).is_some() {
        return Ok(());
    }
    let suggestion = policy.suggest(rule).map(str::to_owned);
    Err(EngineError::UnknownRule { name: rule.chars().take(64).collect(), suggestion })
}

fn per_second(count: u64, window_us: u64) -> f64 {
    thousandths(count as f64 * 1e6 / window_us as f64)
}

fn thousandths(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
