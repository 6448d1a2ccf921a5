//! The commands on the master that sentinels name, and on a cluster.

use std::time::Duration;

use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::moment::until;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::Launch;
use tollkeeper_testkit::sentinels::Sentinels;

use crate::kit::{Folder, PATIENCE, Service, run, text};

/// How long a node of a cluster may be silent.
const NODE_TIMEOUT: Duration = Duration::from_millis(1000);

fn policy(url: &str) -> String {
    format!("store: {{ url: \"{url}\", timeout: 200ms }}\nrules: {{ api: {{ limit: 50/day }} }}\n")
}

/// Who decides about a key.
fn source(service: &Service, key: &str) -> String {
    let reply = service.post("/v1/check", &format!(r#"{{"rule":"api","key":"{key}"}}"#));
    reply.json()["source"].as_str().unwrap().to_owned()
}

/// Asks until the store decides again, and the service says that it is ready.
fn until_well(service: &Service, key: &str) {
    let well = until(PATIENCE, || (source(service, key) == "store").then_some(()));
    assert!(well.is_some(), "{}", service.log());
    let ready = || (service.get("/readyz").json()["store"] == "up").then_some(());
    assert!(until(PATIENCE, ready).is_some(), "{:?}", service.get("/readyz"));
}

/// How many states of the rule are shown.
fn shown(service: &Service) -> usize {
    let state = service.get("/debug/state?rule=api").json();
    assert_eq!(state["store"], "redis", "{state}");
    state["keys"].as_object().unwrap().len()
}

/// Decides in the store itself; the exit code, and what was said.
fn check(store: &str, folder: &Folder) -> (Option<i32>, String) {
    let args = ["check", "--key", "once", "--limit", "1/day", "--store", store];
    let output = run(&args, folder);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn a_service_follows_the_master_that_sentinels_name() {
    let mut set = Sentinels::start("redis-server").unwrap();
    let folder = Folder::new("check-sentinel");
    assert_eq!(check(&set.url(), &folder).0, Some(0));
    assert_eq!(check(&set.url(), &folder).0, Some(1));
    let (code, said) = check(&set.url().replace("mymaster", "nobody"), &folder);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("know no master `nobody`; they know `mymaster`"), "{said}");

    let service = Service::start("sentinel", &policy(&set.url()));
    until_well(&service, "alice");
    assert_eq!(shown(&service), 1);
    set.servers[0].kill();
    let gone = until(PATIENCE, || (source(&service, "alice") == "fallback").then_some(()));
    assert!(gone.is_some(), "nobody noticed");
    set.wait_for_another(0).unwrap();
    until_well(&service, "alice");
    assert_eq!(service.post("/debug/reset?rule=api&key=alice", "").json()["reset"], 1);
    assert_eq!(shown(&service), 0);
}

#[test]
fn a_service_on_a_cluster_survives_one_of_its_masters() {
    let partial = |launch: Launch| launch.args(&["--cluster-require-full-coverage", "no"]);
    let program = peers::valkey().unwrap();
    let mut cluster = Cluster::of(program, 3, 1, NODE_TIMEOUT, partial).unwrap();
    let folder = Folder::new("check-cluster");
    assert_eq!(check(&cluster.url_of(&[5]), &folder).0, Some(0));
    assert_eq!(check(&cluster.url_of(&[0, 1]), &folder).0, Some(1));

    let service = Service::start("cluster-masters", &policy(&cluster.url_of(&[0, 1])));
    let keys: Vec<String> = (0..12).map(|nth| format!("key-{nth}")).collect();
    for key in &keys {
        until_well(&service, key);
    }
    assert_eq!(shown(&service), keys.len());
    let holder = |key: &str| {
        let name = format!("rl:{{{key}}}:api:tb");
        let holds = |nth: &usize| cluster.nodes[*nth].server.command(&["TYPE", &name]).is_ok();
        (0..3).find(holds).unwrap()
    };
    let held: Vec<usize> = keys.iter().map(|key| holder(key)).collect();
    assert!((0..3).all(|node| held.contains(&node)), "{held:?}");
    let lost = &keys[held.iter().position(|node| *node == 1).unwrap()];
    cluster.nodes[1].server.kill();
    let gone = until(PATIENCE, || (source(&service, lost) == "fallback").then_some(()));
    assert!(gone.is_some(), "nobody noticed");
    // It is the affair of its own keys.
    for (key, _) in keys.iter().zip(&held).filter(|(_, node)| **node != 1) {
        assert_eq!(source(&service, key), "store", "{key}");
    }
    let ready = service.get("/readyz");
    assert_eq!((ready.status, &ready.json()["store"]), (200, &"partly down".into()));
    for key in &keys {
        until_well(&service, key);
    }
    assert_eq!(shown(&service), keys.len());
    assert_eq!(service.post("/debug/reset?rule=api", "").json()["reset"], keys.len());
    assert_eq!(shown(&service), 0);
}
