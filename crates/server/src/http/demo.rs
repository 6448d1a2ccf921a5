//! `/api/resource`: a route that the policy protects, to try it out.

use std::pin::pin;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tollkeeper_engine::Judgement;
use tollkeeper_tower::{HttpRequest, InFlight, releasing};

use super::check::judge;
use super::peer::{Peer, one_host};
use super::problem::Problem;
use super::{Engine, encode};
use crate::telemetry::deciding;

pub(super) async fn resource(
    State(engine): Engine,
    peer: Peer,
    request: Request,
) -> Result<Response, Problem> {
    one_host(request.headers())?;
    let encounter = {
        let policy = engine.policy();
        let (method, headers) = (request.method(), request.headers());
        let view = HttpRequest::new(method, request.uri(), headers, peer.ip(), policy.client_ip());
        engine.meet(&view)
    };
    let policy = engine.policy();
    let styles = policy.headers();
    let body = |remaining: Option<u64>| {
        Json(json!({ "message": "Here is your resource", "remaining": remaining }))
    };
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let verdict = match deciding(&engine, pin!(judge(&engine, encounter))).await? {
        Judgement::Decided(verdict) => verdict,
        Judgement::Missing { rule, part } => return Ok(encode::lacking(&rule, &part, accept)),
        _ => return Ok(body(None).into_response()),
    };
    if !verdict.allowed() {
        return Ok(encode::refusal(&verdict, styles, accept));
    }
    let decision = *verdict.decision();
    if decision.delay_us > 0 {
        // Held until its turn has come, and no longer than its client waits for that.
        let _held = InFlight::of(&engine, &verdict);
        tokio::time::sleep(Duration::from_micros(decision.delay_us)).await;
    } else if let Some(releasing) = releasing(&engine, &verdict) {
        // Whoever asks once more finds it free. Where the store is away it goes on by itself.
        let timeout = Duration::from_micros(policy.store().timeout_us);
        let _ = tokio::time::timeout(timeout, releasing).await;
    }
    let remaining = Some(decision.remaining);
    Ok((encode::headers(&verdict, styles), body(remaining)).into_response())
}
