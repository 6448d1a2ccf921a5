//! What servers do: die, freeze, fill up, change their mind.

use std::time::Duration;

use tollkeeper_testkit::redis_server::{Launch, RedisServer};

use crate::alone;
use crate::field::Field;
use crate::report::{Cause, Phase, Report};

const DEADLINE: Duration = Duration::from_millis(20);
const RECOVERY: Duration = Duration::from_secs(1);

/// So long that only a server that never answers misses it.
const AMPLE: &str = "5s";

fn start() -> RedisServer {
    RedisServer::start("redis-server", &[]).unwrap()
}

/// Everything that holds of every outage.
fn assert_outage(report: &Report, cause: &Cause, recovered: Duration, losses: u64) {
    report.assert_recovered(recovered, RECOVERY);
    report.assert_punctual(DEADLINE);
    report.assert_choices();
    report.assert_admitted(1 + losses, 0);
    report.assert_heard();
    report.assert_cause(cause);
    report.assert_metrics(true);
}

/// An outage that an admin command begins and another one ends.
async fn commanded(
    server: &RedisServer,
    url: &str,
    cause: Cause,
    begin: &[&str],
    end: &[&str],
) -> Report {
    let field = Field::begin(url, "20ms").await;
    field.phase(Phase::Outage);
    server.command(begin).unwrap();
    field.until_told_without_store(200).await;
    // Denials write nothing, and so go on well: it takes a while until it is noticed.
    field.until("it is down", |party| !party.is_well()).await;
    field.until_refused(&cause).await;
    server.command(end).unwrap();
    let recovered = field.recover().await;
    let report = field.end().await;
    assert_outage(&report, &cause, recovered, 0);
    assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_restarted_empty() {
    let _alone = alone().await;
    let mut server = start();
    let field = Field::begin(&server.url(), "20ms").await;
    field.phase(Phase::Outage);
    server.kill();
    field.until_told_without_store(300).await;
    let cause = Cause::ended("Connection refused");
    field.until_refused(&cause).await;
    tokio::task::block_in_place(|| server.restart()).unwrap();
    let recovered = field.recover().await;
    let report = field.end().await;
    // What the server held is lost: each limit is admitted once more.
    assert_outage(&report, &cause, recovered, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_for_five_seconds() {
    let _alone = alone().await;
    let server = start();
    let field = Field::begin(&server.url(), "20ms").await;
    field.phase(Phase::Outage);
    server.stop().unwrap();
    field.go_on_for(Duration::from_secs(5)).await;
    server.cont().unwrap();
    let recovered = field.recover().await;
    let report = field.end().await;
    assert_outage(&report, &Cause::SILENCE, recovered, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_by_its_operator() {
    let _alone = alone().await;
    let server = start();
    let field = Field::begin(&server.url(), "20ms").await;
    field.phase(Phase::Outage);
    let pause = Duration::from_millis(1500);
    server.command(&["CLIENT", "PAUSE", "1500", "ALL"]).unwrap();
    field.go_on_for(pause).await;
    let recovered = field.recover().await;
    assert_outage(&field.end().await, &Cause::SILENCE, recovered, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_scripts_forgotten_again_and_again() {
    let _alone = alone().await;
    let server = start();
    let field = Field::begin(&server.url(), AMPLE).await;
    field.phase(Phase::After);
    for _ in 0..50 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        field.go_on_for(Duration::from_millis(10)).await;
    }
    let report = field.end().await;
    report.assert_all_by_store();
    report.assert_swift(DEADLINE);
    report.assert_metrics(false);
    report.assert_admitted(1, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_memory_full() {
    let _alone = alone().await;
    let server = start();
    let (full, wide) = (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]);
    // It is writes that are refused.
    let cause = Cause { reasons: &["OOM command not allowed"], refusal: None };
    commanded(&server, &server.url(), cause, &full, &wide).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turned_into_a_replica_and_back() {
    let _alone = alone().await;
    let server = start();
    // Nobody listens on port 1: the server keeps what it holds, and takes no writes.
    let (replica, master) = (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]);
    let cause = Cause { reasons: &["READONLY You can't write"], refusal: None };
    commanded(&server, &server.url(), cause, &replica, &master).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loading_its_data() {
    let _alone = alone().await;
    let mut server = start();
    let field = Field::begin(&server.url(), "20ms").await;
    field.phase(Phase::Outage);
    tokio::task::block_in_place(|| server.restart_loading()).unwrap();
    field.until_told_without_store(300).await;
    // It saves what it will load, which takes a while, and ends, before it begins to.
    let reasons = &[
        "no answer within 20ms",
        "the server closed the connection",
        "Connection re",
        "Broken pipe",
    ];
    let cause = Cause { reasons, refusal: Some("LOADING") };
    field.until_refused(&cause).await;
    tokio::task::block_in_place(|| server.finish_loading()).unwrap();
    let recovered = field.recover().await;
    assert_outage(&field.end().await, &cause, recovered, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_user_deleted_and_back() {
    let _alone = alone().await;
    let rules = "~rl:* +@all";
    let server = Launch::new("redis-server").user("app", "secret", rules).start().unwrap();
    let url = server.url_as("app", "secret");
    let (gone, back) =
        (["ACL", "DELUSER", "app"], ["ACL", "SETUSER", "app", "on", ">secret", "~rl:*", "+@all"]);
    // The server closes the connections of a user that is no more.
    let cause = Cause::ended("WRONGPASS");
    commanded(&server, &url, cause, &gone, &back).await.assert_never_told("secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_clock_stepped_back_and_forward() {
    let _alone = alone().await;
    let server = Launch::new("redis-server").fake_time().start().unwrap();
    let field = Field::begin(&server.url(), AMPLE).await;
    field.phase(Phase::After);
    let hour_us = 3_600_000_000;
    for offset_us in [-hour_us, 0, -hour_us, 2 * hour_us] {
        tokio::task::block_in_place(|| server.set_clock_offset_us(offset_us)).unwrap();
        field.go_on_for(Duration::from_millis(300)).await;
    }
    let report = field.end().await;
    report.assert_all_by_store();
    report.assert_swift(DEADLINE);
    report.assert_metrics(false);
    // Its clock moved forward by one hour and by three, of the day in which all come back.
    report.assert_admitted(1, 4);
    report.assert_never_locked();
}
