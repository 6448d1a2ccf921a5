//! The processor time that a process has used, in user and in kernel mode.

use std::fs;

/// Of all threads of a process together, in microseconds. Linux counts it in `schedstat` to the
/// nanosecond; `utime` and `stime` are the same in hundredths of a second.
pub(crate) fn used_us(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let used_ns = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    threads.flatten().filter_map(used_ns).sum::<f64>() / 1000.0
}
