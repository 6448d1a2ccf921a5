//! The command `tollkeeper`.
//!
//! Exit code 0; 1 when a check was denied or failed; 2 for anything that prevented an answer.

mod args;
mod client;
mod command;
mod config;
mod output;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use output::Failure;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        Command::Serve(args) => command::serve::run(&args),
        Command::Check(args) => command::check::run(&args),
        Command::Explain(args) => command::explain::run(&args),
        Command::Limits(args) => command::limits::run(&args),
        Command::Validate(args) => command::validate::run(&args),
        Command::Simulate(args) => command::simulate::run(&args),
        Command::Schema => command::schema::run(),
    };
    match done {
        Ok(code) => code,
        // Whoever read our output has had enough.
        Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(Failure::Told(message)) => {
            output::complain(&message);
            ExitCode::from(2)
        }
    }
}
