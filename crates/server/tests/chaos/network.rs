//! What networks do: cut, swallow, slow down.

use std::time::Duration;

use tollkeeper_testkit::proxy::{Ending, Proxy};
use tollkeeper_testkit::redis_server::RedisServer;

use crate::alone;
use crate::field::Field;
use crate::report::{Cause, Phase};

const DEADLINE: Duration = Duration::from_millis(20);
const RECOVERY: Duration = Duration::from_secs(1);

/// Lets the way to the server go bad and good again, and asserts everything that must hold.
async fn outage(cause: Cause, go_bad: impl FnOnce(&Proxy), go_good: impl FnOnce(&Proxy)) {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let proxy = Proxy::before(server.port()).unwrap();
    let field = Field::begin(&proxy.url(), "20ms").await;
    field.phase(Phase::Outage);
    tokio::task::block_in_place(|| go_bad(&proxy));
    field.until_told_without_store(200).await;
    field.until_refused(&cause).await;
    field.go_on_for(Duration::from_secs(1)).await;
    tokio::task::block_in_place(|| go_good(&proxy));
    let recovered = field.recover().await;
    let report = field.end().await;
    report.assert_recovered(recovered, RECOVERY);
    report.assert_punctual(DEADLINE);
    report.assert_choices();
    report.assert_admitted(1, 0);
    report.assert_heard();
    report.assert_cause(&cause);
    report.assert_metrics(true);
    assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_reset_and_reset_again() {
    let _alone = alone().await;
    let cause = Cause::ended("Connection reset");
    outage(cause, |proxy| proxy.cut(Ending::Reset).unwrap(), |proxy| proxy.pass().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_closed_in_order_and_closed_again() {
    let _alone = alone().await;
    let cause = Cause::ended("the server closed the connection");
    outage(cause, |proxy| proxy.cut(Ending::Finish).unwrap(), |proxy| proxy.pass().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_refused() {
    let _alone = alone().await;
    let cause = Cause::ended("Connection refused");
    outage(cause, |proxy| proxy.refuse().unwrap(), |proxy| proxy.pass().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_half_open_and_the_old_ones_stay_so() {
    let _alone = alone().await;
    let heal = |proxy: &Proxy| {
        proxy.abandon().unwrap();
        proxy.pass().unwrap();
    };
    outage(Cause::SILENCE, |proxy| proxy.half_open().unwrap(), heal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_arrive_and_answers_vanish() {
    let _alone = alone().await;
    let heal = |proxy: &Proxy| {
        proxy.abandon().unwrap();
        proxy.pass().unwrap();
    };
    outage(Cause::SILENCE, |proxy| proxy.mute().unwrap(), heal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_trickle() {
    let _alone = alone().await;
    let trickle = |proxy: &Proxy| proxy.trickle(1, Duration::from_millis(5)).unwrap();
    outage(Cause::SILENCE, trickle, |proxy| proxy.pass().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_is_longer_than_the_deadline() {
    let _alone = alone().await;
    let slow = |proxy: &Proxy| proxy.delay(Duration::from_millis(30)).unwrap();
    outage(Cause::SILENCE, slow, |proxy| proxy.pass().unwrap()).await;
}
