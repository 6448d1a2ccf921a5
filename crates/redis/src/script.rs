//! Owns [`Script`]: fixed text that the server knows by its hash.

use crate::connections::Connections;
use crate::driver::{Command, Driver, Fault, Reply};

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
    pub(crate) async fn run<D: Driver>(
        &self,
        connections: &Connections<D>,
        call: &Call,
    ) -> Result<Reply, Fault> {
        match connections.call(&command("EVALSHA", &self.sha, call)).await {
            Err(fault) if fault.says("NOSCRIPT") => {
                connections.call(&command("EVAL", self.text, call)).await
            }
            replied => replied,
        }
    }
}

fn command(name: &str, script: &str, call: &Call) -> Command {
    let mut command = Command::new(name).arg(script).arg(call.keys.len().to_string());
    call.keys.iter().chain(&call.args).for_each(|part| command.push(part));
    command
}
