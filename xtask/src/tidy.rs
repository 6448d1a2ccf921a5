//! The rules of the house that no compiler checks.

use std::fs;
use std::path::{Path, PathBuf};

/// Which crates of ours a crate may depend on. A new edge is a decision, made here.
const EDGES: [(&str, &[&str]); 18] = [
    ("core", &[]),
    ("memory", &["core"]),
    ("redis", &["core"]),
    ("policy", &["core"]),
    ("hybrid", &["core", "memory"]),
    ("engine", &["core", "policy"]),
    ("tower", &["core", "engine", "policy"]),
    ("stores", &["core", "engine", "hybrid", "memory", "policy", "redis"]),
    ("server", &["core", "engine", "memory", "policy", "stores", "tower"]),
    ("cli", &["core", "engine", "memory", "policy", "server", "stores"]),
    ("tollkeeper", &["core", "engine", "memory", "policy", "stores", "tower"]),
    ("testkit", &["core"]),
    ("hostile", &["policy", "server", "tower"]),
    ("fuzz", &["hostile"]),
    ("bench", &["core", "engine", "memory", "policy", "redis", "server", "stores", "testkit"]),
    ("paths", &["core", "engine", "memory", "policy", "tower"]),
    ("xtask", &[]),
    // An example, which uses the facade as anybody does.
    ("axum", &[]),
];

/// The one file that may use what the compiler cannot check.
const UNSAFE: &str = "crates/memory/src/arena/large_pages.rs";

/// Longer files hold a second idea.
const MAX_LINES: usize = 450;

/// Checks every rule; the error lists what breaks one.
pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut problems = Vec::new();
    for folder in ["crates", "bench", "examples", "fuzz", "xtask"] {
        for file in files(&root.join(folder)) {
            let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
            let text = fs::read_to_string(&file).unwrap_or_default();
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => check_source(&name, &text, &mut problems),
                Some("toml") => check_manifest(&name, &text, &mut problems),
                _ => {}
            }
        }
    }
    check_lints(&root, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn check_source(name: &str, text: &str, problems: &mut Vec<String>) {
    if !text.starts_with("//!") {
        problems.push(format!("{name}: does not begin with `//!` that says what it owns"));
    }
    if name.ends_with("/mod.rs") {
        problems.push(format!("{name}: is a mod.rs; write `foo.rs` beside `foo/`"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!("{name}: has {lines} lines, more than {MAX_LINES}"));
    }
    // Written apart, so that this file does not find itself.
    let banned = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("dbg", "!("),
        concat!("FIX", "ME"),
        concat!("#[ign", "ore"),
    ];
    for word in banned.into_iter().filter(|word| text.contains(word)) {
        problems.push(format!("{name}: contains `{word}`"));
    }
    if name != UNSAFE && text.contains(concat!("unsafe", "_code")) {
        problems.push(format!("{name}: only {UNSAFE} may"));
    }
    let sleeps = text.contains(concat!("::sle", "ep("));
    if sleeps && name.contains("/tests/") {
        problems.push(format!("{name}: sleeps; inject time, or await the event"));
    }
}

fn check_manifest(name: &str, text: &str, problems: &mut Vec<String>) {
    let Some(folder) = Path::new(name).parent().and_then(|parent| parent.file_name()) else {
        return;
    };
    let folder = folder.to_string_lossy();
    let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == folder) else {
        problems.push(format!("{name}: is not in the table of edges in xtask/src/tidy.rs"));
        return;
    };
    let dependencies = text.split("\n[").find(|section| section.starts_with("dependencies]"));
    for line in dependencies.unwrap_or_default().lines() {
        let Some(on) = line.strip_prefix("tollkeeper-") else { continue };
        let on = on.split(['.', ' ', '=']).next().unwrap_or_default();
        if !allowed.contains(&on) {
            problems.push(format!("{name}: {folder} may not depend on {on}"));
        }
    }
}

/// The lints of `memory` are the workspace's, but for the one that [`UNSAFE`] needs: a manifest cannot say so.
fn check_lints(root: &Path, problems: &mut Vec<String>) {
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let lints = |text: &str, section: &str| -> Vec<String> {
        let of = |group: &str| {
            let start = format!("[{section}.{group}]");
            let lines = text.lines().skip_while(move |line| *line != start).skip(1);
            let lines = lines.take_while(|line| !line.starts_with('[') && !line.is_empty());
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        [of("rust"), of("clippy")].concat()
    };
    let expected = read("Cargo.toml").replace("= \"forbid\"", "= \"deny\"");
    let expected = lints(&expected, "workspace.lints");
    if expected.is_empty() || lints(&read("crates/memory/Cargo.toml"), "lints") != expected {
        problems.push("crates/memory/Cargo.toml: its lints are not the workspace's".to_owned());
    }
}
