//! Owns [`FakeTime`]: the wall clock of one server, which a test moves while the server runs.
//!
//! libfaketime stands between the server and the system's clock and reads an offset from a file
//! at each reading. Only the wall clock is moved: with the monotonic one the server's timers would
//! stand still after a step back. jemalloc reads the clock while libfaketime is not ready for it,
//! so the C library's own allocator is put before it.

use std::path::PathBuf;
use std::process::Command;

use crate::folder::Folder;

/// The dynamic linker fills in `$LIB`.
const PRELOAD: &str = "/usr/$LIB/faketime/libfaketimeMT.so.1 libc.so.6";
const OFFSET_FILE: &str = "time-offset";

/// The clock of a server, moved away from the real time by an offset.
#[derive(Debug)]
pub(super) struct FakeTime {
    file: PathBuf,
}

impl FakeTime {
    /// A clock that shows the real time.
    pub(super) fn new(folder: &Folder) -> Result<Self, String> {
        Ok(Self { file: write(folder, 0)? })
    }

    /// Puts `command` under this clock.
    pub(super) fn apply(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", PRELOAD)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// Moves the clock to `offset_us` from the real time.
    pub(super) fn set(&self, folder: &Folder, offset_us: i64) -> Result<(), String> {
        write(folder, offset_us).map(|_| ())
    }
}

fn write(folder: &Folder, offset_us: i64) -> Result<PathBuf, String> {
    let sign = if offset_us < 0 { '-' } else { '+' };
    let us = offset_us.unsigned_abs();
    folder.write(OFFSET_FILE, format!("{sign}{}.{:06}\n", us / 1_000_000, us % 1_000_000))
}
