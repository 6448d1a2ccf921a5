//! The examples run as their readers run them.

use std::path::Path;
use std::process::Command;

use crate::kit::text;

#[test]
fn two_servers() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/two-servers/run.sh");
    let ran = Command::new(script).env("TOLLKEEPER", env!("CARGO_BIN_EXE_tollkeeper")).output();
    let ran = ran.unwrap();
    let told = text(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", text(&ran.stderr));
    let parts: Vec<&str> = told.split(":\n").collect();
    let [_, shared, alone, back] = parts.as_slice() else { panic!("{told}") };
    let count = |part: &str, what: &str| part.matches(what).count();
    assert!(count(shared, "by the store") >= 10 && count(shared, "denied") >= 2, "{told}");
    assert!(count(alone, "by the fallback") == 14 && count(alone, "allowed") <= 10, "{told}");
    assert!(count(back, "by the store") >= 1, "{told}");
}
