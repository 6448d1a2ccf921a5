//! Tollkeeper beside its peers, in the same run: `memory`, the embedded store beside governor,
//! `redis`, the Redis store beside plain scripts, or `http`, the service and the middleware beside
//! bare hyper and bare axum.
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

mod cpu;
mod http;
mod memory;
mod progress;
mod redis;
mod spread;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None | Some("memory") => memory::run(),
        Some("redis") => redis::run(),
        Some("http") => http::run(),
        // What the benchmark of HTTP starts as a process of its own.
        Some(http::BARE) => http::serve_bare(),
        Some(http::SERVICE) => http::serve_service(),
        Some(other) => {
            eprintln!("`{other}` is no benchmark; expected memory, redis or http");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
