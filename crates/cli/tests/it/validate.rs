//! `validate` and `schema`.

use crate::kit::{Folder, POLICY, policy_of, run, text};

#[test]
fn the_documented_file_is_valid_with_every_algorithm() {
    let folder = Folder::new("validate");
    for algorithm in [
        "token_bucket",
        "gcra",
        "leaking_bucket",
        "fixed_window",
        "sliding_window_log",
        "sliding_window_counter",
        "concurrency",
    ] {
        folder.write("tollkeeper.yaml", policy_of(algorithm));
        let output = run(&["validate"], &folder);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = text(&output.stdout);
        assert!(told.contains(algorithm) && told.contains("is valid: 1 rule, 1 limit"), "{told}");
    }
}

#[test]
fn a_broken_file_is_told_with_line_and_column_and_exit_code_2() {
    let folder = Folder::new("validate-broken");
    folder.write("p.yaml", POLICY.replace("refill_rate", "refil_rate"));
    let output = run(&["validate", "p.yaml"], &folder);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: unknown field `refil_rate`
  --> p.yaml:4:45
   |
 4 |     token_bucket:           { capacity: 10, refil_rate: 5 }      # a bare number is per second
   |                                             ^^^^^^^^^^ expected one of `capacity`, `refill_rate`
   |
   = help: did you mean `refill_rate`?
"
    );
    let output = run(&["validate", "--json", "p.yaml"], &folder);
    assert_eq!(output.status.code(), Some(2));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = &told["errors"][0];
    assert_eq!((&error["line"], &error["column"]), (&4.into(), &45.into()));
    assert_eq!(run(&["validate", "nowhere.yaml"], &folder).status.code(), Some(2));
    folder.write("bytes.yaml", b"rules:\n  a: \xff\n");
    let output = run(&["validate", "bytes.yaml"], &folder);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("bytes.yaml:2:6"), "{output:?}");
}

#[test]
fn the_schema_is_json() {
    let folder = Folder::new("schema");
    let output = run(&["schema"], &folder);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(schema["$schema"].is_string());
}
