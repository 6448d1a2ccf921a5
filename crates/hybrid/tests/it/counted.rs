//! What a store over another tells of itself.

use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{Check, Clock, Consistency, Filter, Quota, Rate, Store};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_testkit::faulty::Mood;

use crate::store::{Common, PER_SECOND, Scene};

/// Calls of a kind: made, and failed.
fn calls(node: &Hybrid<Common>, kind: &str) -> (u64, u64) {
    let stats = node.stats();
    let calls = stats.calls.iter().find(|calls| calls.kind == kind).unwrap();
    (calls.made, calls.failed)
}

fn keys(node: &Hybrid<Common>) -> [u64; 3] {
    node.stats().keys.map(|(_, keys)| keys)
}

async fn pass(us: u64) {
    // Whoever waits meanwhile wakes in between.
    for _ in 0..us.div_ceil(10_000) {
        advance(Duration::from_micros(10_000)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_drawn_and_given_back() {
    let rate = Rate::new(PER_SECOND / 10, 1_000_000).unwrap();
    for quota in [
        Quota::fixed_window(100 * PER_SECOND, 100_000_000).unwrap(),
        Quota::token_bucket(100 * PER_SECOND, rate).unwrap(),
    ] {
        let mut scene = Scene::new(1);
        scene.quota = quota;
        scene.consistency = Consistency::lease(&scene.quota, 1, Some(100_000)).unwrap();
        let node = &scene.nodes[0];
        assert_eq!(keys(node), [0; 3]);
        // One that is not busy is the store's.
        scene.ask(0, Check { key: "cold", ..scene.check() }).await.unwrap();
        assert_eq!((keys(node), calls(node, "draw")), ([0; 3], (0, 0)));
        let asked = scene.table().calls();
        // So long that there are calls to spare.
        scene.flood(PER_SECOND, 5).await;
        assert_eq!(keys(node), [1, 0, 0]);
        let (drawn, failed) = calls(node, "draw");
        let asked = u64::try_from(scene.table().calls() - asked).unwrap();
        assert!(drawn > 1 && drawn <= asked && failed == 0, "{drawn} draws of {asked} calls");
        // What was just drawn lives for so long that it is found when nobody comes.
        while calls(node, "draw").0 == drawn {
            scene.ask(0, scene.check()).await.unwrap();
            advance(Duration::from_millis(2)).await;
        }
        let held = scene.ask(0, scene.check()).await.unwrap().outcomes()[0].remaining;
        let (left, begun_us) = (store_left(&scene).await, scene.clock.now_us());
        pass(5_000_000).await;
        assert_eq!((keys(node), calls(node, "give_back")), ([0; 3], (1, 0)));
        assert_eq!((calls(node, "report"), calls(node, "count")), ((0, 0), (0, 0)));
        assert_eq!(node.stats().nodes, None, "nobody counts");
        // It came back whole, beside what has flown in.
        let flown_us = if quota.bucket().is_some() { scene.clock.now_us() - begun_us } else { 0 };
        let more = store_left(&scene).await - left;
        let expected = held + flown_us * (PER_SECOND / 10) / 1_000_000;
        assert!(more.abs_diff(expected) <= 1 && held > 9, "{more} of {held}, {expected}");
    }
}

/// What the store has left of the key, whoever holds the rest.
async fn store_left(scene: &Scene) -> u64 {
    let exact = Check { consistency: Consistency::Exact, cost: 0, ..scene.check() };
    scene.ask(0, exact).await.unwrap().outcomes()[0].remaining
}

#[tokio::test(start_paused = true)]
async fn calls_without_an_answer_are_counted() {
    let mut scene = Scene::new(1);
    scene.consistency = Consistency::sync(&scene.quota, None, 1).unwrap();
    scene.flood(100, 1).await;
    let node = &scene.nodes[0];
    let (reports, failed) = calls(node, "report");
    // Ten a second, the last of which may be on its way.
    assert!((8..=10).contains(&reports) && failed == 0, "{reports} reports, {failed} failed");
    assert_eq!((keys(node), calls(node, "draw")), ([0, 1, 0], (1, 0)));
    for mood in [Mood::Refusing, Mood::Silent] {
        let (made, failed) = calls(node, "report");
        scene.table().set(mood);
        scene.ask(0, scene.check()).await.ok();
        pass(500_000).await;
        let (later, failed_later) = calls(node, "report");
        assert!(later > made && later - made == failed_later - failed, "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_counts_says_how_many_there_are() {
    let mut scene = Scene::new(2);
    scene.consistency = Consistency::share(&scene.quota, None).unwrap();
    scene.nodes.iter().for_each(Hybrid::count_nodes);
    pass(5_000_000).await;
    assert!(scene.ask(0, scene.check()).await.unwrap().allowed);
    let node = &scene.nodes[0];
    assert_eq!((keys(node), node.stats().nodes), ([0, 0, 1], Some(2)));
    let (counted, failed) = calls(node, "count");
    assert!((5..=6).contains(&counted) && failed == 0, "{counted} counts, {failed} failed");
    scene.table().set(Mood::Refusing);
    pass(3_000_000).await;
    let (_, failed) = calls(node, "count");
    assert!((2..=3).contains(&failed), "{failed} counts failed");
}

/// The task of its first time found it again, and a second one was begun.
#[tokio::test(start_paused = true)]
async fn a_policy_that_comes_back_is_not_looked_after_twice() {
    let mut scene = Scene::new(1);
    let (first, rate) = (scene.quota, Rate::new(PER_SECOND, 1_000_000).unwrap());
    let other = Quota::token_bucket(2 * PER_SECOND, rate).unwrap();
    scene.consistency = Consistency::sync(&first, None, 1).unwrap();
    scene.flood(PER_SECOND, 1).await;
    for quota in [other, first] {
        scene.quota = quota;
        scene.ask(0, scene.check()).await.unwrap();
    }
    let before = calls(&scene.nodes[0], "report").0;
    scene.flood(PER_SECOND, 2).await;
    let reports = calls(&scene.nodes[0], "report").0 - before;
    assert!((18..=21).contains(&reports), "{reports} in twenty periods");
}

/// It heard of one process, took all of the limit, and the other still had its part.
#[tokio::test(start_paused = true)]
async fn a_permit_that_was_got_without_hearing_of_it_is_as_new() {
    let mut scene = Scene::new(2);
    scene.consistency = Consistency::share(&scene.quota, None).unwrap();
    let (node, table) = (&scene.nodes[0], scene.table());
    node.count_nodes();
    pass(900_000).await;
    scene.nodes[1].count_nodes();
    pass(4_050_000).await;
    assert_eq!(node.stats().nodes, Some(2));
    // The store forgets everything. It hears that it is forgotten, and not that it has a permit again;
    // the other is not heard before it asks once more.
    table.behind().reset(Filter::default()).await.unwrap();
    let made = calls(node, "count").0;
    table.set_after(1, Mood::RanSilent);
    pass(500_000).await;
    assert_eq!(calls(node, "count"), (made + 1, 1));
    table.set_after(usize::MAX / 2, Mood::Well);
    table.set(Mood::Refusing);
    pass(570_000).await;
    table.set(Mood::Well);
    pass(100_000).await;
    assert_eq!((calls(node, "count"), node.stats().nodes), ((made + 2, 1), Some(2)));
    pass(3_000_000).await;
    assert_eq!(node.stats().nodes, Some(2));
}
