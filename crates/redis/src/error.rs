//! What a failed call means: whether it can have run.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollkeeper_core::StoreError;

/// Tells a driver's error apart by whether the call can have changed anything.
pub(crate) fn store_error(error: &RedisError) -> StoreError {
    if surely_did_not_run(error) {
        StoreError::did_not_run(error.to_string())
    } else {
        StoreError::may_have_run(error.to_string())
    }
}

/// The server refused the call before it began, or nothing was ever sent.
fn surely_did_not_run(error: &RedisError) -> bool {
    let refused_by_code = matches!(
        error.code(),
        Some(
            "LOADING"
                | "READONLY"
                | "NOAUTH"
                | "NOPERM"
                | "OOM"
                | "MASTERDOWN"
                | "MISCONF"
                | "WRONGTYPE"
        )
    );
    let refused = matches!(
        error.kind(),
        ErrorKind::AuthenticationFailed
            | ErrorKind::InvalidClientConfig
            | ErrorKind::Server(
                ServerErrorKind::NoScript
                    | ServerErrorKind::Moved
                    | ServerErrorKind::Ask
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::BusyLoading
                    | ServerErrorKind::ReadOnly
            )
    );
    refused || refused_by_code || error.is_connection_refusal()
}
