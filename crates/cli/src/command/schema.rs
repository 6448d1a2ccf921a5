//! `tollkeeper schema`

use std::process::ExitCode;

use crate::output::{Failure, say};

pub(crate) fn run() -> Result<ExitCode, Failure> {
    say(tollkeeper_policy::schema().trim_end())?;
    Ok(ExitCode::SUCCESS)
}
