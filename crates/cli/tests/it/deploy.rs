//! What is there to deploy it with is valid, as far as that can be said without a cluster.

use std::path::Path;
use std::process::Command;

use crate::kit::{Folder, text, tollkeeper};

fn deployed(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The policy in the ConfigMap, without what stands before each of its lines.
fn policy(manifest: &str) -> String {
    let lines = manifest.lines().skip_while(|line| line.trim() != "tollkeeper.yaml: |").skip(1);
    let of_policy = lines.map_while(|line| line.strip_prefix("    "));
    of_policy.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_policy_of_the_config_map_is_valid_and_without_advice() {
    let manifest = deployed("kubernetes.yaml");
    let folder = Folder::new("deploy");
    folder.write("tollkeeper.yaml", policy(&manifest));
    let validate = |url: &str| {
        let mut command = tollkeeper();
        command.args(["validate", "--strict"]).env("REDIS_URL", url);
        command.current_dir(&folder.path).output().unwrap()
    };
    let told = validate("redis://:secret@redis:6379");
    assert!(told.status.success(), "{}{}", text(&told.stdout), text(&told.stderr));
    assert_eq!(validate("reddis://redis").status.code(), Some(2));
    // As many processes as the policy shares its limits among.
    let replicas = manifest.lines().find_map(|line| line.trim().strip_prefix("replicas: "));
    let nodes = manifest.lines().find_map(|line| line.trim().strip_prefix("nodes: "));
    assert_eq!((replicas, nodes), (Some("2"), Some("2")));
    for path in ["path: /healthz", "path: /readyz"] {
        assert!(manifest.contains(path), "{path}");
    }
}

#[test]
fn what_starts_it_is_a_command_that_there_is() {
    let unit = deployed("tollkeeper.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let manifest = deployed("kubernetes.yaml");
    let list = manifest.lines().find_map(|line| line.trim().strip_prefix("args: ")).unwrap();
    let args: Vec<String> = serde_json::from_str(list).unwrap();
    let words = line.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(args, words);
    let folder = Folder::new("deploy-unit");
    folder.write("tollkeeper.yaml", "rules: { api: { limit: nonsense } }");
    // The file is not valid, so it ends at once: with what is wrong there, not with its usage.
    let told = tollkeeper()
        .args(args.iter().map(|arg| arg.replace("/etc/tollkeeper/", "")))
        .current_dir(&folder.path)
        .output()
        .unwrap();
    assert_eq!(told.status.code(), Some(2));
    assert!(text(&told.stderr).contains("nonsense"), "{}", text(&told.stderr));
}

/// It waited for 15 s, which is less than a stop takes with a patient store that is away.
#[test]
fn whoever_stops_it_waits_until_it_has_stopped() {
    let drain_s = tollkeeper_server::DRAIN.as_secs();
    let waits = |file: &str, field: &str| -> u64 {
        let file = deployed(file);
        let line = file.lines().find_map(|line| line.trim().strip_prefix(field)).unwrap();
        line.trim_end_matches('s').parse().unwrap()
    };
    // Two seconds to give back, and twice a store.timeout of three.
    let least_s = drain_s + 2 + 2 * 3;
    for (file, field) in [
        ("tollkeeper.service", "TimeoutStopSec="),
        ("kubernetes.yaml", "terminationGracePeriodSeconds: "),
    ] {
        assert!(waits(file, field) > least_s, "{file}");
    }
}

#[test]
fn systemd_takes_the_unit_where_there_is_a_systemd() {
    let folder = Folder::new("deploy-systemd");
    let unit = deployed("tollkeeper.service");
    let program = env!("CARGO_BIN_EXE_tollkeeper");
    folder.write("tollkeeper.service", unit.replace("/usr/local/bin/tollkeeper", program));
    let verify = Command::new("systemd-analyze")
        .arg("verify")
        .arg(folder.path.join("tollkeeper.service"))
        .output();
    if let Ok(told) = verify {
        assert!(told.status.success(), "{}", text(&told.stderr));
    }
}
