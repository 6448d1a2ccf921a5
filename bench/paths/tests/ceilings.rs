//! Holds what each path costs, in instructions, to `ceilings.txt`.
//!
//! A clock tells little on a machine that others use, too; instructions are the same each time.
//! Each path is walked a few times and many times, and the difference counts, so that what comes
//! before the first walk does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]
#![allow(clippy::cast_precision_loss, reason = "numbers of instructions are small")]

use std::process::Command;

const CEILINGS: &str = include_str!("../ceilings.txt");

const FEW: u64 = 500;
const MANY: u64 = 2_500;

/// How far above its ceiling a path may be: compilers and C libraries differ a little.
const TOLERANCE: f64 = 1.05;

#[test]
#[cfg_attr(debug_assertions, ignore = "only what is optimised is counted: --release")]
fn no_path_costs_more_than_it_did() {
    let ceilings: Vec<(&str, u64)> = CEILINGS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, ceiling)| (name, ceiling.trim().parse().unwrap()))
        .collect();
    let names: Vec<&str> = ceilings.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.join("\n"), paths(), "each path has a ceiling, in this order");
    let mut told = String::new();
    let mut above = false;
    for (name, ceiling) in ceilings {
        let cost = (walked(name, MANY) - walked(name, FEW)) as f64 / (MANY - FEW) as f64;
        above |= cost > ceiling as f64 * TOLERANCE;
        told += &format!("{name:<24}{cost:>8.0} of {ceiling}\n");
    }
    println!("{told}");
    assert!(!above, "instructions:\n{told}make it cheaper, or raise ceilings.txt and say why");
}

/// The names of all paths.
fn paths() -> String {
    let listed = Command::new(env!("CARGO_BIN_EXE_tollkeeper-paths")).arg("list").output().unwrap();
    String::from_utf8(listed.stdout).unwrap().trim_end().to_owned()
}

/// The instructions of a process that walks a path so many times.
fn walked(name: &str, times: u64) -> u64 {
    let counted = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*tollkeeper_paths*walked*")
        .arg(env!("CARGO_BIN_EXE_tollkeeper-paths"))
        .args([name, &times.to_string()])
        .output()
        .unwrap_or_else(|error| panic!("valgrind: {error}; run `cargo xtask needs`"));
    let said = String::from_utf8_lossy(&counted.stderr).into_owned();
    assert!(counted.status.success(), "{said}");
    let (_, number) = said.split_once("Collected : ").unwrap_or_else(|| panic!("{said}"));
    number.lines().next().unwrap().trim().parse().unwrap()
}
