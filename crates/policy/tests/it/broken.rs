//! Broken files, one mistake of a user each, and what the user is told.

use std::fs;
use std::path::{Path, PathBuf};

use tollkeeper_policy::{Policy, PolicyErrors};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/broken");
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn env(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some("hunter2".into()),
        "SECRET_COUNT" => Some("31337".into()),
        _ => None,
    }
}

fn refused(path: &Path) -> (String, PolicyErrors) {
    let text = fs::read_to_string(path).unwrap();
    let errors = Policy::parse(&text, &env).expect_err(&path.display().to_string());
    (text, errors)
}

#[test]
fn each_broken_file_is_explained() {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| {
        for path in files() {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let (text, errors) = refused(&path);
            insta::assert_snapshot!(name.as_str(), errors.render(&format!("{name}.yaml"), &text));
        }
    });
}

#[test]
fn every_error_points_into_its_file_in_order() {
    for path in files() {
        let (text, errors) = refused(&path);
        let places: Vec<_> = errors.iter().map(|e| (e.line, e.column)).collect();
        assert!(places.is_sorted(), "{}", path.display());
        for error in &errors {
            let line = text.split('\n').nth(error.line - 1).unwrap_or_default();
            let end = error.column - 1 + error.length;
            // A point may stand just after the line's last character.
            assert!(end <= line.chars().count().max(error.column), "{}: {error}", path.display());
            assert!(!error.message.is_empty() && !error.message.ends_with('.'));
        }
    }
}

#[test]
fn without_the_source_an_error_is_a_place_and_a_message() {
    let text = "rules:\n  api: { limt: 100/min, shadow: 7 }\n";
    let errors = Policy::parse(text, &|_| None).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "2:10: unknown field `limt`\n\
         2:33: `shadow` is `7`, which is neither true nor false"
    );
}

#[test]
fn bytes_that_are_not_text_are_explained() {
    let bytes = b"rules:\n  api: { limit: \"\xff/min\" }\n";
    let errors = Policy::parse_bytes(bytes, &|_| None).unwrap_err();
    let shown = errors.render("p.yaml", &String::from_utf8_lossy(bytes));
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("not_utf8", shown));
}

#[test]
fn a_control_character_is_found_and_not_printed() {
    let text = "rules:\r\n  api: { limit: \"1\u{1b}[31m/s\" }\r\n";
    let errors = Policy::parse(text, &|_| None).unwrap_err();
    let error = errors.iter().next().unwrap();
    assert_eq!((error.line, error.column), (2, 19));
    assert!(!errors.render("p.yaml", text).contains('\u{1b}'));

    let text = "rules: { api: { limit: \"1\\e[31m/s\" } }";
    let errors = Policy::parse(text, &|_| None).unwrap_err();
    assert!(!errors.render("p.yaml", text).contains('\u{1b}'));
}
