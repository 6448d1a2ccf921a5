//! Runs every benchmark, each in a process of its own, and writes what they print to
//! `docs/benchmarks.md`, with the machine and the versions.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The benchmarks, and what each is about.
pub(crate) const BENCHMARKS: [(&str, &str); 4] = [
    ("memory", "In process"),
    ("redis", "On Redis"),
    ("fleet", "Several processes, one limit"),
    ("http", "Over HTTP, and as middleware"),
];

/// The crates whose versions are told.
const CRATES: [&str; 6] = ["governor", "throttlecrab", "tower_governor", "hyper", "axum", "redis"];

/// The programs whose versions are told, and how they are asked.
const PROGRAMS: [(&str, &[&str]); 3] =
    [("rustc", &["--version"]), ("redis-server", &["--version"]), ("/usr/sbin/nginx", &["-v"])];

const HEAD: &str = "\
# Benchmarks

Written by `cargo run --release -p tollkeeper-bench`, which takes about twenty minutes; `-- memory`, \
`-- redis`, `-- fleet` and `-- http` print one part. Peers that can be installed by their name run beside Tollkeeper, \
in turns, in the same run: on a shared machine only such ratios mean anything. Where brackets stand a number is the \
median of the rounds, and in them are the least and the most; without them it is of one run. Tollkeeper speaks no gRPC and \
no RESP yet, so there is no table of those.
";

/// Runs everything and writes the page; whether everything ran. A part of it is not worth a page.
pub(crate) fn all() -> bool {
    let mut page = format!("{HEAD}\n{}", circumstances());
    let path = root().join("docs/benchmarks.md");
    for (name, about) in BENCHMARKS {
        println!("## {about}\n");
        let Some(text) = run(name) else {
            eprintln!("`{name}` did not run to its end; {} stays as it was", path.display());
            return false;
        };
        page += &format!("\n## {about}\n\n{}\n", as_markdown(&text));
    }
    match fs::write(&path, page) {
        Ok(()) => println!("written to {}", path.display()),
        Err(error) => eprintln!("{}: {error}", path.display()),
    }
    true
}

/// Runs one benchmark and passes on what it prints.
fn run(name: &str) -> Option<String> {
    let mut child = Command::new(std::env::current_exe().ok()?)
        .arg(name)
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take()?).lines().map_while(Result::ok) {
        println!("{line}");
        text += &line;
        text += "\n";
    }
    child.wait().is_ok_and(|status| status.success()).then_some(text)
}

/// Tables as they are; what is set in columns keeps them.
fn as_markdown(text: &str) -> String {
    let mut parts = Vec::new();
    let mut plain: Vec<&str> = Vec::new();
    let mut markdown = false;
    let fence = |lines: &[&str]| {
        let text = lines.join("\n");
        let text = text.trim_matches('\n');
        (!text.is_empty()).then(|| format!("```text\n{text}\n```\n"))
    };
    for line in text.lines() {
        if line.starts_with("### ") {
            markdown = true;
            parts.extend(fence(&std::mem::take(&mut plain)));
        }
        match markdown {
            true => parts.push(line.to_owned()),
            false => plain.push(line),
        }
    }
    parts.extend(fence(&plain));
    parts.join("\n").trim_end().to_owned()
}

/// The machine and the versions.
fn circumstances() -> String {
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let versions: Vec<String> = PROGRAMS.into_iter().filter_map(program_version).collect();
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap_or_default();
    let crates = CRATES.map(|name| format!("{name} {}", crate_version(&lock, name)));
    format!(
        "Machine: {cores} cores of {model}, Linux {}, which also makes the load.\\\nPrograms: {}.\\\nCrates: {}.\n",
        kernel.trim(),
        versions.join(", "),
        crates.join(", "),
    )
}

/// The first value of a field in a file of `name : value` lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// A program's own word on its version: the first of it that looks like one.
fn program_version((program, args): (&str, &[&str])) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let version = said.split([' ', '=', '/', '\n']).find(is_version)?.to_owned();
    let name = Path::new(program).file_name()?.to_string_lossy().into_owned();
    Some(format!("{name} {version}"))
}

/// The version of a crate in the lock file.
fn crate_version<'l>(lock: &'l str, name: &str) -> &'l str {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let found = lock.split_once(entry.as_str()).and_then(|(_, rest)| rest.split_once('"'));
    found.map_or("?", |(version, _)| version)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stay_and_columns_are_fenced() {
        let text = "a   b\n1   2\n\n### T\n\n| x |\n";
        assert_eq!(as_markdown(text), "```text\na   b\n1   2\n```\n\n### T\n\n| x |");
        assert_eq!(as_markdown("### T\n"), "### T");
    }

    #[test]
    fn versions_are_found() {
        let lock = "[[package]]\nname = \"hyper\"\nversion = \"1.2.3\"\n";
        assert_eq!((crate_version(lock, "hyper"), crate_version(lock, "axum")), ("1.2.3", "?"));
        assert!(program_version(("rustc", &["--version"])).unwrap().starts_with("rustc 1."));
    }
}
