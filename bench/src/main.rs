//! Tollkeeper beside its peers, in the same run: `memory`, the embedded store beside governor and
//! throttlecrab, `redis`, the Redis store beside plain scripts, `fleet`, processes that decide a
//! shared limit by themselves beside those that ask, or `http`, the service and the middleware beside
//! bare hyper, bare axum and those of others. Without an argument all of them, which
//! `docs/benchmarks.md` then tells.
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
mod fleet;
mod http;
mod memory;
mod progress;
mod redis;
mod report;
mod spread;
mod table;

use std::process::ExitCode;

use table::Table;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None | Some("all") => {
            if !report::all() {
                return ExitCode::FAILURE;
            }
        }
        Some("memory") => print(memory::run()),
        Some("redis") => print(redis::run()),
        Some("fleet") => print(fleet::run()),
        Some("http") => print(http::run()),
        // What the benchmark of fleets starts as a process of its own.
        Some(fleet::NODE) => fleet::serve(),
        // What the benchmark of HTTP starts as a process of its own.
        Some(http::BARE) => http::serve_bare(),
        Some(http::SERVICE) => http::serve_service(),
        Some(other) => {
            eprintln!("`{other}` is no benchmark; expected all, memory, redis, fleet or http");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn print(tables: Vec<Table>) {
    tables.iter().for_each(|table| print!("{table}"));
}
