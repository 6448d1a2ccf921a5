//! The README's files, commands and what they are said to print.

use std::fmt::Write as _;
use std::process::Command;

use tollkeeper_policy::Policy;
use tollkeeper_testkit::port::Port;

use crate::kit::{Folder, run, text, tollkeeper};

const README: &str = include_str!("../../../../README.md");

/// The line between what two commands printed.
const CUT: &str = "--- cut ---\n";

/// The texts of every block of a kind.
fn blocks(kind: &str) -> Vec<&'static str> {
    let fence = format!("```{kind}\n");
    let parts = README.split(fence.as_str()).skip(1);
    parts.map(|part| part.split_once("\n```").unwrap().0).collect()
}

/// The file that the README names `tollkeeper.yaml`.
fn file() -> &'static str {
    blocks("yaml").into_iter().find(|block| block.starts_with("# tollkeeper.yaml")).unwrap()
}

/// A command, and the lines that it is said to print.
type Step = (&'static str, Vec<&'static str>);

fn steps(block: &'static str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push((command, Vec::new())),
            None => steps.last_mut().unwrap().1.push(line),
        }
    }
    steps
}

/// Whether a line is as it is shown, where `…` stands for anything.
fn is_as_shown(line: &str, shown: &str) -> bool {
    match shown.split_once('…') {
        None => line == shown,
        Some((first, rest)) => {
            let cuts = line.strip_prefix(first).into_iter();
            let mut ends = cuts.flat_map(|line| line.char_indices().map(|(at, _)| &line[at..]));
            rest.is_empty() && line.starts_with(first) || ends.any(|end| is_as_shown(end, rest))
        }
    }
}

#[test]
fn every_file_is_valid() {
    assert!(blocks("yaml").len() >= 4);
    let environment = |name: &str| (name == "REDIS_URL").then(|| "redis://h:6379".to_owned());
    for block in blocks("yaml") {
        // A part of a file needs a rule to be a whole one.
        let whole = match block.contains("rules:") {
            true => block.to_owned(),
            false => format!("{block}\nrules: {{ api: {{ limit: 1/s }} }}"),
        };
        if let Err(errors) = Policy::parse(&whole, &environment) {
            panic!("{errors}\nin\n{whole}");
        }
    }
}

#[test]
fn every_session_prints_what_it_is_said_to() {
    let port = Port::reserve().unwrap();
    let address = format!("127.0.0.1:{}", port.number());
    let folder = Folder::new("readme");
    folder.write("tollkeeper.yaml", file());
    let steps: Vec<Step> = blocks("console").into_iter().flat_map(steps).collect();
    assert!(steps.len() >= 5);
    // One shell for all, as a reader has; the service has a port of the test's own. It takes the
    // place of its subshell, so that it ends with the test.
    let mut script = format!(
        "trap 'kill $(jobs -p)' EXIT\ntollkeeper() {{ case $1 in
          serve) exec '{bin}' serve --listen {address} > service.log 2>&1 ;;
          check) '{bin}' \"$@\" --url http://{address} ;;
          *) '{bin}' \"$@\" ;;
        esac; }}\n",
        bin = env!("CARGO_BIN_EXE_tollkeeper")
    );
    for (command, _) in &steps {
        let command = command.replace("127.0.0.1:8080", &address);
        writeln!(script, "{command}").unwrap();
        if command.ends_with('&') {
            writeln!(script, "until curl -s -o probe http://{address}/healthz; do :; done")
                .unwrap();
        }
        writeln!(script, "echo '{}'", CUT.trim_end()).unwrap();
    }
    let ran = Command::new("bash").arg("-c").arg(&script).current_dir(&folder.path).output();
    let ran = ran.unwrap();
    let printed = text(&ran.stdout);
    let mut printed = printed.split(CUT);
    for (command, shown) in &steps {
        let lines: Vec<&str> = printed.next().unwrap_or_default().lines().collect();
        let (lines, shown) = (trimmed(&lines), trimmed(shown));
        let agree = lines.len() == shown.len()
            && lines.iter().zip(shown).all(|(line, shown)| is_as_shown(line, shown));
        let errors = text(&ran.stderr);
        assert!(
            agree,
            "$ {command}\n{}\nis shown as\n{}\n{errors}",
            lines.join("\n"),
            shown.join("\n")
        );
    }
}

/// Without the blank lines at the end.
fn trimmed<'a, 'b>(lines: &'a [&'b str]) -> &'a [&'b str] {
    let used = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
    &lines[..used]
}

#[test]
fn the_error_is_told_as_shown() {
    let shown = blocks("text").into_iter().find(|block| block.starts_with("error:")).unwrap();
    let folder = Folder::new("readme-error");
    let wrong = file().replacen("# tollkeeper.yaml\n", "", 1).replacen("capacity:", "capcity:", 1);
    // The README shows its fourth line.
    let wrong: Vec<&str> = wrong.lines().collect();
    let line = wrong.iter().find(|line| line.contains("capcity")).unwrap();
    let line = line.split_once('#').map_or(*line, |(line, _)| line).trim_end();
    let line = line.replace("token_bucket:          ", "token_bucket:");
    folder.write("tollkeeper.yaml", format!("{}\n{}\n{}\n{line}\n", wrong[0], wrong[1], wrong[2]));
    let told = run(&["validate"], &folder);
    assert_eq!(told.status.code(), Some(2));
    assert!(text(&told.stderr).contains(shown), "{}\nis shown as\n{shown}", text(&told.stderr));
}

#[test]
fn every_command_is_one() {
    // What is run here and elsewhere: the demo, all tests, and the service on a server.
    assert_eq!(
        blocks("sh"),
        [
            "cargo run --release -- serve --demo",
            "cargo xtask test",
            "tollkeeper serve --store redis://127.0.0.1:6379",
        ]
    );
    for words in README.split('`').skip(1).step_by(2) {
        let Some(rest) = words.strip_prefix("tollkeeper ") else { continue };
        let command = rest.split(' ').next().unwrap();
        let help = tollkeeper().args([command, "--help"]).output().unwrap();
        assert!(help.status.success(), "`{words}`");
        for option in rest.split(' ').filter(|word| word.starts_with("--")) {
            assert!(text(&help.stdout).contains(option), "`{words}`: no {option}");
        }
    }
    for script in README.split(['`', '|', ' ']).filter(|word| word.starts_with("examples/")) {
        let path = format!("{}/../../{script}", env!("CARGO_MANIFEST_DIR"));
        assert!(std::path::Path::new(&path).exists(), "{script}");
    }
}
