//! `remaining` is a lower bound: whoever asks for so much in the same process at the same moment gets it,
//! however it is decided.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::advance;
use tollkeeper_core::{Check, Consistency, LeakMode, Quota, Rate};
use tollkeeper_hybrid::Hybrid;

use crate::store::{PER_SECOND, Scene};

/// Requests to each fleet.
const REQUESTS: u64 = 1_500;

/// Lets every call end that is under way; no time passes.
async fn settle() {
    for _ in 0..8 {
        yield_now().await;
    }
}

fn quotas() -> [Quota; 6] {
    let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
    [
        Quota::token_bucket(2 * PER_SECOND, rate).unwrap(),
        Quota::gcra(10 * PER_SECOND, rate).unwrap(),
        Quota::leaking_bucket(2 * PER_SECOND, rate, LeakMode::Meter, None).unwrap(),
        Quota::fixed_window(10 * PER_SECOND, 10_000_000).unwrap(),
        Quota::sliding_window_log(2 * PER_SECOND, 2_000_000).unwrap(),
        Quota::sliding_window_counter(2 * PER_SECOND, 2_000_000).unwrap(),
    ]
}

/// Every way in which a quota can be decided here by one of three.
fn ways(quota: &Quota) -> Vec<Consistency> {
    let ways = [
        Consistency::lease(quota, 3, None),
        Consistency::sync(quota, None, 1),
        Consistency::sync(quota, None, 4),
        Consistency::share(quota, Some(3)),
        Consistency::share(quota, None),
    ];
    ways.into_iter().flatten().collect()
}

/// Asks by chance, at a pace that changes, and now and then for all that is left.
async fn holds(scene: &Scene, seed: u64) -> u64 {
    let mut chance = seed;
    let mut below = |end: u64| {
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % end
    };
    let mut asked_for_all = 0;
    for nth in 0..REQUESTS {
        let node = usize::try_from(below(3)).unwrap();
        settle().await;
        let check = Check { cost: below(12), ..scene.check() };
        let first = scene.ask(node, check).await.unwrap().outcomes()[0];
        if first.remaining > 0 && below(20) == 0 {
            let all = Check { cost: first.remaining, ..check };
            let second = scene.ask(node, all).await.unwrap();
            let way = scene.consistency;
            assert!(second.allowed, "{way}, seed {seed}, request {nth}: {first:?}, {second:?}");
            asked_for_all += 1;
        }
        // Some are busy, and then rest.
        let us = if nth / 150 % 3 == 0 { below(400_000) } else { below(3_000) };
        advance(Duration::from_micros(us)).await;
    }
    asked_for_all
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_what_remains_gets_it() {
    for quota in quotas() {
        for consistency in ways(&quota) {
            for seed in 1..=3 {
                let scene = Scene { quota, consistency, ..Scene::new(3) };
                scene.nodes.iter().for_each(Hybrid::count_nodes);
                for _ in 0..600 {
                    advance(Duration::from_millis(10)).await;
                }
                let asked_for_all = holds(&scene, seed).await;
                // They found something left often enough to tell.
                assert!(asked_for_all > 10, "{consistency}: {asked_for_all}");
            }
        }
    }
}

/// It said that nothing was left of a key of which it knew nothing.
#[tokio::test(start_paused = true)]
async fn a_look_at_a_key_that_is_told_of_sees_what_is_left() {
    let mut scene = Scene::new(2);
    scene.consistency = Consistency::sync(&scene.quota, None, 1).unwrap();
    let look = Check { cost: 0, ..scene.check() };
    assert_eq!(scene.ask(0, look).await.unwrap().outcomes()[0].remaining, PER_SECOND);
    assert!(scene.ask(1, Check { cost: 100, ..look }).await.unwrap().allowed);
    advance(Duration::from_secs(60)).await;
    settle().await;
    assert!(scene.ask(1, Check { cost: 100, ..look }).await.unwrap().allowed);
    assert_eq!(scene.ask(0, look).await.unwrap().outcomes()[0].remaining, PER_SECOND - 100);
}
