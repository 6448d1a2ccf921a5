//! What is given back: of what was charged a while ago, part has flown in again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{
    Amendment, Change, Check, Clock, Consistency, Filter, Quota, Rate, Request, Store, Ticket,
};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_memory::Settings;
use tollkeeper_testkit::faulty::Mood;
use tollkeeper_testkit::passing::Passing;

use crate::store::{PER_SECOND, Scene};

const PERIOD_US: u64 = 100_000;

fn synced(parts: u64) -> Scene {
    let mut scene = Scene::new(1);
    scene.consistency = Consistency::sync(&scene.quota, None, parts).unwrap();
    scene
}

async fn pass(us: u64) {
    for _ in 0..us / 10_000 {
        advance(Duration::from_millis(10)).await;
    }
}

async fn take(scene: &Scene, units: u64) -> u64 {
    let answer = scene.ask(0, Check { cost: units, ..scene.check() }).await.unwrap();
    assert!(answer.allowed, "{answer:?}");
    answer.outcomes()[0].remaining
}

/// Whatever was given back was taken off what had just been admitted, however old it was: where
/// answers come late and are given back, all that was asked for went through.
#[tokio::test(start_paused = true)]
async fn what_was_charged_long_ago_is_not_given_back_of_what_is_charged_now() {
    let scene = synced(1);
    take(&scene, 1).await;
    let charged_at_us = Some(scene.clock.now_us());
    take(&scene, 500).await;
    // All of it has flown in again.
    pass(2_000_000).await;
    take(&scene, 1).await;
    let left = take(&scene, 600).await;
    let Check { limit, quota, key, consistency, .. } = scene.check();
    let change = Change::Refund { units: 500, charged_at_us };
    let refund = Amendment { limit, quota, key, consistency, change };
    scene.nodes[0].amend(&[refund]).await[0].as_ref().unwrap();
    assert_eq!(take(&scene, 0).await, left);
    // Nor by the store.
    pass(2 * PERIOD_US).await;
    let flown = 2 * PERIOD_US * PER_SECOND / 1_000_000;
    assert!(take(&scene, 0).await <= left + flown);
}

/// It said that units were charged when they were spent: who gave them back got back as well what
/// had flown in since they were drawn.
#[tokio::test(start_paused = true)]
async fn units_of_a_lease_are_charged_since_they_were_drawn() {
    let scene = Scene::new(1);
    scene.flood(PER_SECOND / 2, 2).await;
    let mut seen = 0;
    for _ in 0..50 {
        let answer = scene.ask(0, scene.check()).await.unwrap();
        let waited_us = answer.now_us - answer.charged_at_us.unwrap();
        assert!(answer.outcomes()[0].here && answer.allowed);
        assert!(waited_us <= 2 * 1_000_000, "{waited_us}");
        seen = seen.max(waited_us);
        advance(Duration::from_millis(1)).await;
    }
    assert!(seen >= 10_000, "none was drawn before: {seen}");
}

/// Both had the time at which the lease was drawn. The log has nothing of that time, and so a request
/// that did not count counted there.
#[tokio::test(start_paused = true)]
async fn what_the_store_was_charged_beside_a_lease_comes_back_by_its_own_time() {
    let scene = Scene::new(1);
    scene.flood(PER_SECOND / 2, 2).await;
    let log = Quota::sliding_window_log(9, 60_000_000).unwrap();
    for _ in 0..5 {
        advance(Duration::from_millis(7)).await;
        let checks = [scene.check(), Check::new("log", &log, "hot", 1)];
        let request = Request::new(checks, None).unwrap();
        let answer = scene.nodes[0].decide_one(&request).await.unwrap();
        assert!(answer.allowed && answer.outcomes()[0].here);
        assert_eq!(answer.outcomes()[1].remaining, 8, "the one before came back");
        assert_eq!(answer.charged_at(1), Some(scene.clock.now_us()));
        assert_eq!(answer.charged_at_us, answer.charged_at(0), "it is drawn before");
        let refunds = [0, 1].map(|nth| {
            let Check { limit, quota, key, cost: units, consistency, .. } = checks[nth];
            let change = Change::Refund { units, charged_at_us: answer.charged_at(nth) };
            Amendment { limit, quota, key, consistency, change }
        });
        scene.nodes[0].amend(&refunds).await[1].as_ref().unwrap();
    }
}

/// The time of this process, which is not the store's.
#[derive(Debug)]
struct Behind(Passing);

impl Clock for Behind {
    fn now_us(&self) -> u64 {
        self.0.now_us() - 3_600_000_000
    }
}

/// It had the store's time, by which it had been charged in an hour, or an hour ago.
#[tokio::test(start_paused = true)]
async fn a_share_is_charged_by_the_clock_of_its_process() {
    let scene = Scene::new(1);
    let (store, clock) = (scene.common.clone(), Arc::new(Behind(scene.clock.clone())));
    let node = Hybrid::new(store, clock, Duration::from_millis(20), Settings::default(), 0);
    let share = Consistency::share(&scene.quota, Some(2)).unwrap();
    let whole = Quota::token_bucket(9, Rate::new(1, 60_000_000).unwrap()).unwrap();
    let checks = [
        Check { consistency: share, ..Check::new("part", &scene.quota, "hot", 1) },
        Check::new("whole", &whole, "hot", 1),
    ];
    pass(100_000).await;
    let answer = node.decide_one(&Request::new(checks, None).unwrap()).await.unwrap();
    assert!(answer.allowed);
    let now_us = scene.clock.now_us();
    assert_eq!(answer.charged_at(0), Some(now_us - 3_600_000_000));
    assert_eq!(answer.charged_at(1), Some(now_us));
}

/// The part that had been told was told again, each period, for as long as the next one's server was
/// away.
#[tokio::test(start_paused = true)]
async fn a_part_is_told_once_though_the_next_one_cannot_be_asked() {
    let scene = synced(4);
    take(&scene, 1).await;
    take(&scene, 100).await;
    scene.table().set(Mood::Partly);
    pass(20 * PERIOD_US).await;
    scene.table().set(Mood::Well);
    let shown = scene.common.inspect(Filter::default(), 9).await.unwrap();
    // A part has 250 in a second: 100 that were told once have flown in long ago.
    assert!(shown.iter().all(|entry| entry.ttl_us < 400_000), "{shown:?}");
}

/// With the name of its part it was too long to be asked for, which looked as if the store had failed.
#[tokio::test(start_paused = true)]
async fn the_longest_key_can_be_reserved_of_though_it_is_split() {
    let scene = synced(64);
    let key = "k".repeat(tollkeeper_core::limits::MAX_KEY_BYTES);
    for id in 0..64 {
        let ticket = Ticket { id, reserve_for_us: Some(1_000_000) };
        let request = Request::new([Check { key: &key, ..scene.check() }], Some(ticket)).unwrap();
        assert!(scene.nodes[0].decide_one(&request).await.unwrap().allowed);
    }
}
