//! A limit with about as many units as there are processes: whether each has a part or the store hands
//! it out, nobody is over.

use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{
    Amendment, Change, Check, Clock, Consistency, Quota, Rate, Request, Store, Ticket,
};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_memory::Settings;

use crate::store::{Scene, node};

/// The limit: so many, which flow in in ten seconds.
const UNITS: u64 = 10;
const PER_SECOND: u64 = 1;

/// So many processes, each of which has had the time to fill its part.
async fn parted(nodes: u32) -> Scene {
    let mut scene = Scene::new(nodes);
    scene.quota = Quota::token_bucket(UNITS, Rate::new(PER_SECOND, 1_000_000).unwrap()).unwrap();
    scene.consistency = Consistency::share(&scene.quota, None).unwrap();
    scene.nodes.iter().for_each(Hybrid::count_nodes);
    pass(20_000_000).await;
    scene
}

async fn pass(us: u64) {
    // Whoever waits meanwhile wakes in between.
    for _ in 0..us.div_ceil(10_000) {
        advance(Duration::from_micros(10_000)).await;
    }
}

/// Asks each process again and again; what was admitted, and how much of it by parts.
async fn flood(scene: &Scene, seconds: u64, admitted: &mut Vec<(u64, u64)>) -> [u64; 2] {
    let (mut here, mut there) = (0, 0);
    for _ in 0..seconds * 20 {
        for node in 0..scene.nodes.len() {
            let Ok(answer) = scene.ask(node, scene.check()).await else { continue };
            if answer.allowed {
                admitted.push((scene.clock.now_us(), 1));
                let by = if answer.outcomes()[0].here { &mut here } else { &mut there };
                *by += 1;
            }
        }
        pass(50_000).await;
    }
    [here, there]
}

/// Ten had used their parts, and when one more came the store handed out all of it again.
#[tokio::test(start_paused = true)]
async fn one_process_more_than_units_and_one_less_again() {
    let mut scene = parted(10).await;
    let mut admitted = Vec::new();
    let [here, there] = flood(&scene, 5, &mut admitted).await;
    assert!(here >= UNITS && there == 0, "{here}, {there}");
    scene.nodes.push(node(&scene.common, &scene.clock, Settings::default(), 99));
    scene.nodes[10].count_nodes();
    let [_, there] = flood(&scene, 30, &mut admitted).await;
    // All but what nobody hands out in the first seconds.
    assert!(there >= 22 * PER_SECOND, "{there}");
    scene.nodes.truncate(10);
    flood(&scene, 30, &mut admitted).await;
    let [here, there] = flood(&scene, 30, &mut admitted).await;
    assert!(here >= 24 * PER_SECOND && there == 0, "{here}, {there}");
    assert_eq!(scene.over(&admitted), 0);
}

/// What costs more than a part has is denied for as long as there are so many, and says so.
#[tokio::test(start_paused = true)]
async fn what_costs_more_than_a_part_is_never_admitted() {
    let scene = parted(3).await;
    let answer = scene.ask(0, Check { cost: 4, ..scene.check() }).await.unwrap();
    let outcome = answer.outcomes()[0];
    assert_eq!((answer.allowed, outcome.retry_after_us, outcome.remaining), (false, None, 3));
    assert!(scene.ask(0, Check { cost: 3, ..scene.check() }).await.unwrap().allowed);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_hands_out_is_given_back_to_it() {
    let scene = parted(11).await;
    let look = Check { cost: 0, ..scene.check() };
    let left = async |node| scene.ask(node, look).await.unwrap().outcomes()[0].remaining;
    assert!(scene.ask(0, Check { cost: 8, ..scene.check() }).await.unwrap().allowed);
    assert_eq!(left(1).await, 2);
    let Check { limit, quota, key, consistency, .. } = scene.check();
    let amend = |change| Amendment { limit, quota, key, consistency, change };
    let refund = Change::Refund { units: 3, charged_at_us: None };
    scene.nodes[2].amend(&[amend(refund)]).await[0].as_ref().unwrap();
    assert_eq!(left(3).await, 5);
    let ticket = Some(Ticket { id: 7, reserve_for_us: Some(1_000_000) });
    let reserved = Request::new([Check { cost: 5, ..scene.check() }], ticket).unwrap();
    assert!(scene.nodes[4].decide_one(&reserved).await.unwrap().allowed);
    assert_eq!(left(5).await, 0);
    let settle = Change::Settle { id: 7, actual: 1 };
    scene.nodes[6].amend(&[amend(settle)]).await[0].as_ref().unwrap();
    assert_eq!(left(7).await, 4);
}
