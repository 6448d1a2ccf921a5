//! `/v1/refund`, `/v1/settle`, `/v1/cancel`, `/v1/release` and `/v1/renew`: after the decision.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tollkeeper_core::Amended;
use tollkeeper_engine::Handle;

use super::Engine;
use super::body::{MAX_BODY, whole};
use super::check::{Asked, FIELDS};
use super::fields::Fields;
use super::problem::Problem;

pub(super) async fn refund(State(engine): Engine, body: Body) -> Result<Response, Problem> {
    let body = whole(body, MAX_BODY).await?;
    let mut fields = Fields::read(&body)?;
    let asked = Asked::take(&mut fields)?;
    let charged_at_us = fields.whole("charged_at_us")?;
    fields.finish(&[&FIELDS, &["charged_at_us"]])?;
    Ok(told(engine.refund(asked.ask(), charged_at_us).await?))
}

pub(super) async fn settle(State(engine): Engine, body: Body) -> Result<Response, Problem> {
    let body = whole(body, MAX_BODY).await?;
    let mut fields = Fields::read(&body)?;
    let handle = handle(&mut fields, "reservation")?;
    let actual = fields.whole("actual")?;
    fields.finish(&[&["reservation", "actual"]])?;
    let actual = actual.ok_or_else(|| Problem::missing("actual", "what it really cost"))?;
    Ok(told(engine.settle(&handle, actual).await?))
}

pub(super) async fn cancel(State(engine): Engine, body: Body) -> Result<Response, Problem> {
    let handle = only_handle(body, "reservation").await?;
    Ok(told(engine.settle(&handle, 0).await?))
}

pub(super) async fn release(State(engine): Engine, body: Body) -> Result<Response, Problem> {
    let handle = only_handle(body, "permit").await?;
    Ok(told(engine.release(&handle).await?))
}

pub(super) async fn renew(State(engine): Engine, body: Body) -> Result<Response, Problem> {
    let handle = only_handle(body, "permit").await?;
    Ok(told(engine.renew(&handle).await?))
}

async fn only_handle(body: Body, name: &'static str) -> Result<Handle, Problem> {
    let body = whole(body, MAX_BODY).await?;
    let mut fields = Fields::read(&body)?;
    let handle = handle(&mut fields, name)?;
    fields.finish(&[&[name]])?;
    Ok(handle)
}

fn handle(fields: &mut Fields<'_>, name: &str) -> Result<Handle, Problem> {
    let expected = format!("the `{name}` of an earlier answer");
    let text = fields.text(name)?.ok_or_else(|| Problem::missing(name, &expected))?;
    text.parse().map_err(|_| Problem::field(name, &text, &expected))
}

/// It never fails: what was done before, or is past its life, is told so.
fn told(amended: Amended) -> Response {
    let (result, forgiven, message) = match amended {
        Amended::Done { forgiven } => ("done", forgiven, "it took effect"),
        Amended::Repeated => ("repeated", 0, "it had taken effect before; nothing changed"),
        _ => ("unknown", 0, "there is nothing of that name, or no longer; nothing changed"),
    };
    Json(json!({ "result": result, "forgiven": forgiven, "message": message })).into_response()
}
