//! Waits for large pages. The system gives them in its own time, which is some megabytes in ten seconds: what is
//! measured is a table as it is after the first minutes of a process.

use std::fs;
use std::thread;
use std::time::Duration;

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// How often the system looks, and how often we look at most.
const PAUSE: Duration = Duration::from_secs(10);
const MOST: usize = 30;

/// How often it must have come to the end of all memory: once it may be in the middle of it.
const SCANS: u64 = 2;

pub(super) fn wait() {
    let is_off =
        fs::read_to_string(format!("{FOLDER}/enabled")).is_ok_and(|it| it.contains("[never]"));
    let Some(before) = scans().filter(|_| !is_off) else { return };
    for _ in 0..MOST {
        if scans().is_none_or(|now| now >= before + SCANS) {
            break;
        }
        thread::sleep(PAUSE);
    }
}

/// How often the system has looked through all memory; `None` where nobody does.
fn scans() -> Option<u64> {
    fs::read_to_string(format!("{FOLDER}/khugepaged/full_scans")).ok()?.trim().parse().ok()
}
