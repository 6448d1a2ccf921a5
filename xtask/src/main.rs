//! Chores of the workspace: `cargo xtask test` runs everything that must hold, `cargo xtask tidy`
//! the rules of the house alone, and `cargo xtask needs` installs what the tests need.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that talks")]
#![allow(clippy::disallowed_methods, reason = "it tells how long each step took")]

mod needs;
mod tidy;

use std::process::{Command, ExitCode};
use std::time::Instant;

const LINT: &[&str] = &[
    "clippy",
    "--workspace",
    "--all-targets",
    "--features",
    "tollkeeper/axum",
    "--quiet",
    "--",
    "-D",
    "warnings",
];

/// Everything without what can be left out, beside the same dependencies as above: those of the
/// program alone would be checked anew.
const WITHOUT_TRACES: &[&str] = &[
    "check",
    "--workspace",
    "--all-targets",
    "--no-default-features",
    "--features",
    "tollkeeper/axum,tollkeeper/redis",
    "--quiet",
];

/// What `test` runs, the quick first.
const STEPS: [(&str, &[&str]); 7] = [
    ("format", &["fmt", "--all", "--check"]),
    ("lint", LINT),
    ("features", &["check", "-p", "tollkeeper", "--no-default-features", "--quiet"]),
    ("without traces", WITHOUT_TRACES),
    ("test", &["test", "--workspace", "--features", "tollkeeper/axum", "--quiet"]),
    ("ceilings", &["test", "--release", "-p", "tollkeeper-paths", "--quiet"]),
    ("document", &["doc", "--workspace", "--no-deps", "--quiet"]),
];

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("test") => test(),
        Some("tidy") => tidy::run(),
        Some("needs") => needs::install(),
        _ => Err("usage: cargo xtask test | tidy | needs".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Result<(), String> {
    let started = Instant::now();
    println!("== tidy");
    tidy::run()?;
    println!("== needs");
    needs::install()?;
    for (name, args) in STEPS {
        let begun = Instant::now();
        println!("== {name}: cargo {}", args.join(" "));
        let status = Command::new(env!("CARGO"))
            .args(args)
            .env("RUSTDOCFLAGS", "-D warnings")
            .status()
            .map_err(|error| format!("cargo {name}: {error}"))?;
        if !status.success() {
            return Err(format!("{name} failed"));
        }
        println!("== {name} took {} s", begun.elapsed().as_secs());
    }
    println!("== everything holds, after {} s", started.elapsed().as_secs());
    Ok(())
}
