//! Advice on a valid policy: where it is told, and what it changes.

use std::path::Path;
use std::process::Output;

use crate::kit::{Folder, POLICY, Service, run, text, until};
use crate::reload::replace;

const HIDDEN: &str = "rules:\n  api:\n    limits: [10/s, 1000/min]\n";

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn validate_shows_advice_and_succeeds_unless_it_is_strict() {
    let folder = Folder::new("advice");
    folder.write("p.yaml", HIDDEN);
    let output = run(&["validate", "p.yaml"], &folder);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.ends_with("p.yaml is valid: 1 rule, 2 limits, 1 warning\n"), "{out}");
    assert!(err.starts_with("\nwarning[TK005]: limit `api/1m` (1000 at once"), "{err}");
    let place = "
  --> p.yaml:3:20
   |
 3 |     limits: [10/s, 1000/min]
   |                    ^^^^^^^^
   |
   = help: ";
    assert!(err.contains(place), "{err}");
    assert!(err.ends_with("/docs/advice/TK005.md\n"), "{err}");
    let strict = run(&["validate", "--strict", "p.yaml"], &folder);
    assert_eq!(strict.status.code(), Some(1));
    assert_eq!((strict.stdout, strict.stderr), (output.stdout, output.stderr));

    let output = run(&["validate", "--json", "p.yaml"], &folder);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let told = json(&output);
    let advice = &told["advice"][0];
    assert_eq!((&told["valid"], &advice["code"]), (&true.into(), &"TK005".into()));
    assert_eq!((&advice["line"], &advice["column"]), (&3.into(), &20.into()));
    assert_eq!(advice["rule"], "api");
    assert!(advice["page"].as_str().unwrap().ends_with("/docs/advice/TK005.md"));
    assert!(advice["message"].is_string() && advice["help"].is_string());
    assert_eq!(run(&["validate", "--json", "--strict", "p.yaml"], &folder).status.code(), Some(1));
}

#[test]
fn a_good_file_gets_none_and_a_wrong_one_is_wrong_also_when_strict() {
    let folder = Folder::new("advice-none");
    folder.write("tollkeeper.yaml", POLICY);
    let output = run(&["validate", "--strict"], &folder);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert!(text(&output.stdout).ends_with("is valid: 1 rule, 1 limit\n"));
    let told = json(&run(&["validate", "--json"], &folder));
    assert_eq!(told["advice"], serde_json::json!([]));
    folder.write("bad.yaml", HIDDEN.replace("limits", "limts"));
    assert_eq!(run(&["validate", "--strict", "bad.yaml"], &folder).status.code(), Some(2));
    let json = json(&run(&["validate", "--strict", "--json", "bad.yaml"], &folder));
    assert_eq!((&json["valid"], json.get("advice")), (&false.into(), None));
    assert_eq!(run(&["validate", "--strct"], &folder).status.code(), Some(2));
}

#[test]
fn serve_tells_it_at_the_start_and_after_a_reload_only_what_is_new() {
    let service = Service::start("advised", HIDDEN);
    let told = |code: &str| {
        let line = |line: &&str| line.contains(&format!("{code}: "));
        service.log().lines().filter(line).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(told("TK005").len(), 1, "{}", service.log());
    assert!(told("TK005")[0].contains(" WARN TK005: limit `api/1m`"), "{}", service.log());
    assert!(told("TK005")[0].ends_with("/docs/advice/TK005.md)"));
    replace(&service, &format!("{HIDDEN}  big: {{ limit: 5/s, cost: 6 }}\n"));
    until("the new one is told", || !told("TK010").is_empty());
    replace(
        &service,
        &format!("{HIDDEN}  big: {{ limit: 5/s, cost: 6 }}\n  more: {{ limit: 5/s }}\n"),
    );
    until("it is read again", || service.log().matches("took effect").count() == 2);
    assert_eq!((told("TK005").len(), told("TK010").len()), (1, 1), "{}", service.log());
}

/// The files of a page on advice.
fn files_of(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/advice").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn a_proxy_that_nobody_trusts_is_noticed_once() {
    let files = files_of("TK001.md");
    let asked = [("x-forwarded-uri", "/"), ("x-forwarded-for", "203.0.113.9")];
    let service = Service::start("untrusted", &files[0]);
    assert_eq!(service.send("GET", "/v1/authz", &asked, b"").status, 200);
    until("it is told", || service.log().contains("TK001: "));
    assert_eq!(service.send("GET", "/v1/authz", &asked, b"").status, 200);
    // The demo route is met by a request that came itself.
    assert_eq!(service.send("GET", "/api/resource", &asked[1..], b"").status, 200);
    let log = service.log();
    assert_eq!(log.matches("TK001: ").count(), 1, "{log}");
    assert!(log.contains("WARN TK001: a proxy in 127.0.0.0/24 asks about its requests"), "{log}");
    assert!(!log.contains("203.0.113.9"), "{log}");

    // Where the proxy is trusted there is nothing to tell.
    let fixed = files[1].replace("10.0.0.0/8", "127.0.0.0/8");
    let service = Service::start("trusted", &fixed);
    for _ in 0..2 {
        assert_eq!(service.send("GET", "/v1/authz", &asked, b"").status, 200);
    }
    assert!(!service.log().contains("TK001"), "{}", service.log());
}
