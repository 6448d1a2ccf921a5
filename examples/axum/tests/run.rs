//! The example runs as its readers run it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

#[test]
fn it_shows_what_it_promises() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("run.sh");
    let ran = Command::new(script).env("EXAMPLE", env!("CARGO_BIN_EXE_example-axum")).output();
    let ran = ran.unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(told.contains("\"violated-policies\":[\"reports\"]"), "{told}");
    assert!(
        told.contains("no attribute:user") && told.contains("x-ratelimit-limit: 100"),
        "{told}"
    );
}
