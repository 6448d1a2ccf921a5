//! One file for each command.

pub(crate) mod check;
pub(crate) mod explain;
pub(crate) mod limits;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod validate;

use std::future::Future;

use tollkeeper_core::Consistency;
use tollkeeper_policy::{Limit, Policy};

use crate::output::Failure;

/// Runs a command that waits for things.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(future)
}

/// Who decides a limit, where it is not the store each time.
fn decided_by(policy: &Policy, limit: &Limit) -> Option<String> {
    let consistency = policy.consistency_of(limit);
    (consistency != Consistency::Exact).then(|| consistency.to_string())
}
