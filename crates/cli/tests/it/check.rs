//! `check`: one decision from a service or a store.

use crate::kit::{Folder, Service, run, text};

#[test]
fn a_decision_from_a_running_service_and_its_exit_code() {
    let service = Service::start("check-cli", "rules: { api: { limit: 1/h } }");
    let folder = Folder::new("check-cli-folder");
    let url = format!("http://{}", service.address);
    let check = |args: &[&str]| run(&[&["check", "--url", &url], args].concat(), &folder);
    let first = check(&["--key", "alice", "--rule", "api"]);
    assert_eq!(
        (first.status.code(), text(&first.stdout)),
        (Some(0), "allowed: 0 of 1 remaining, as new in 1h\n".into())
    );
    let second = check(&["--key", "alice", "--rule", "api"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stdout).starts_with("denied by api: 0 of 1 remaining, retry in "),
        "{second:?}"
    );
    let json = check(&["--key", "bob", "--limit", "5/min", "--algorithm", "gcra", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["allowed"], &json["remaining"]), (&true.into(), &4.into()));
    let never = check(&["--key", "bob", "--limit", "5/min", "--cost", "6"]);
    assert_eq!(text(&never.stdout), "denied by inline: a cost of 6 can never fit a limit of 5\n");
    let bad = check(&["--key", "bob", "--limit", "5/minn"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad.stderr).contains("`minn` is not a unit of time"), "{bad:?}");
}

#[test]
fn a_decision_in_a_store() {
    let folder = Folder::new("check-store");
    folder.write("tollkeeper.yaml", "rules: { api: { limit: 7/h } }");
    let by_limit = run(&["check", "--key", "k", "--limit", "3/h", "--store", "memory://"], &folder);
    assert_eq!(text(&by_limit.stdout), "allowed: 2 of 3 remaining, as new in 20m\n");
    let by_rule = run(&["check", "--key", "k", "--rule", "api", "--store", "memory://"], &folder);
    assert!(text(&by_rule.stdout).starts_with("allowed: 6 of 7"), "{by_rule:?}");
    let other = run(
        &["check", "--key", "k", "--limit", "3/h", "--store", "redis://user:secret@127.0.0.1:1"],
        &folder,
    );
    assert_eq!(other.status.code(), Some(2));
    assert!(!text(&other.stderr).contains("secret"), "{other:?}");
}

#[test]
fn what_prevents_an_answer_has_exit_code_2() {
    let folder = Folder::new("check-errors");
    let nobody =
        run(&["check", "--key", "k", "--limit", "3/h", "--url", "http://127.0.0.1:1"], &folder);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody.stderr).contains("Is `tollkeeper serve` running?"), "{nobody:?}");
    for args in [
        vec!["check", "--key", "k"],
        vec!["check", "--key", "k", "--limit", "3/h", "--cost", "-1"],
        vec!["check", "--key", "k", "--limit", "3/h", "--url", "ftp://x"],
        vec!["chek"],
    ] {
        assert_eq!(run(&args, &folder).status.code(), Some(2), "{args:?}");
    }
}
