//! Installs what the tests need and the machine does not have.

use std::process::{Command, Stdio};

/// Programs that tests start, and the Debian packages that hold them.
const PROGRAMS: [(&str, &str); 1] = [("redis-server", "redis-server")];

/// Installs what is missing.
pub(crate) fn install() -> Result<(), String> {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !runs(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(", "));
    let told = format!("the tests need {}: install it and try again", missing.join(", "));
    apt(&["update", "-q"]).map_err(|error| format!("{error}; {told}"))?;
    let install =
        [&["install", "-y", "-q", "--no-install-recommends"], missing.as_slice()].concat();
    apt(&install).map_err(|error| format!("{error}; {told}"))
}

fn runs(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Runs apt-get, as root. Packages are not to start services of their own.
fn apt(args: &[&str]) -> Result<(), String> {
    let environment = ["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"];
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    if !is_root {
        command.arg("env");
    }
    let status = command.args(environment).arg("apt-get").args(args).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("apt-get {} failed: {status}", args.join(" "))),
        Err(error) => Err(format!("apt-get cannot be run: {error}")),
    }
}
