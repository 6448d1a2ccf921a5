//! `/api/resource`: a route that the policy protects, to try it out.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tollkeeper_engine::{Ask, HandleKind, Target};

use super::problem::Problem;
use super::{Engine, encode};

/// What a request to the route costs.
const COST: u64 = 1;

pub(super) async fn resource(
    State(engine): Engine,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ask = Ask { target: Target::EveryRule, key: None, cost: COST };
    let verdict = engine.check(ask).await?;
    if !verdict.allowed() {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        return Ok(encode::refusal(&verdict, accept));
    }
    let decision = verdict.decision();
    if decision.delay_us > 0 {
        tokio::time::sleep(Duration::from_micros(decision.delay_us)).await;
    }
    if let Some(permit) = verdict.handle().filter(|handle| handle.kind() == HandleKind::Permit) {
        // A permit that cannot be given back ends by itself.
        let _ = engine.release(permit).await;
    }
    let body = json!({ "message": "Here is your resource", "remaining": decision.remaining });
    Ok((encode::headers(&verdict), Json(body)).into_response())
}
