//! The store over another whose limits are told of or shared: several processes on one table, in time
//! that passes as they wait.

use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{
    Amendment, Change, Check, Clock, Consistency, Filter, Quota, Request, Store, Ticket, WhenFull,
};
use tollkeeper_memory::Settings;
use tollkeeper_testkit::faulty::Mood;

use crate::store::{PER_SECOND, Scene, node};

const PERIOD_US: u64 = 100_000;

fn synced(nodes: u32, parts: u64) -> Scene {
    let mut scene = Scene::new(nodes);
    scene.consistency = Consistency::sync(&scene.quota, None, parts).unwrap();
    scene
}

fn shared(nodes: u32) -> Scene {
    let mut scene = Scene::new(nodes);
    scene.consistency = Consistency::share(&scene.quota, None).unwrap();
    scene.nodes.iter().for_each(|node| node.count_nodes());
    scene
}

async fn pass(us: u64) {
    // Whoever waits meanwhile wakes in between.
    for _ in 0..us.div_ceil(10_000) {
        advance(Duration::from_micros(10_000)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_told_now_and_then_is_decided_here_and_paid_back() {
    let scene = synced(4, 1);
    let admitted = scene.flood(10 * PER_SECOND, 10).await;
    let excess = scene.over(&admitted);
    // All that is asked for in a period.
    assert!(excess <= 10 * PER_SECOND * PERIOD_US / 1_000_000, "{excess}");
    let units: u64 = admitted.iter().map(|(_, units)| units).sum();
    assert!((10 * PER_SECOND..=11 * PER_SECOND + excess).contains(&units), "{units}");
    let calls = scene.table().calls();
    assert!(calls <= 4 * 10 * 10 + 4 * 5, "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_split_lies_in_its_parts() {
    let scene = synced(4, 4);
    let admitted = scene.flood(10 * PER_SECOND, 10).await;
    let excess = scene.over(&admitted);
    assert!(excess <= 10 * PER_SECOND * PERIOD_US / 1_000_000, "{excess}");
    let units: u64 = admitted.iter().map(|(_, units)| units).sum();
    assert!(units > 10 * PER_SECOND * 97 / 100, "{units}");
    // Somebody is called as a part is, elsewhere.
    let namesake = Check::new("other", &scene.quota, "hot#3", 1);
    assert!(scene.ask(0, namesake).await.unwrap().allowed);
    let filter = Filter { key: Some("hot"), split: &["api"], ..Filter::default() };
    // A process that has never met the key.
    let new = node(&scene.common, &scene.clock, Settings::default(), 9);
    let shown = new.inspect(filter, 100).await.unwrap();
    let mut keys: Vec<_> = shown.iter().map(|entry| entry.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["hot#0", "hot#1", "hot#2", "hot#3"]);
    let calls = scene.table().calls();
    assert_eq!(new.reset(filter).await.unwrap(), 4);
    assert_eq!(scene.table().calls(), calls + 1, "each looks at every key");
    assert_eq!(scene.common.inspect(Filter::default(), 9).await.unwrap()[0].limit, "other");
    scene.nodes[0].reset(filter).await.unwrap();
    assert!(scene.ask(0, scene.check()).await.unwrap().allowed, "nothing is used any longer");
}

#[tokio::test(start_paused = true)]
async fn a_cold_key_is_drawn_from_the_store_by_what_it_takes() {
    let scene = synced(2, 1);
    for nth in 1..=20 {
        let answer = scene.ask(nth % 2, scene.check()).await.unwrap();
        assert!(answer.allowed);
        pass(500_000).await;
    }
    // A draw for each; and some told that there was nothing new.
    let calls = scene.table().calls();
    assert!((20..=70).contains(&calls), "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_told_yet_is_given_back_here() {
    let scene = synced(1, 1);
    // Known, and nothing untold.
    assert!(scene.ask(0, scene.check()).await.unwrap().allowed);
    let check = Check { cost: 100, ..scene.check() };
    let before = scene.ask(0, check).await.unwrap().outcomes()[0].remaining;
    let calls = scene.table().calls();
    let change = Change::Refund { units: 100, charged_at_us: Some(scene.clock.now_us()) };
    let Check { limit, quota, key, consistency, .. } = check;
    let refund = Amendment { limit, quota, key, consistency, change };
    scene.nodes[0].amend(&[refund]).await[0].as_ref().unwrap();
    assert_eq!(scene.table().calls(), calls, "nobody was asked");
    let after = scene.ask(0, check).await.unwrap().outcomes()[0].remaining;
    assert_eq!(after, before);
    // What was told is the store's.
    pass(3 * PERIOD_US).await;
    let calls = scene.table().calls();
    scene.nodes[0].amend(&[refund]).await[0].as_ref().unwrap();
    assert!(scene.table().calls() > calls);
}

/// What was drawn for it was lost: whoever asked now and then, and was denied by another limit, used this one up.
#[tokio::test(start_paused = true)]
async fn what_another_limit_denies_is_not_charged() {
    for parts in [1, 4] {
        for every_us in [5_000, 130_000, 1_000_000] {
            let mut scene = synced(1, parts);
            scene.quota = Quota::fixed_window(PER_SECOND, 1_000_000_000).unwrap();
            scene.consistency = Consistency::sync(&scene.quota, None, parts).unwrap();
            let none = Quota::fixed_window(1, 1_000_000_000).unwrap();
            let few = Check::new("few", &none, "hot", 1);
            assert!(scene.ask(0, few).await.unwrap().allowed);
            let both = Request::new([scene.check(), few], None).unwrap();
            for _ in 0..50 {
                assert!(!scene.nodes[0].decide_one(&both).await.unwrap().allowed);
                pass(every_us).await;
            }
            pass(10 * PERIOD_US).await;
            // Whoever asks the store finds all of it.
            let new = node(&scene.common, &scene.clock, Settings::default(), 9);
            let look = Request::new([Check { cost: 0, ..scene.check() }], None).unwrap();
            let left = new.decide_one(&look).await.unwrap().outcomes()[0].remaining;
            assert_eq!(left, PER_SECOND / parts, "every {every_us}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_store_said_counts_for_two_periods() {
    let scene = synced(1, 1);
    scene.flood(PER_SECOND / 2, 1).await;
    scene.table().set(Mood::Refusing);
    let mut decided = 0;
    while scene.ask(0, scene.check()).await.is_ok() {
        decided += 1;
        advance(Duration::from_millis(5)).await;
    }
    assert!((10..=45).contains(&decided), "{decided} in steps of 5 ms");
    // What is known then, others begin with.
    let left = scene.nodes[0].left_per_mille(&scene.check()).unwrap();
    assert!((500..=1000).contains(&left), "{left}");
    scene.table().set(Mood::Well);
    pass(3 * PERIOD_US).await;
    assert!(scene.ask(0, scene.check()).await.is_ok());
}

/// The task that looked after a key by the old policy had reported for the new one, which then waited
/// for an answer that nobody gave it.
#[tokio::test(start_paused = true)]
async fn another_policy_goes_on_where_the_old_one_was() {
    let mut scene = synced(1, 1);
    let mut admitted = scene.flood(10 * PER_SECOND, 2).await;
    scene.consistency = Consistency::sync(&scene.quota, Some(50_000), 1).unwrap();
    for _ in 0..3 {
        let more = scene.flood(10 * PER_SECOND, 2).await;
        assert!(more.len() > 1_900, "{}", more.len());
        admitted.extend(more);
    }
    let excess = scene.over(&admitted);
    assert!(excess <= 10 * PER_SECOND * PERIOD_US / 1_000_000, "{excess}");
}

#[tokio::test(start_paused = true)]
async fn each_has_its_part_of_what_is_shared_once_all_have_heard() {
    let scene = shared(4);
    pass(500_000).await;
    let answer = scene.ask(0, scene.check()).await.unwrap();
    let outcome = answer.outcomes()[0];
    assert!(!answer.allowed && (1_000_000..=3_000_000).contains(&outcome.retry_after_us.unwrap()));
    pass(4_000_000).await;
    let calls = scene.table().calls();
    let admitted = scene.flood(10 * PER_SECOND, 10).await;
    assert_eq!(scene.over(&admitted), 0);
    let units: u64 = admitted.iter().map(|(_, units)| units).sum();
    assert!((98 * PER_SECOND / 10..=11 * PER_SECOND).contains(&units), "{units}");
    assert_eq!(scene.nodes[0].nodes(), Some(4));
    let calls = scene.table().calls() - calls;
    assert!(calls <= 4 * 2 * 11, "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn who_hears_nothing_of_the_others_does_not_serve() {
    let scene = shared(2);
    pass(5_000_000).await;
    assert!(scene.ask(0, scene.check()).await.unwrap().allowed);
    scene.table().set(Mood::Refusing);
    pass(1_500_000).await;
    assert!(scene.ask(0, scene.check()).await.is_ok(), "what was heard still counts");
    pass(2_000_000).await;
    assert!(scene.ask(0, scene.check()).await.is_err());
    assert_eq!(scene.nodes[0].nodes(), Some(2), "as many as there were");
    scene.table().set(Mood::Well);
    pass(5_000_000).await;
    assert!(scene.ask(0, scene.check()).await.unwrap().allowed);
}

/// It had asked the store about a state that only this process can have.
#[tokio::test(start_paused = true)]
async fn what_is_given_back_of_a_share_asks_nobody() {
    let mut scene = Scene::new(1);
    scene.consistency = Consistency::share(&scene.quota, Some(1)).unwrap();
    pass(5_000_000).await;
    let check = scene.check();
    assert!(scene.ask(0, check).await.unwrap().allowed);
    pass(5_000_000).await;
    let Check { limit, quota, key, consistency, .. } = check;
    let change = Change::Refund { units: 1, charged_at_us: None };
    let refund = Amendment { limit, quota, key, consistency, change };
    scene.nodes[0].amend(&[refund]).await[0].as_ref().unwrap();
    assert_eq!(scene.table().calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_permit_and_a_share_are_decided_together() {
    let scene = shared(1);
    pass(5_000_000).await;
    let permits = Quota::concurrency(1, 1_000_000).unwrap();
    let mut left = 0;
    for (id, is_admitted) in [(1, true), (2, false), (3, false)] {
        let ticket = Ticket { id, reserve_for_us: None };
        let checks = [scene.check(), Check::new("few", &permits, "hot", 1)];
        let request = Request::new(checks, Some(ticket)).unwrap();
        let answer = scene.nodes[0].decide_one(&request).await.unwrap();
        assert_eq!(answer.allowed, is_admitted);
        left = answer.outcomes()[0].remaining;
    }
    // What the permits denied was put back.
    let after = scene.ask(0, scene.check()).await.unwrap().outcomes()[0].remaining;
    assert!(after + 1 >= left, "{after} after {left}");
}

#[tokio::test(start_paused = true)]
async fn tables_of_parts_have_the_bounds_that_are_set() {
    let mut scene = shared(1);
    let bounds = Settings { max_keys: 2, when_full: WhenFull::Deny, names: false };
    scene.nodes[0] = node(&scene.common, &scene.clock, bounds, 0);
    scene.nodes[0].count_nodes();
    pass(5_000_000).await;
    let mut allowed = Vec::new();
    for key in ["a", "b", "c", "a"] {
        allowed.push(scene.ask(0, Check { key, ..scene.check() }).await.unwrap().allowed);
    }
    assert_eq!(allowed, [true, true, false, true]);
    let of = |key| Filter { key, ..Filter::default() };
    assert_eq!(scene.nodes[0].inspect(of(Some("b")), 9).await.unwrap().len(), 1);
    assert_eq!(scene.nodes[0].reset(of(Some("b"))).await.unwrap(), 1);
    assert!(scene.ask(0, Check { key: "c", ..scene.check() }).await.unwrap().allowed);
}

/// A process that lost the store began its own limiter full, whatever it had used of its part.
#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_part_is_known_when_the_store_is_not_there() {
    let scene = shared(1);
    pass(10_000_000).await;
    assert!(
        scene.ask(0, Check { cost: PER_SECOND * 3 / 4, ..scene.check() }).await.unwrap().allowed
    );
    assert_eq!(scene.nodes[0].left_per_mille(&scene.check()), Some(250));
    scene.table().set(Mood::Refusing);
    pass(400_000).await;
    assert_eq!(scene.nodes[0].left_per_mille(&scene.check()), Some(650));
    pass(20_000_000).await;
    assert_eq!(scene.nodes[0].left_per_mille(&scene.check()), Some(1000));
}

/// A new policy that says how many there are gave every key a full part once more.
#[tokio::test(start_paused = true)]
async fn who_is_told_the_number_after_it_was_counted_has_what_was_left() {
    let mut scene = shared(1);
    pass(10_000_000).await;
    let all = Check { cost: PER_SECOND, ..scene.check() };
    assert!(scene.ask(0, all).await.unwrap().allowed);
    scene.consistency = Consistency::share(&scene.quota, Some(1)).unwrap();
    assert!(!scene.ask(0, Check { cost: 2, ..scene.check() }).await.unwrap().allowed);
    // It goes on to be counted, which is no reason to begin anew.
    pass(5_000_000).await;
    assert!(scene.ask(0, Check { cost: PER_SECOND, ..scene.check() }).await.unwrap().allowed);
    pass(400_000).await;
    assert_eq!(scene.nodes[0].left_per_mille(&scene.check()), Some(400));
}
