//! Holds what each path costs, in instructions, to `ceilings.txt`.
//!
//! A clock tells little on a machine that others use, too; instructions are the same each time.
//! Each path is walked a few times and many times, and the difference counts, so that what comes
//! before the first walk does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]

use std::process::Command;

const CEILINGS: &str = include_str!("../ceilings.txt");

const FEW: u64 = 500;
const MANY: u64 = 2_500;

/// Where a path may lie, in hundredths of its ceiling: compilers and C libraries differ a little. One that costs far
/// less is held to a ceiling that holds nothing any more, or is not walked at all.
const MOST: u64 = 105;
const LEAST: u64 = 70;

/// What is wrong with a path that took so many instructions for so many walks, if anything is.
fn wrong(instructions: u64, walks: u64, ceiling: u64) -> Option<&'static str> {
    let (hundredths, ceiling) = (instructions * 100, ceiling * walks);
    match () {
        () if hundredths > ceiling * MOST => {
            Some("make it cheaper, or raise its number and say why")
        }
        () if instructions < walks => Some("it was not walked, or not counted"),
        () if hundredths < ceiling * LEAST => Some("it got cheaper: lower its number"),
        () => None,
    }
}

#[test]
fn a_path_is_held_from_above_and_from_below() {
    let wrong = |cost: u64| wrong(cost * 2_000, 2_000, 1_000);
    assert_eq!([700, 999, 1_000, 1_050].map(wrong), [None; 4]);
    assert!(wrong(1_051).unwrap().contains("cheaper, or raise"));
    assert!(wrong(699).unwrap().contains("lower its number"));
    // It was taken for one that is very cheap.
    assert!(wrong(0).unwrap().contains("not walked"));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "only what is optimised is counted: --release")]
fn each_path_costs_what_it_did() {
    let ceilings: Vec<(&str, u64)> = CEILINGS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, ceiling)| (name, ceiling.trim().parse().unwrap()))
        .collect();
    let names: Vec<&str> = ceilings.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.join("\n"), paths(), "each path has a ceiling, in this order");
    let mut told = String::new();
    let mut all_is_well = true;
    for (name, ceiling) in ceilings {
        let walks = MANY - FEW;
        let instructions = walked(name, MANY).saturating_sub(walked(name, FEW));
        let wrong = wrong(instructions, walks, ceiling);
        all_is_well &= wrong.is_none();
        let cost = instructions / walks;
        told += &format!("{name:<24}{cost:>8} of {ceiling:<8}{}\n", wrong.unwrap_or_default());
    }
    println!("{told}");
    assert!(all_is_well, "instructions, and what ceilings.txt says:\n{told}");
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
