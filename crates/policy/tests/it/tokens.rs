//! The token of admin calls is shown nowhere, however it is written and whatever is wrong with it
//! or beside it.

use proptest::prelude::*;
use tollkeeper_policy::Policy;

/// Files with `<T>` where a token stands or is put by mistake. Most are wrong in another place too.
const FILES: &[&str] = &[
    "admin: { token: <T> }\nrules: { r: { limit: 1/s } }\n",
    "admin: { token: \"<T>\", x: 1 }\nrules: {}\n",
    "admin: { token: '<T>' }\nrules: { r: { limit: 0/s } }\n",
    "admin:\n  token: <T>\n  x: 1\nrules: {}\n",
    "admin:\n  token: <T> # a comment\n  tokn: <T>\n",
    "admin:\n  token: |\n    <T>\n  x: 1\nrules: {}\n",
    "admin:\n  token: >-\n    a\n    <T>\n  x: 1\nrules: {}\n",
    "admin:\n  token:\n    <T>\n  x: 1\nrules: {}\n",
    "admin:\n  token: \"a\n    <T>\"\n  x: 1\nrules: {}\n",
    "admin: { token: \"${NONE}\", admin_token: <T> }\nrules: {}\n",
    "admin: { token: \"${NONE:-<T>}\" }\nrules: {}\n",
    "admin: { token: [<T>] }\nrules: {}\n",
    "admin: { token: { value: <T> }, x: 1 }\nrules: {}\n",
    "admin: [<T>, token]\nrules: {}\n",
    "admin: <T>\nrules: {}\n",
    "admin: \"<T>\"\nrules: {}\n",
    "admin: { <T> }\nrules: {}\n",
    "admin: { token: &t <T>, x: *t }\nrules: {}\n",
    "admin: { token: !t <T> }\nrules: {}\n",
    "admin: { token: <T>, token: <T> }\nrules: {}\n",
    "admin_token: <T>\nrules: {}\n",
    "token: <T>\nrules: {}\n",
    "rules: { r: { limit: 1/s, token: <T> } }\n",
    "{ admin: { token: <T> }, rules: {} }\n",
    "{ \"admin\": { \"token\": \"<T>\" }, \"rules\": {} }\n",
    "admin:\n  ? token\n  : <T>\nrules: {}\n",
    "\u{feff}admin: { token: <T> }\r\nrules: {}\r\n",
    // What cannot be read as YAML.
    "admin: { token: \"<T>\nrules: {}\n",
    "admin: { token: <T>\nrules: {}\n",
    "admin:\n\ttoken: <T>\nrules: {}\n",
    "rules: [\nadmin: { token: <T> }\n",
    "rules: }\nadmin:\n  token: <T>\n",
    "rules: }\nadmin:\n  token:\n    <T>\nx: 1\n",
    "admin: { token: <T> ]\n",
    "admin: { token: <T>\u{1b} }\n",
];

fn check(text: &str) -> bool {
    let shown = match Policy::parse(text, &|_| None) {
        Ok(policy) => format!("{policy:?} {policy:#?}"),
        Err(errors) => format!("{errors} {errors:?} {}", errors.render("f", text)),
    };
    assert!(!shown.contains("hunter"), "{text}\n{shown}");
    shown.contains("PolicyError")
}

#[test]
fn of_a_token_in_the_file() {
    let tokens = ["hunter2", "hunter2hunter2hunter2", "x@hunter", "x://hunter:y@h", "a${hunter"];
    let files = FILES.iter().flat_map(|file| tokens.map(|token| file.replace("<T>", token)));
    let refused = files.filter(|text| check(text)).count();
    assert!(refused > 150, "{refused}");
}

#[test]
fn of_a_token_from_a_variable() {
    let env = |_: &str| Some("hunter2hunter2hunter2\n".to_owned());
    for file in FILES {
        let text = file.replace("<T>", "${V}");
        if let Err(errors) = Policy::parse(&text, &env) {
            let shown = format!("{errors} {errors:?} {}", errors.render("f", &text));
            assert!(!shown.contains("hunter"), "{text}\n{shown}");
        }
    }
}

#[test]
fn other_lines_are_shown_as_they_are() {
    let text =
        "listen: { admin: x }\nrules: { r: { token_bucket: { capacity: 0, refill_rate: 1 } } }\n";
    let errors =
        Policy::parse(text, &|_| None).map_or_else(|e| e.render("f", text), |_| String::new());
    assert!(errors.contains("listen: { admin: x }"), "{errors}");
    assert!(errors.contains("{ capacity: 0, refill_rate: 1 }"), "{errors}");
}

/// What may stand around a token.
const JUNK: &[&str] = &[
    "a", "1", ":", "@", "/", "?", "&", "=", "'", "\"", "\\", "{", "}", "[", "]", "%", "${", "$",
    "*", "|", ">", "-", "ä", "\t", "!", ",",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn of_any_token(
        file in prop::sample::select(FILES),
        before in prop::collection::vec(prop::sample::select(JUNK), 0..4),
        after in prop::collection::vec(prop::sample::select(JUNK), 0..4),
    ) {
        let token = format!("{}hunter{}", before.concat(), after.concat());
        // What stands before a colon is the name of a field; where no token belongs, what follows a
        // comma or a bracket is a field like any other; and the name of a variable is told
        // wherever it stands.
        let splits = token.contains(['{', '}', '[', ']', ',']);
        let single = file.matches("<T>").count() == 1;
        let names = token.contains(":\t");
        let is_field = names || splits && !(file.starts_with("admin") && single);
        if !is_field && !before.concat().contains("${") {
            check(&file.replace("<T>", &token));
        }
    }
}
