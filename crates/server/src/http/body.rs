//! Reads a body: bounded in size and in time, as a JSON object.

use std::time::Duration;

use axum::body::Body;
use axum::body::HttpBody;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::fields::Fields;
use super::problem::Problem;

/// The largest body of a single call.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// The largest body of a batch.
pub(crate) const MAX_BATCH_BODY: usize = 4 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away, so that the caller, who is still
/// sending, hears the answer instead of a broken connection.
const MAX_DISCARDED: usize = 256 * 1024 * 1024;

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// The object in a body of at most `most` bytes.
pub(crate) async fn object(body: Body, most: usize) -> Result<Fields, Problem> {
    let bytes = timeout(PATIENCE, read(body, most)).await.map_err(|_| Problem::timeout())??;
    if bytes.is_empty() {
        return Err(Problem::bad_request("the body is empty; expected a JSON object"));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let told = if error.is_data() { "cannot be used" } else { "is not valid JSON" };
        Problem::bad_request(format!("the body {told}: {error}"))
    })
}

async fn read(mut body: Body, most: usize) -> Result<Vec<u8>, Problem> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > MAX_DISCARDED {
        return Err(Problem::too_large(most));
    }
    let mut bytes = Vec::new();
    let mut arrived = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad_request("the body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        arrived += data.len();
        if arrived <= most {
            bytes.extend_from_slice(&data);
        } else if arrived > MAX_DISCARDED {
            break;
        }
    }
    if arrived > most { Err(Problem::too_large(most)) } else { Ok(bytes) }
}
