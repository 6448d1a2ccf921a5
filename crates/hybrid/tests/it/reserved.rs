//! What is reserved in one process and settled in another, of limits that are shared or split: several
//! processes on one table, in time that passes as they wait.

use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{
    Amended, Amendment, Answer, Change, Check, Clock, Consistency, Filter, LeakMode, Quota, Rate,
    Request, Settled, Store, StoreError, Ticket,
};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_memory::Settings;
use tollkeeper_testkit::faulty::Mood;
use tollkeeper_testkit::fleet::{BEGIN_US, Skew, judge};

use crate::store::{PER_SECOND, Scene, node};

const LIFE_US: u64 = 60_000_000;

fn shared(quota: Quota, nodes: u32) -> Scene {
    let consistency = Consistency::share(&quota, Some(nodes.into())).unwrap();
    Scene { quota, consistency, ..Scene::new(nodes) }
}

fn split(parts: u64) -> Scene {
    let mut scene = Scene::new(2);
    scene.consistency = Consistency::sync(&scene.quota, None, parts).unwrap();
    scene
}

/// A thousand a second, a thousand at once.
fn bucket() -> Quota {
    Quota::token_bucket(PER_SECOND, Rate::new(PER_SECOND, 1_000_000).unwrap()).unwrap()
}

/// A thousand at once, of which hardly any flow in while a test runs.
fn slow_bucket() -> Quota {
    Quota::token_bucket(PER_SECOND, Rate::new(PER_SECOND, 3_600_000_000).unwrap()).unwrap()
}

async fn pass(us: u64) {
    // Whoever waits meanwhile wakes in between.
    for _ in 0..us.div_ceil(10_000) {
        advance(Duration::from_micros(10_000)).await;
    }
}

/// Long enough that every part is full.
async fn rest() {
    advance(Duration::from_secs(7_200)).await;
}

impl Scene {
    async fn reserve(&self, node: usize, id: u128, cost: u64) -> Result<Answer, StoreError> {
        let ticket = Ticket { id, reserve_for_us: Some(LIFE_US) };
        let request = Request::new([Check { cost, ..self.check() }], Some(ticket)).unwrap();
        assert!(self.nodes[node].decide_at_once(&request).is_none(), "its record is the store's");
        self.nodes[node].decide_one(&request).await
    }

    async fn settle(&self, node: usize, id: u128, actual: u64) -> Result<Amended, StoreError> {
        let Check { limit, quota, key, consistency, .. } = self.check();
        let change = Change::Settle { id, actual };
        let amendment = Amendment { limit, quota, key, consistency, change };
        self.nodes[node].amend(&[amendment]).await.remove(0)
    }

    /// What a process has left.
    async fn left(&self, node: usize) -> u64 {
        let look = self.ask(node, Check { cost: 0, ..self.check() }).await.unwrap();
        look.outcomes()[0].remaining
    }

    /// Takes all that a process has.
    async fn spend_all(&self, node: usize) -> u64 {
        let cost = self.left(node).await;
        assert!(self.ask(node, Check { cost, ..self.check() }).await.unwrap().allowed);
        assert_eq!(self.left(node).await, 0);
        cost
    }
}

fn settled(amended: Result<Amended, StoreError>) -> Settled {
    match amended {
        Ok(Amended::Settled(settled)) => settled,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_process_reserved_and_did_not_use_another_has() {
    let scene = shared(slow_bucket(), 4);
    rest().await;
    assert_eq!(scene.left(0).await, 250);
    let answer = scene.reserve(0, 1, 200).await.unwrap();
    assert!(answer.allowed && answer.outcomes()[0].here && answer.charged_at_us.is_some());
    assert_eq!((answer.outcomes()[0].limit, answer.outcomes()[0].remaining), (PER_SECOND, 50));
    // More than its part has nobody.
    assert!(!scene.reserve(0, 2, 51).await.unwrap().allowed);
    scene.spend_all(1).await;
    let ended = settled(scene.settle(1, 1, 60).await);
    assert_eq!((ended.forgiven, ended.reserved), (0, 200));
    assert_eq!((scene.left(0).await, scene.left(1).await), (50, 140));
    // It takes effect once, wherever it comes again.
    for node in 0..4 {
        assert_eq!(scene.settle(node, 1, 0).await, Ok(Amended::Repeated));
        assert_eq!(scene.settle(node, 2, 0).await, Ok(Amended::Unknown), "it was denied");
    }
    assert_eq!((scene.left(0).await, scene.left(1).await), (50, 140));
}

#[tokio::test(start_paused = true)]
async fn what_was_used_on_top_is_charged_where_it_is_told_up_to_one_further_part() {
    let scene = shared(slow_bucket(), 4);
    rest().await;
    for (id, node) in [(1, 0), (2, 1)] {
        assert!(scene.reserve(0, id, 10).await.unwrap().allowed);
        let before = scene.left(node).await;
        assert_eq!(settled(scene.settle(node, id, 110).await).forgiven, 0);
        assert_eq!(scene.left(node).await, before - 100);
    }
    // 250 that it has, and as much of debt.
    assert!(scene.reserve(0, 3, 10).await.unwrap().allowed);
    assert_eq!(settled(scene.settle(2, 3, 10 + 600).await).forgiven, 100);
    let denied = scene.ask(2, scene.check()).await.unwrap();
    assert!(!denied.allowed);
    assert_eq!(denied.outcomes()[0].retry_after_us, Some(251 * 4 * 3_600_000));
}

/// A process that had just come told all of it as forgiven, though the store had charged it.
#[tokio::test(start_paused = true)]
async fn what_is_too_little_to_share_is_paid_in_the_store_whoever_settles_it() {
    let mut scene = Scene::new(3);
    scene.quota = Quota::token_bucket(2, Rate::new(1, 10_000_000).unwrap()).unwrap();
    scene.consistency = Consistency::share(&scene.quota, None).unwrap();
    scene.nodes.iter().for_each(Hybrid::count_nodes);
    // The store begins with nothing.
    pass(30_000_000).await;
    assert!(scene.reserve(0, 1, 1).await.unwrap().allowed);
    assert!(scene.reserve(0, 2, 1).await.unwrap().allowed);
    scene.nodes.push(node(&scene.common, &scene.clock, Settings::default(), 9));
    scene.nodes[3].count_nodes();
    pass(1_000_000).await;
    assert!(scene.nodes[3].begins_in_us().is_some() && scene.nodes[3].stats().nodes == Some(4));
    // Two that are used, and two of debt.
    assert_eq!(settled(scene.settle(3, 1, 3).await).forgiven, 0);
    assert_eq!(settled(scene.settle(3, 2, 3).await).forgiven, 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_settled_stands() {
    let scene = shared(slow_bucket(), 2);
    rest().await;
    assert!(scene.reserve(0, 1, 100).await.unwrap().allowed);
    pass(LIFE_US).await;
    for node in 0..2 {
        assert_eq!(scene.settle(node, 1, 0).await, Ok(Amended::Unknown));
    }
    // Of what flowed in, 8 in the minute.
    assert_eq!((scene.left(0).await, scene.left(1).await), (408, 500));
}

#[tokio::test(start_paused = true)]
async fn without_the_store_nothing_is_reserved_and_a_settlement_can_come_again() {
    let scene = shared(slow_bucket(), 2);
    rest().await;
    assert!(scene.reserve(0, 1, 100).await.unwrap().allowed);
    scene.table().set(Mood::Refusing);
    scene.reserve(0, 2, 100).await.unwrap_err();
    assert_eq!(scene.left(0).await, 400, "what was taken is put back");
    scene.settle(0, 1, 0).await.unwrap_err();
    scene.settle(1, 1, 0).await.unwrap_err();
    assert_eq!(scene.left(0).await, 400);
    assert!(scene.ask(0, scene.check()).await.unwrap().allowed, "others go without it");
    scene.table().set(Mood::Well);
    assert_eq!(settled(scene.settle(0, 1, 0).await).reserved, 100);
    assert_eq!(scene.left(0).await, 499);
}

#[tokio::test(start_paused = true)]
async fn what_has_flown_in_since_is_not_given_back_as_well() {
    let scene = shared(bucket(), 2);
    advance(Duration::from_secs(2)).await;
    for node in 0..2 {
        assert!(scene.reserve(node, 1 + node as u128, 500).await.unwrap().allowed);
    }
    advance(Duration::from_millis(600)).await;
    let mut used = 0;
    for node in 0..2 {
        used += scene.spend_all(node).await;
        settled(scene.settle(node, 2 - node as u128, 0).await);
        used += scene.spend_all(node).await;
    }
    assert_eq!(used, PER_SECOND);
}

/// What was charged by parts of one size would be given back by those of another: a process that is
/// one of two has its part filled at half the speed.
#[tokio::test(start_paused = true)]
async fn nobody_is_over_when_the_number_changes_in_between() {
    let mut scene = Scene::new(2);
    let rate = Rate::new(PER_SECOND / 10, 1_000_000).unwrap();
    scene.quota = Quota::token_bucket(PER_SECOND, rate).unwrap();
    scene.consistency = Consistency::share(&scene.quota, None).unwrap();
    scene.nodes[0].count_nodes();
    pass(20_000_000).await;
    assert!(scene.reserve(0, 1, PER_SECOND).await.unwrap().allowed);
    scene.nodes[1].count_nodes();
    pass(5_000_000).await;
    assert_eq!(scene.nodes[0].stats().nodes, Some(2));
    assert!(scene.left(1).await < 100, "it begins with nothing");
    pass(10_000_000).await;
    let used = scene.spend_all(0).await + scene.spend_all(1).await;
    assert!(used > PER_SECOND * 9 / 10, "{used}: both are as good as full");
    settled(scene.settle(1, 1, 0).await);
    let used = used + scene.left(0).await + scene.left(1).await;
    assert!(used <= PER_SECOND, "{used}");
}

/// A request that was admitted, and what of it is used.
struct Used {
    at_us: u64,
    units: u64,
}

/// Processes are asked, reserve, and settle what any of them has reserved, by chance. What is used on
/// top of what was reserved, and all that is used.
async fn by_chance(scene: &Scene, seed: u64, most_over: u64) -> (u64, Vec<(u64, u64)>) {
    let mut chance = seed;
    let mut below = |end: u64| {
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % end
    };
    let (mut used, mut open): (Vec<Used>, Vec<(u128, usize)>) = (Vec::new(), Vec::new());
    let (mut over, begun_us) = (0, scene.clock.now_us());
    for nth in 0..4_000_u128 {
        let node = usize::try_from(below(scene.nodes.len() as u64)).unwrap();
        let at_us = scene.clock.now_us();
        match below(10) {
            0..4 => {
                let units = 1 + below(20);
                let check = Check { cost: units, ..scene.check() };
                if scene.ask(node, check).await.unwrap().allowed {
                    used.push(Used { at_us, units });
                }
            }
            4..7 => {
                let units = 1 + below(60);
                if scene.reserve(node, nth, units).await.unwrap().allowed {
                    open.push((nth, used.len()));
                    used.push(Used { at_us, units });
                }
            }
            _ if !open.is_empty() => {
                let at = usize::try_from(below(open.len() as u64)).unwrap();
                let (id, at) = open.swap_remove(at);
                let reserved = used[at].units;
                let actual = below(reserved + 1 + most_over);
                assert_eq!(settled(scene.settle(node, id, actual).await).reserved, reserved);
                used[at].units = actual;
                over += actual.saturating_sub(reserved);
            }
            _ => {}
        }
        advance(Duration::from_micros(below(4_000))).await;
    }
    (over, used.iter().map(|used| (used.at_us - begun_us, used.units)).collect())
}

#[tokio::test(start_paused = true)]
async fn whoever_settles_what_was_reserved_nobody_is_over() {
    let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
    for quota in [
        bucket(),
        Quota::gcra(3 * PER_SECOND, rate).unwrap(),
        Quota::leaking_bucket(PER_SECOND, rate, LeakMode::Meter, None).unwrap(),
        Quota::fixed_window(2 * PER_SECOND, 2_000_000).unwrap(),
        Quota::sliding_window_log(PER_SECOND, 1_000_000).unwrap(),
        Quota::sliding_window_counter(PER_SECOND, 1_000_000).unwrap(),
    ] {
        let leased = Consistency::lease(&quota, 3, None).ok();
        let shared = Consistency::share(&quota, Some(3)).ok();
        let ways = leased.into_iter().chain(shared);
        let each = [(1, 0), (2, 0), (3, 0), (4, 40), (5, 40)];
        for (consistency, (seed, most_over)) in ways.flat_map(|way| each.map(|one| (way, one))) {
            let scene = Scene { quota, consistency, ..Scene::new(3) };
            // All have one clock; the judge's begins at another time.
            let offset_us = scene.clock.now_us().cast_signed() - BEGIN_US.cast_signed();
            let clock = Skew { offset_us, drift_ppm: 0 };
            let (over, used) = by_chance(&scene, seed, most_over).await;
            let excess = match &quota {
                // An estimate, which promises twice the count in the worst interval.
                Quota::SlidingWindowCounter(window) => {
                    judge::over_log(window, &used).saturating_sub(window.max_requests())
                }
                _ => judge::excess(&quota, &used, clock).unwrap(),
            };
            let named = format!("{}, {consistency}, seed {seed}", quota.algorithm());
            assert!(excess <= over, "{named}: {excess} of {over}");
            let units: u64 = used.iter().map(|(_, units)| units).sum();
            let seconds = used.last().unwrap().0 - used[0].0;
            // They asked for more than there was, and had most of it.
            assert!(units > PER_SECOND * seconds / 1_000_000 / 2, "{named}: {units} units");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_key_that_is_split_whoever_settles_finds_the_part() {
    let scene = split(4);
    let looked = Filter { key: Some("hot"), split: &["api"], ..Filter::default() };
    for id in 0..8 {
        assert!(scene.reserve(0, id, 100).await.unwrap().allowed);
    }
    // Two in each of the four parts, of which each has 250.
    assert_eq!(scene.nodes[0].inspect(looked, 100).await.unwrap().len(), 4);
    assert!(!scene.reserve(0, 8, 100).await.unwrap().allowed);
    for id in 0..8 {
        assert_eq!(settled(scene.settle(1, id, 0).await).reserved, 100);
        assert_eq!(scene.settle(0, id, 0).await, Ok(Amended::Repeated));
    }
    assert!(scene.nodes[0].inspect(looked, 100).await.unwrap().is_empty(), "it is as new");
}

#[tokio::test(start_paused = true)]
async fn reservations_of_a_key_that_is_split_are_never_over() {
    let scene = split(4);
    let (mut admitted, mut id) = (Vec::new(), 0);
    for _ in 0..2_000 {
        id += 1;
        if scene.reserve(0, id, 7).await.unwrap().allowed {
            let used = u64::try_from(id % 8).unwrap();
            settled(scene.settle(1, id, used).await);
            admitted.push((scene.clock.now_us(), used));
        }
        advance(Duration::from_millis(1)).await;
    }
    assert_eq!(scene.over(&admitted), 0);
    let units: u64 = admitted.iter().map(|(_, units)| units).sum();
    assert!(units > 2 * PER_SECOND, "{units}");
}

/// A part of a key that is split lies elsewhere than the key.
#[tokio::test(start_paused = true)]
async fn what_another_limit_denies_is_given_back_to_the_part() {
    let scene = split(4);
    let few = Quota::fixed_window(2, 60_000_000).unwrap();
    let mut allowed = 0;
    for id in 0..4 {
        let ticket = Ticket { id, reserve_for_us: Some(LIFE_US) };
        let checks = [Check { cost: 100, ..scene.check() }, Check::new("few", &few, "hot", 1)];
        let request = Request::new(checks, Some(ticket)).unwrap();
        let answer = scene.nodes[0].decide_one(&request).await.unwrap();
        assert_eq!(answer.charged_at_us.is_some(), answer.allowed);
        assert!(answer.outcomes()[0].allowed);
        allowed += u64::from(answer.allowed);
        let again = scene.settle(0, id, 100).await.unwrap();
        assert_eq!(again == Amended::Repeated, !answer.allowed, "it was cancelled: {again:?}");
    }
    assert_eq!(allowed, 2);
    let looked = Filter { key: Some("hot"), limits: Some(&["api"]), split: &["api"] };
    assert_eq!(scene.nodes[0].inspect(looked, 100).await.unwrap().len(), 2);
}

/// Whoever asked had gone when the second part of the store had not answered yet, and what the first was
/// charged stood.
#[tokio::test(start_paused = true)]
async fn what_one_part_was_charged_is_given_back_if_nobody_waits_for_the_other() {
    let scene = split(4);
    let many = Quota::fixed_window(100, 60_000_000).unwrap();
    let ticket = Ticket { id: 3, reserve_for_us: Some(LIFE_US) };
    let checks = [Check { cost: 100, ..scene.check() }, Check::new("many", &many, "hot", 1)];
    let request = Request::new(checks, Some(ticket)).unwrap();
    scene.table().set_after(1, Mood::Silent);
    let mut asked = Box::pin(scene.nodes[0].decide_one(&request));
    tokio::time::timeout(Duration::from_millis(10), &mut asked).await.unwrap_err();
    scene.table().set_after(usize::MAX / 2, Mood::Well);
    drop(asked);
    pass(10_000).await;
    assert_eq!(scene.settle(0, 3, 100).await, Ok(Amended::Repeated), "it was cancelled");
    let looked = Filter { key: Some("hot"), limits: Some(&["api"]), split: &["api"] };
    assert!(scene.nodes[0].inspect(looked, 100).await.unwrap().is_empty(), "it is as new");
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_here_is_put_back_if_nobody_waits_for_the_store() {
    let scene = shared(slow_bucket(), 4);
    rest().await;
    let many = Quota::fixed_window(100, 60_000_000).unwrap();
    let checks = [Check { cost: 100, ..scene.check() }, Check::new("many", &many, "hot", 1)];
    let request = Request::new(checks, None).unwrap();
    scene.table().set(Mood::Silent);
    let asked = scene.nodes[0].decide_one(&request);
    tokio::time::timeout(Duration::from_millis(10), asked).await.unwrap_err();
    assert_eq!(scene.left(0).await, 250);
}
