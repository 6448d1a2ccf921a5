//! The policy changes while the service runs.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::kit::{Reply, Service, until};

fn rules(limit: &str) -> String {
    format!("rules: {{ api: {{ limit: {limit} }} }}")
}

/// Puts another file in its place, at once.
pub(crate) fn replace(service: &Service, content: &str) {
    let path = |name: &str| service.folder.path.join(name);
    service.folder.write("new.yaml", content);
    std::fs::rename(path("new.yaml"), path("tollkeeper.yaml")).unwrap();
}

fn look(service: &Service) -> Reply {
    service.post("/v1/check", r#"{"rule":"api","key":"alice","cost":0}"#)
}

fn until_limit(service: &Service, limit: u64) {
    until("the new limit holds", || look(service).json()["limit"] == limit);
}

fn reloads(service: &Service, result: &str) -> u64 {
    let text = service.get("/metrics").body;
    let name = format!("tollkeeper_reloads_total{{result=\"{result}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn an_edited_file_takes_effect_and_usage_survives() {
    let service = Service::start("edited", &rules("100/day"));
    assert_eq!(service.post("/v1/check", r#"{"rule":"api","key":"alice","cost":80}"#).status, 200);
    service.folder.write("tollkeeper.yaml", rules("90/day"));
    until_limit(&service, 90);
    assert_eq!(look(&service).json()["remaining"], 10);
    replace(&service, &rules("200/day"));
    until_limit(&service, 200);
    assert_eq!(look(&service).json()["remaining"], 120);
    // It is counted once it has taken effect.
    until("all three are counted", || reloads(&service, "ok") >= 3);
}

#[test]
fn a_swapped_link_takes_effect_as_with_a_config_map() {
    let service = Service::start("linked", &rules("1/day"));
    let path = |name: &str| service.folder.path.join(name);
    for (version, limit) in [("..first", "10/day"), ("..second", "20/day")] {
        std::fs::create_dir(path(version)).unwrap();
        std::fs::write(path(version).join("tollkeeper.yaml"), rules(limit)).unwrap();
    }
    symlink("..first", path("..data")).unwrap();
    std::fs::remove_file(path("tollkeeper.yaml")).unwrap();
    symlink("..data/tollkeeper.yaml", path("tollkeeper.yaml")).unwrap();
    until_limit(&service, 10);
    symlink("..second", path("..new")).unwrap();
    std::fs::rename(path("..new"), path("..data")).unwrap();
    until_limit(&service, 20);
}

#[test]
fn a_bad_file_changes_nothing_and_is_told_once() {
    let service = Service::start("bad", &rules("5/day"));
    replace(&service, "rules: { api: { limt: 7/day } }");
    until("it is told", || service.log().contains("the old one stays"));
    assert_eq!(look(&service).json()["limit"], 5);
    let log = service.log();
    assert!(log.contains("did you mean `limit`?") && log.contains("tollkeeper.yaml:1"), "{log}");
    // What of the store cannot change is refused as a whole, too.
    let elsewhere = format!("store: {{ max_keys: 7 }}\n{}", rules("7/day"));
    replace(&service, &elsewhere);
    until("it is told", || service.log().contains("`store.max_keys` cannot change"));
    assert_eq!(look(&service).json()["limit"], 5);
    replace(&service, &rules("6/day"));
    until_limit(&service, 6);
    until("it is counted", || reloads(&service, "ok") == 2);
    assert_eq!(reloads(&service, "error"), 2);
    assert_eq!(service.log().matches("the old one stays").count(), 2);
}

#[test]
fn a_hangup_and_an_operator_read_it_again() {
    let service = Service::start("asked", &rules("5/day"));
    let before = reloads(&service, "ok");
    let pid = service.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    until("it is read again", || reloads(&service, "ok") == before + 1);
    let reply = service.post("/policy/reload", "");
    assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"reloaded":true,"rules":1}"#));
    // An operator hears what is wrong; strangers are not heard.
    replace(&service, "rules: [");
    let reply = service.post("/policy/reload", "");
    assert_eq!(reply.status, 422, "{reply:?}");
    assert!(reply.json()["detail"].as_str().unwrap().contains("tollkeeper.yaml"), "{reply:?}");
    let forwarded = service.send("POST", "/policy/reload", &[("x-forwarded-for", "1.2.3.4")], b"");
    assert_eq!(forwarded.status, 403);
}
