//! What a service says while it runs: as text and as JSON, by a filter, and never a secret.

use std::process::Command;

use serde_json::Value;

use crate::kit::{Folder, Service, run, text};

const POLICY: &str = "
admin: { token: correct-horse-battery }
rules:
  api: { match: { path: /api/** }, key: header:x-api-key, limit: 2/day }
";

fn lines(service: &Service) -> Vec<Value> {
    let log = service.log();
    let parse = |line: &str| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    log.lines().map(parse).collect()
}

/// The lines that are told of requests.
fn requests(service: &Service) -> Vec<Value> {
    let all = lines(service).into_iter();
    all.filter(|line| line["target"] == "tollkeeper::request").collect()
}

fn stop(service: &mut Service) {
    let pid = service.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(service.wait().code(), Some(0));
}

#[test]
fn every_line_of_json_is_whole_and_there_is_one_for_each_change_of_state() {
    let mut service = Service::start_with("log-json", POLICY, &["--log-format", "json"]);
    let token = [("authorization", "Bearer correct-horse-battery")];
    let reload = |service: &Service| service.send("POST", "/policy/reload", &token, b"").status;
    for _ in 0..5 {
        assert_eq!(service.get("/api/resource").status, 200);
    }
    assert_eq!(reload(&service), 200);
    // What is wrong with this file takes several lines to say.
    service
        .folder
        .write("new", "admin: { token: correct-horse-battery }\nrules: {\n  a: { limt: 1/s }\n}");
    std::fs::rename(service.folder.path.join("new"), service.folder.path.join("tollkeeper.yaml"))
        .unwrap();
    assert_eq!(reload(&service), 422);
    stop(&mut service);
    let lines = lines(&service);
    for line in &lines {
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        assert!(["INFO", "WARN"].contains(&line["level"].as_str().unwrap()), "{line}");
        assert!(line["target"].as_str().unwrap().starts_with("tollkeeper"), "{line}");
        assert!(line["message"].is_string() && line["fields"].is_object(), "{line}");
    }
    let told = |message: &str| lines.iter().filter(|line| line["message"] == message).count();
    assert_eq!(told("listening"), 1, "{lines:?}");
    assert_eq!(told("the policy was read again and took effect"), 1, "{lines:?}");
    assert_eq!(told("stopped"), 1, "{lines:?}");
    let wrong = lines.iter().find(|line| line["level"] == "WARN").unwrap();
    let error = wrong["fields"]["error"].as_str().unwrap();
    assert!(error.contains("did you mean `limit`?") && error.contains('\n'), "{error}");
    // The file's change may have been seen besides; what is wrong with it is told either way.
    assert!((5..=6).contains(&lines.len()), "{lines:?}");
}

#[test]
fn at_debug_there_is_a_line_for_each_request_and_no_secret_in_it() {
    for filter in ["debug", "info,tollkeeper::request=debug"] {
        let args = ["--log", filter, "--log-format", "json"];
        let service = Service::start_with("log-debug", POLICY, &args);
        let secret = [
            ("x-api-key", "secret-key"),
            ("authorization", "Bearer secret-token"),
            ("cookie", "secret=cookie"),
        ];
        for _ in 0..3 {
            service.send("GET", "/api/resource?secret=query", &secret, b"");
        }
        service.post("/v1/check", r#"{"key":"secret-inline","limit":"5/h"}"#);
        service.send("GET", "/debug/state?key=secret-state", &secret, b"");
        service.get("/healthz");
        service.send("SECRET", "/nowhere", &secret, b"");
        let two =
            r#"{"checks":[{"key":"secret-a","limit":"1/h"},{"key":"secret-a","limit":"1/h"}]}"#;
        service.post("/v1/check/batch", two);
        let told = requests(&service);
        let fields = |nth: usize| &told[nth]["fields"];
        let of = |name: &str| -> Vec<Value> {
            (0..told.len()).map(|n| fields(n)[name].clone()).collect()
        };
        assert_eq!(of("status"), [200, 200, 429, 200, 401, 200, 404, 200]);
        assert_eq!(fields(0)["path"], "/api/resource");
        for (field, value) in [
            ("door", "http"),
            ("method", "GET"),
            ("rule", "api"),
            ("result", "allowed"),
            ("source", "store"),
        ] {
            assert_eq!(fields(0)[field], value, "{}", told[0]);
        }
        assert_eq!((&fields(2)["result"], &fields(2)["rule"]), (&"denied".into(), &"api".into()));
        assert_eq!((&fields(3)["rule"], &fields(3)["method"]), (&"inline".into(), &"POST".into()));
        assert_eq!((&fields(5)["rule"], &fields(5)["result"]), (&Value::Null, &Value::Null));
        assert_eq!(fields(6)["method"], "_OTHER");
        assert_eq!((&fields(7)["decisions"], &fields(7)["result"]), (&2.into(), &"mixed".into()));
        assert!(of("duration_ms").iter().all(|ms| ms.as_f64().unwrap() > 0.0), "{told:?}");
        let log = service.log().to_lowercase();
        assert!(!log.contains("secret") && !log.contains("correct-horse"), "{log}");
    }
}

#[test]
fn requests_are_told_at_debug_only() {
    let service = Service::start("log-quiet", POLICY);
    for _ in 0..5 {
        service.get("/api/resource");
    }
    let log = service.log();
    assert!(log.lines().count() == 1 && log.contains(" INFO listening door=http"), "{log}");
    let silent = Service::start_with("log-silent", POLICY, &["--log", "off"]);
    silent.get("/api/resource");
    assert_eq!(silent.log(), "");
}

#[test]
fn nobody_forges_or_splits_a_line() {
    let paths = [
        "/x%0a2026-01-01T00:00:00Z%20INFO%20forged",
        "/x\u{9b}31m\u{85}forged",
        "/x\u{2028}\u{202e}forged",
        "/x\"%20level=error\"forged",
        "/x\u{7f}forged",
        "/x\tforged",
        "/x\rforged",
        "/x\\nforged",
    ];
    for format in ["text", "json"] {
        let args = ["--log", "debug", "--log-format", format];
        let service = Service::start_with(&format!("log-forged-{format}"), POLICY, &args);
        let before = service.log().lines().count();
        let mut taken = 0;
        for path in paths {
            // Some are no path at all, and refused before anything is told.
            let reply = service.get(path);
            assert!([400, 404].contains(&reply.status), "{path:?}: {reply:?}");
            taken += usize::from(reply.status == 404);
            assert_eq!(service.log().lines().count(), before + taken, "{path:?}");
        }
        assert!(taken >= 4, "{taken} of {paths:?}");
        service.get(&format!("/{}", "long".repeat(1000)));
        let log = service.log();
        let steers =
            |c: char| (c.is_control() && c != '\n') || ('\u{2028}'..='\u{202e}').contains(&c);
        assert!(!log.chars().any(steers), "{log:?}");
        assert!(log.lines().all(|line| line.len() < 600), "{log}");
        if format == "json" {
            assert_eq!(requests(&service).len(), taken + 1);
        } else {
            let begins = |line: &str| line.starts_with("20") && line.contains("Z ");
            assert!(log.lines().all(begins), "{log}");
        }
    }
}

#[test]
fn a_bad_filter_is_an_error_and_the_flag_goes_before_the_variable() {
    let folder = Folder::new("log-filter");
    for (wrong, said) in [
        ("debgu", "did you mean `debug`?"),
        ("", "no level"),
        ("tollkeeper=loud", "expected a level"),
    ] {
        let refused = run(&["serve", "--listen", "127.0.0.1:0", "--log", wrong], &folder);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let told = text(&refused.stderr);
        assert!(told.starts_with("error: `--log` is") && told.contains(said), "{told}");
    }
    let refused = crate::kit::tollkeeper()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("TOLLKEEPER_LOG", "nonsense")
        .current_dir(&folder.path)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("`TOLLKEEPER_LOG` is \"nonsense\""), "{refused:?}");
    let refused = run(&["serve", "--log-format", "xml"], &folder);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("possible values: text, json"), "{refused:?}");

    let variable = [("TOLLKEEPER_LOG", "debug")];
    let by_variable = Service::launch("log-variable", Some(POLICY), &[], &variable);
    by_variable.get("/healthz");
    assert!(by_variable.log().contains("path=/healthz"), "{}", by_variable.log());
    let by_flag = Service::launch("log-flag", Some(POLICY), &["--log", "info"], &variable);
    by_flag.get("/healthz");
    assert!(!by_flag.log().contains("/healthz"), "{}", by_flag.log());
    let nonsense = [("TOLLKEEPER_LOG", "nonsense")];
    Service::launch("log-flag-first", Some(POLICY), &["--log", "info"], &nonsense).get("/healthz");
}
