//! `/policy/reload`: reads the policy file again.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::App;
use super::problem::Problem;
use crate::reload::{Occasion, Reloaded};

pub(super) async fn reload(State(app): State<App>) -> Result<Response, Problem> {
    let Some(reloader) = app.reloader else {
        return Err(Problem::conflict("the service runs without a policy file"));
    };
    let reloaded = tokio::task::spawn_blocking(move || reloader.reload(Occasion::Request)).await;
    match reloaded {
        Ok(Ok(Reloaded::Applied { rules })) => {
            Ok(Json(json!({ "reloaded": true, "rules": rules })).into_response())
        }
        Ok(Ok(Reloaded::Unchanged)) => Ok(Json(json!({ "reloaded": false })).into_response()),
        Ok(Err(error)) => Err(Problem::unprocessable(error)),
        Err(_) => Err(Problem::conflict("the policy could not be read")),
    }
}
