//! A thousand reloads while everybody asks: no request is lost, and none is decided by half a
//! policy.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::alone;
use crate::client::{Client, until};
use crate::kit::{Folder, Service};

const CLIENTS: usize = 64;
const RELOADS: u64 = 1000;

/// Reloads by a file that is replaced, each of which is noticed after a while.
const REPLACED: u64 = 6;

/// What the limits of the two rules are beyond the number of the generation.
const FIRST: u64 = 100_000_000;
const SECOND: u64 = 200_000_000;

/// Whether the file of a generation can be read: of every second one.
fn is_good(generation: u64) -> bool {
    generation.is_multiple_of(2)
}

fn policy(generation: u64) -> String {
    if is_good(generation) { good(generation) } else { bad(generation) }
}

/// The policy of a generation. A request meets both rules, and is told the limits of both.
fn good(generation: u64) -> String {
    rules(generation, SECOND + generation)
}

fn rules(generation: u64, second: u64) -> String {
    format!(
        "rules:
  first: {{ fixed_window: {{ max_requests: {}, window_size: 300d }} }}
  second: {{ key: ip, fixed_window: {{ max_requests: {second}, window_size: 200d }} }}
",
        FIRST + generation
    )
}

/// A file that is wrong: its first rule is of a generation that must never be seen.
fn bad(generation: u64) -> String {
    match generation % 3 {
        0 => rules(generation, 0),
        1 => good(generation).replace("second:", "second"),
        _ => format!(
            "{}listen: {{ http: \"127.0.0.1:1\", admin: \"127.0.0.1:2\" }}\n",
            good(generation)
        ),
    }
}

const ASK: &str = r#"{"attributes":{"ip":"192.0.2.1"}}"#;

/// The generation by which an answer was decided: the same for both rules, and a good one.
fn generation(decision: &Value) -> u64 {
    let limits = decision["limits"].as_array().unwrap();
    let limit = |nth: usize| limits[nth]["limit"].as_u64().unwrap();
    assert_eq!(limits.len(), 2, "{decision}");
    let (first, second) = (limit(0) - FIRST, limit(1) - SECOND);
    assert_eq!(first, second, "decided by half a policy: {decision}");
    assert!(is_good(first), "decided by a bad policy: {decision}");
    first
}

/// Asks until told to stop; how often, and how many generations were seen.
fn asker(address: SocketAddr, stop: Arc<AtomicBool>) -> JoinHandle<(u64, u64)> {
    std::thread::spawn(move || {
        let mut client = Client::connect(address);
        let (mut asked, mut seen, mut last) = (0, 1, 0);
        while !stop.load(Ordering::SeqCst) {
            let reply = client.post("/v1/check", ASK);
            assert_eq!(reply.status, 200, "{reply:?}");
            asked += 1;
            let generation = generation(&reply.json());
            assert!(generation >= last, "the policy went back from {last} to {generation}");
            seen += u64::from(generation > last);
            last = generation;
        }
        (asked, seen)
    })
}

fn reloads(service: &Service, result: &str) -> u64 {
    let text = service.get("/metrics").body;
    let name = format!("tollkeeper_reloads_total{{result=\"{result}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

/// Puts a file in the place of another, at once.
fn replace(path: &Path, content: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, content).unwrap();
    std::fs::rename(&fresh, path).unwrap();
}

#[test]
fn a_thousand_reloads_lose_no_request_and_mix_no_policies() {
    let _alone = alone();
    // The file is a link to one in another folder, which is not watched: so each reload is the one
    // that was asked for, and can be counted.
    let folder = Folder::new("reloaded-policy");
    let (link, file) = (folder.path.join("tollkeeper.yaml"), folder.path.join("away/real.yaml"));
    std::fs::create_dir(folder.path.join("away")).unwrap();
    replace(&file, &good(0));
    symlink(&file, &link).unwrap();
    let service =
        Service::start_with("reloaded", "rules: {}", &["--config", link.to_str().unwrap()]);
    let counted = |result: &str| reloads(&service, result);
    let (ok, wrong) = (counted("ok"), counted("error"));
    let stop = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> = (0..CLIENTS).map(|_| asker(service.address, Arc::clone(&stop))).collect();

    let mut operator = Client::connect(service.address);
    for generation in 1..=RELOADS {
        replace(&file, &policy(generation));
        let reply = operator.post("/policy/reload", "");
        assert_eq!(reply.status, if is_good(generation) { 200 } else { 422 }, "{reply:?}");
    }
    assert_eq!((counted("ok"), counted("error")), (ok + RELOADS / 2, wrong + RELOADS / 2));

    // Now the file itself is replaced, and the service notices.
    for nth in 1..=REPLACED {
        let generation = RELOADS + nth;
        replace(&link, &policy(generation));
        let (ok, wrong) = (ok + (RELOADS + nth) / 2, wrong + (RELOADS + nth).div_ceil(2));
        until("it was read", || (counted("ok"), counted("error")) == (ok, wrong));
    }
    stop.store(true, Ordering::SeqCst);
    let told: Vec<(u64, u64)> = askers.into_iter().map(|asker| asker.join().unwrap()).collect();
    let asked: u64 = told.iter().map(|(asked, _)| asked).sum();
    let seen = told.iter().map(|(_, seen)| seen).max().unwrap();
    assert!(*seen > 10 && told.iter().all(|(asked, _)| *asked > 10), "{told:?}");

    // Every request was counted once, through all of it.
    let last = operator.post("/v1/check", ASK).json();
    assert_eq!(generation(&last), RELOADS + REPLACED);
    for (nth, limit) in [FIRST, SECOND].into_iter().enumerate() {
        let left = last["limits"][nth]["remaining"].as_u64().unwrap();
        assert_eq!(limit + RELOADS + REPLACED - left, asked + 1, "{last}");
    }
}
