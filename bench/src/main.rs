//! Tollkeeper beside its peers, in the same run: `memory`, the embedded store beside governor, or
//! `redis`, the Redis store beside plain scripts.
//!
//! The rounds of the contestants alternate, so that a slow minute of the machine hits them all; what
//! counts are the ratios within one run.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::ptr_arg,
    reason = "a benchmark reads the clock, prints, and ends when something is wrong"
)]

mod memory;
mod redis;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None | Some("memory") => memory::run(),
        Some("redis") => redis::run(),
        Some(other) => {
            eprintln!("`{other}` is no benchmark; expected memory or redis");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
