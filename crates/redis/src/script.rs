//! Owns [`Script`]: fixed text that the server knows by its hash.

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, ServerErrorKind};

/// What every script begins with: the prelude and the algorithms.
macro_rules! with_algorithms {
    ($main:literal) => {
        concat!(
            include_str!("lua/prelude.lua"),
            include_str!("lua/debt.lua"),
            include_str!("lua/token_bucket.lua"),
            include_str!("lua/gcra.lua"),
            include_str!("lua/leaking_bucket.lua"),
            include_str!("lua/fixed_window.lua"),
            include_str!("lua/sliding_window_log.lua"),
            include_str!("lua/sliding_window_counter.lua"),
            include_str!("lua/concurrency.lua"),
            include_str!($main),
        )
    };
}

/// Decides one request.
pub(crate) const DECIDE: &str = with_algorithms!("lua/decide.lua");

/// Changes one state after the decision.
pub(crate) const AMEND: &str = with_algorithms!("lua/amend.lua");

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    sha: String,
}

/// What a script is called with.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<String>,
}

impl Script {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { text, sha: sha1_smol::Sha1::from(text).digest().to_string() }
    }

    /// Runs it by its hash; by its text if the server has forgotten it, which means that it did
    /// not run.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
        call: &Call,
    ) -> RedisResult<T> {
        match command("EVALSHA", &self.sha, call).query_async(connection).await {
            Err(error) if is_forgotten(&error) => {
                command("EVAL", self.text, call).query_async(connection).await
            }
            answered => answered,
        }
    }
}

fn is_forgotten(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn command(name: &str, script: &str, call: &Call) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(call.keys.len()).arg(&call.keys).arg(&call.args);
    command
}
