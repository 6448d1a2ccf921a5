//! What the system says of the service's process.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::kit::Service;

impl Service {
    /// Starts it where it can have so many open files and no more.
    pub(crate) fn start_limited(name: &str, policy: &str, files: usize) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &files.to_string()]);
        command.arg(env!("CARGO_BIN_EXE_tollkeeper")).stdin(Stdio::null());
        Self::start_by(command, name, policy, &[])
    }

    /// The memory that it has now, and the most that it ever had.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
            kilobytes * 1024
        };
        (bytes("VmRSS:"), bytes("VmHWM:"))
    }

    /// The files that it has open, connections among them.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }
}

/// Lets this process, and those that it starts, have as many open files as the system allows.
/// Returns how many that is.
pub(crate) fn raise_open_files() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    }
    maximum.map_or(usize::MAX, |maximum| usize::try_from(maximum).unwrap())
}
