//! The store over another: several processes on one table, in time that passes as they wait.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, advance, timeout};
use tollkeeper_core::{
    About, Answer, Check, Clock, Consistency, Filter, Part, Quota, Rate, Request, Store, StoreError,
};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::fleet::judge;
use tollkeeper_testkit::passing::Passing;
use tollkeeper_testkit::ready::Ready;
use tollkeeper_testkit::relay::{Relay, Relayed};
use tollkeeper_testkit::suite;

const PATIENCE: Duration = Duration::from_millis(20);

pub(crate) type Table = FaultyStore<MemoryStore<Passing>>;

/// A table that several processes share.
pub(crate) type Common = Relayed<Slotted>;

/// Like a cluster, it decides together what lies together.
#[derive(Clone, Debug)]
pub(crate) struct Slotted(Arc<Table>);

impl Relay for Slotted {
    type To = Table;

    fn to(&self) -> &Table {
        &self.0
    }

    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        for request in requests {
            let parts: Vec<Part> =
                request.checks().iter().map(|check| self.part(check.key)).collect();
            assert!(parts.windows(2).all(|two| two[0] == two[1]), "{request:?} in {parts:?}");
        }
        self.0.decide(requests).await
    }

    fn part(&self, key: &str) -> Part {
        let slot =
            key.bytes().fold(0_u16, |slot, byte| slot.wrapping_mul(31).wrapping_add(byte.into()));
        Part { shard: 0, slot }
    }
}

/// Processes on one table, and the time.
pub(crate) struct Scene {
    pub(crate) clock: Passing,
    pub(crate) common: Common,
    pub(crate) nodes: Vec<Hybrid<Common>>,
    pub(crate) quota: Quota,
    pub(crate) consistency: Consistency,
}

/// A process with tables of these bounds.
pub(crate) fn node(
    common: &Common,
    clock: &Passing,
    bounds: Settings,
    chance: u32,
) -> Hybrid<Common> {
    Hybrid::new(common.clone(), Arc::new(clock.clone()), PATIENCE, bounds, chance)
}

/// A thousand a second.
pub(crate) const PER_SECOND: u64 = 1_000;

impl Scene {
    pub(crate) fn new(nodes: u32) -> Self {
        let clock = Passing::new();
        let table = MemoryStore::new(Settings::default(), clock.clone());
        let common = Relayed(Slotted(Arc::new(FaultyStore::new(table))));
        let node = |nth| node(&common, &clock, Settings::default(), nth * 77_777_777);
        let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
        let quota = Quota::token_bucket(PER_SECOND, rate).unwrap();
        let consistency = Consistency::lease(&quota, nodes.into(), None).unwrap();
        let nodes = (0..nodes).map(node).collect();
        Self { clock, common, nodes, quota, consistency }
    }

    pub(crate) fn table(&self) -> &Table {
        self.common.0.to()
    }

    pub(crate) fn check(&self) -> Check<'_> {
        Check { consistency: self.consistency, ..Check::new("api", &self.quota, "hot", 1) }
    }

    pub(crate) async fn ask(&self, node: usize, check: Check<'_>) -> Result<Answer, StoreError> {
        let request = Request::new([check], None).unwrap();
        match self.nodes[node].decide_at_once(&request) {
            Some(decided) => decided,
            None => self.nodes[node].decide_one(&request).await,
        }
    }

    /// Asks each node in turn, so often a second for so long; when each was admitted.
    pub(crate) async fn flood(&self, per_second: u64, seconds: u64) -> Vec<(u64, u64)> {
        let mut admitted = Vec::new();
        for nth in 0..per_second * seconds {
            let node = usize::try_from(nth).unwrap() % self.nodes.len();
            if self.ask(node, self.check()).await.is_ok_and(|answer| answer.allowed) {
                admitted.push((self.clock.now_us(), 1));
            }
            advance(Duration::from_nanos(1_000_000_000 / per_second)).await;
        }
        admitted
    }

    pub(crate) fn over(&self, admitted: &[(u64, u64)]) -> u64 {
        let Quota::TokenBucket(bucket) = &self.quota else { panic!("{:?}", self.quota) };
        judge::over_bucket(bucket, admitted)
    }
}

#[test]
fn what_is_not_leased_is_as_the_store_has_it() {
    let harness = Ready::new(|clock| {
        let table = MemoryStore::new(Settings::default(), clock.clone());
        Hybrid::new(table, Arc::new(clock), PATIENCE, Settings::default(), 0)
    });
    suite::run(&harness, 10).unwrap_or_else(|failures| panic!("{failures}"));
}

#[tokio::test(start_paused = true)]
async fn a_hot_key_is_decided_here_and_never_over() {
    let scene = Scene::new(3);
    let admitted = scene.flood(10 * PER_SECOND, 5).await;
    assert_eq!(scene.over(&admitted), 0);
    let later = admitted.iter().filter(|(at_us, _)| *at_us > 1_700_000_002_000_000).count();
    assert!(later >= 2_910, "{later} of 3000 in the last three seconds");
    // 1.1 in each of twenty periods a second, three processes, five seconds, and those with which it began.
    let calls = scene.table().calls();
    assert!(calls <= 330 + 24, "{calls} calls for 50 000 requests");
}

#[tokio::test(start_paused = true)]
async fn below_the_limit_everybody_goes_and_few_wait() {
    let scene = Scene::new(2);
    let admitted = scene.flood(PER_SECOND * 7 / 10, 5).await;
    assert_eq!(admitted.len(), 3_500);
    // In each of twenty periods a second, hardly one for each of two.
    assert!(scene.table().calls() < 200, "{} calls", scene.table().calls());
}

#[tokio::test(start_paused = true)]
async fn a_cold_key_is_the_stores() {
    let scene = Scene::new(2);
    for nth in 1..=20 {
        let answer = scene.ask(0, scene.check()).await.unwrap();
        assert!(answer.allowed && scene.table().calls() == nth);
        assert_eq!(answer.outcomes()[0].limit, PER_SECOND, "what is told is the limit itself");
        advance(Duration::from_millis(200)).await;
    }
}

/// Of a limit that fills slowly a key that came once was known for hours: all places were taken by such.
#[tokio::test(start_paused = true)]
async fn a_hot_key_is_leased_though_all_places_are_taken_by_cold_ones() {
    let mut scene = Scene::new(1);
    let slow = Quota::token_bucket(10_000, Rate::new(10_000, 86_400_000_000).unwrap()).unwrap();
    let consistency = Consistency::lease(&slow, 1, None).unwrap();
    let cold = Check { quota: &slow, consistency, ..scene.check() };
    // All are known, and some more are not.
    for nth in 0..80_000 {
        scene.ask(0, Check { key: &format!("cold {nth}"), ..cold }).await.unwrap();
    }
    scene.consistency = Consistency::lease(&scene.quota, 1, None).unwrap();
    let admitted = scene.flood(PER_SECOND / 2, 1).await.len() as u64;
    let calls = scene.table().calls();
    scene.flood(PER_SECOND / 2, 1).await;
    let calls = scene.table().calls() - calls;
    assert!(admitted == PER_SECOND / 2 && calls <= 30, "{admitted} admitted, {calls} calls");
    let [(_, leased), ..] = scene.nodes[0].stats().keys;
    assert_eq!(leased, 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_store_leases_are_spent_and_then_it_is_an_error() {
    let scene = Scene::new(1);
    scene.flood(PER_SECOND / 2, 2).await;
    scene.table().set(Mood::Refusing);
    let calls = scene.table().calls() as u64;
    let (mut here, mut lost, mut news) = (0, 0, 0);
    for _ in 0..200 {
        // The draw fails while something is left, so that nobody waits for it.
        yield_now().await;
        match scene.ask(0, scene.check()).await {
            Ok(answer) => here += u64::from(answer.allowed),
            Err(error) => {
                lost += 1;
                news += u64::from(error.about() == About::Store);
            }
        }
    }
    assert!(here > 0 && lost > 9 && here + lost == 200, "{here} admitted, {lost} not decided");
    // Whoever watches the store hears of each call that failed, and not of each request.
    let failed = scene.table().calls() as u64 - calls;
    assert!(news == failed && news > 0 && news < lost / 4, "{news} of {failed}, {lost} lost");
    // It is back, and so are they, by themselves.
    scene.table().set(Mood::Well);
    let admitted = scene.flood(PER_SECOND / 2, 2).await;
    assert!(admitted.len() > 900, "{} of 1000", admitted.len());
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_is_not_waited_for_longer_than_patience() {
    let scene = Scene::new(1);
    scene.table().set(Mood::Silent);
    let begun = Instant::now();
    let mut under_way = Vec::new();
    for _ in 0..8 {
        under_way.push(timeout(PATIENCE * 2, scene.ask(0, scene.check())));
    }
    let ended = futures_util::future::join_all(under_way).await;
    assert!(begun.elapsed() <= PATIENCE * 2);
    // The first found a cold key and asked the store itself, which is its caller's to end.
    assert!(ended.iter().any(|ended| matches!(ended, Ok(Err(_)))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn what_another_limit_denies_is_put_back() {
    let scene = Scene::new(1);
    scene.flood(PER_SECOND / 2, 1).await;
    let none = Quota::fixed_window(1, 60_000_000).unwrap();
    let both = || {
        let checks = [scene.check(), Check::new("few", &none, "hot", 1)];
        Request::new(checks, None).unwrap()
    };
    assert!(scene.nodes[0].decide_one(&both()).await.unwrap().allowed);
    let left = |answer: &Answer| answer.outcomes()[0].remaining;
    let before = left(&scene.ask(0, scene.check()).await.unwrap());
    for _ in 0..10 {
        let denied = scene.nodes[0].decide_one(&both()).await.unwrap();
        assert!(!denied.allowed && denied.charged_at_us.is_none());
        assert!(denied.outcomes()[0].allowed && !denied.outcomes()[1].allowed);
    }
    let after = left(&scene.ask(0, scene.check()).await.unwrap());
    assert_eq!(after, before - 1);
}

/// The store was only then asked, and whoever had come exactly as he was told was denied once more.
#[tokio::test(start_paused = true)]
async fn who_comes_exactly_when_he_was_told_to_is_admitted_if_nobody_else_came() {
    let scene = Scene::new(1);
    for nth in 0..20 {
        scene.flood(10 * PER_SECOND, 1).await;
        let mut answer = scene.ask(0, scene.check()).await.unwrap();
        while answer.allowed {
            answer = scene.ask(0, scene.check()).await.unwrap();
        }
        let retry_after_us = answer.outcomes()[0].retry_after_us.unwrap();
        advance(Duration::from_micros(retry_after_us)).await;
        let again = scene.ask(0, scene.check()).await.unwrap();
        assert!(again.allowed, "the {nth}. time, after {retry_after_us}: {again:?}");
    }
}

/// Each asked the store how much the others had left; and if that failed, what had been denied here
/// was decided by what rules do without a store.
#[tokio::test(start_paused = true)]
async fn what_is_denied_here_asks_nobody() {
    let scene = Scene::new(1);
    let admitted = scene.flood(10 * PER_SECOND, 1).await;
    while scene.ask(0, scene.check()).await.unwrap().allowed {}
    let many = Quota::fixed_window(1_000, 60_000_000).unwrap();
    let checks = [Check::new("many", &many, "hot", 1), scene.check()];
    let both = Request::new(checks, None).unwrap();
    let calls = scene.table().calls();
    scene.table().set(Mood::Refusing);
    for _ in 0..100 {
        let denied = scene.nodes[0].decide_one(&both).await.unwrap();
        assert_eq!(scene.nodes[0].decide_at_once(&both), Some(Ok(denied.clone())));
        assert!(!denied.allowed && denied.fold().unwrap().binding == 1);
        let other = denied.outcomes()[0];
        assert!(other.allowed && other.here, "as much or more may be left: {other:?}");
    }
    assert_eq!(scene.table().calls(), calls, "{} were admitted before", admitted.len());
}

#[tokio::test(start_paused = true)]
async fn another_policy_and_a_reset_lease_anew() {
    let mut scene = Scene::new(1);
    scene.flood(5 * PER_SECOND, 1).await;
    let mut more = 0;
    while scene.ask(0, scene.check()).await.unwrap().allowed {
        more += 1;
    }
    assert!(more < PER_SECOND / 4, "{more} were left");
    scene.nodes[0].reset(Filter::default()).await.unwrap();
    assert!(scene.ask(0, scene.check()).await.unwrap().allowed, "nothing is used any longer");
    scene.flood(5 * PER_SECOND, 1).await;
    let rate = Rate::new(10 * PER_SECOND, 1_000_000).unwrap();
    scene.quota = Quota::token_bucket(10 * PER_SECOND, rate).unwrap();
    scene.consistency = Consistency::lease(&scene.quota, 1, None).unwrap();
    assert!(scene.ask(0, scene.check()).await.unwrap().allowed, "more is allowed now");
}

/// They waited for a draw of which nobody would have told them, until their deadline.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_draw_is_let_go_by_a_reset_and_hears_of_it_under_another_policy() {
    for is_reset in [true, false] {
        let scene = Scene::new(1);
        for _ in 0..3 {
            assert!(scene.ask(0, scene.check()).await.unwrap().allowed);
        }
        scene.table().set(Mood::Silent);
        let mut waits = Box::pin(scene.ask(0, scene.check()));
        for _ in 0..3 {
            assert!(
                poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await
            );
            tokio::task::yield_now().await;
        }
        scene.table().set(Mood::Well);
        if is_reset {
            scene.nodes[0].reset(Filter::default()).await.unwrap();
            let told = timeout(PATIENCE / 2, waits).await.unwrap().unwrap();
            assert!(told.allowed && !told.outcomes()[0].here, "{told:?}");
            continue;
        }
        let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
        let quota = Quota::token_bucket(2 * PER_SECOND, rate).unwrap();
        let consistency = Consistency::lease(&quota, 1, None).unwrap();
        let check = Check { quota: &quota, consistency, ..scene.check() };
        assert!(scene.ask(0, check).await.unwrap().allowed);
        let told = timeout(PATIENCE * 2, waits).await.unwrap();
        assert!(told.is_err(), "it came to nothing: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_old_policy_drew_is_not_spent_by_the_new_one() {
    let mut scene = Scene::new(1);
    let mut first = Box::pin(scene.flood(PER_SECOND, 1));
    // Until units are on their way: they are drawn, and nobody has heard of it.
    while scene.table().calls() < 4 {
        assert!(poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending())).await);
        tokio::task::yield_now().await;
    }
    drop(first);
    let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
    scene.quota = Quota::token_bucket(2 * PER_SECOND, rate).unwrap();
    scene.consistency = Consistency::lease(&scene.quota, 1, None).unwrap();
    let admitted = scene.flood(10 * PER_SECOND, 2).await;
    assert_eq!(scene.over(&admitted), 0);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_is_forgotten_and_nobody_is_over_when_they_come_back() {
    let scene = Scene::new(2);
    let mut admitted = scene.flood(PER_SECOND / 2, 1).await;
    advance(Duration::from_secs(60)).await;
    admitted.extend(scene.flood(10 * PER_SECOND, 3).await);
    assert_eq!(scene.over(&admitted), 0);
    let begun_us = admitted[0].0 + 61_000_000;
    let first = admitted.iter().filter(|(at_us, _)| (begun_us..begun_us + 100_000).contains(at_us));
    let first = first.count();
    assert!(first > 500, "{first}: a limit that has rested lets a burst through");
}
