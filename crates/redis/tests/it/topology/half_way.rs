//! States of several elements in a slot that is on its way. A node that gives a slot away does not
//! make a key anew, also not one that a script has just emptied: the script would stop half-way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollkeeper_core::{
    Amendment, Change, Check, Clock, Consistency, ManualClock, Quota, Request, Store, Ticket,
};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::peers;

use super::kit::*;
use crate::store::{self, cluster_url};

const WINDOW_US: u64 = 1_000;
const LIFE_US: u64 = 1_000_000;
const START_US: u64 = 1_700_000_000_000_000;

/// A cluster on which the same happens to two keys, the slot of one of which is on its way.
struct Twins {
    cluster: Cluster,
    store: RedisStore,
    clock: ManualClock,
    played: AtomicUsize,
}

/// A limit of a key, by its name.
type Limit = (&'static str, Quota);

/// What can happen to a key.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Asks for units of each limit; the ticket's number, and whether it reserves.
    Ask(u64, u128, bool),
    /// Asks for one unit of each, several times at once.
    Burst(usize),
    Amend(Change),
    /// Moves the clock to so many microseconds after the start.
    At(u64),
}

impl Twins {
    async fn start(program: impl AsRef<std::path::Path>) -> Self {
        let cluster = Cluster::of(program, 2, 0, CALM, |launch| launch).unwrap();
        let clock = ManualClock::at(START_US);
        let virtual_clock: Arc<dyn Clock> = Arc::new(clock.clone());
        let settings = Settings { virtual_clock: Some(virtual_clock), ..patient() };
        let url = cluster_url(&[cluster.nodes[0].server.port()]);
        let store = store::store_at(&url, settings).await;
        Self { cluster, store, clock, played: AtomicUsize::new(0) }
    }

    /// Plays `before`, lets the slot of one key begin to move, and plays `then`, perhaps after the
    /// limits have become others. What both keys are told is the same, and is no error.
    async fn play(&self, limits: &[Limit], before: &[Step], then: &[Step]) {
        self.play_changed(limits, before, limits, then).await;
    }

    async fn play_changed(
        &self,
        limits: &[Limit],
        before: &[Step],
        others: &[Limit],
        then: &[Step],
    ) {
        let nth = self.played.fetch_add(1, Ordering::Relaxed);
        let key = |shard| {
            let mut keys = (0..).map(|try_| format!("key-{nth}-{try_}"));
            keys.find(|key| self.store.part(key).shard == shard).unwrap()
        };
        let (moving, staying) = (key(0), key(1));
        self.clock.set(START_US);
        for step in before {
            self.step([&moving, &staying], limits, *step).await;
        }
        let slot = self.store.part(&moving).slot;
        let from = self.cluster.holder_as_told_by(0, slot).unwrap();
        self.cluster.begin_move(slot, from, 1 - from).unwrap();
        for step in then {
            self.step([&moving, &staying], others, *step).await;
        }
    }

    async fn step(&self, [moving, staying]: [&str; 2], limits: &[Limit], step: Step) {
        if let Step::At(us) = step {
            self.clock.set(START_US + us);
            return;
        }
        let said = self.on(staying, limits, step).await;
        assert!(!said.iter().any(|said| said.contains("Err(")), "{step:?}: {said:?}");
        assert_eq!(self.on(moving, limits, step).await, said, "{step:?}");
    }

    /// What is told, in any order.
    async fn on(&self, key: &str, limits: &[Limit], step: Step) -> Vec<String> {
        let request = |cost, ticket| {
            let checks = limits.iter().map(|(limit, quota)| Check::new(limit, quota, key, cost));
            Request::new(checks, ticket).unwrap()
        };
        let mut said: Vec<String> = match step {
            Step::Ask(cost, id, reserves) => {
                let ticket = Ticket { id, reserve_for_us: reserves.then_some(LIFE_US) };
                let answered = self.store.decide(&[request(cost, Some(ticket))]).await;
                answered.iter().map(|answer| format!("{answer:?}")).collect()
            }
            Step::Burst(count) => {
                let requests: Vec<_> = (0..count).map(|_| request(1, None)).collect();
                let answered = self.store.decide(&requests).await;
                answered.iter().map(|answer| format!("{answer:?}")).collect()
            }
            Step::Amend(change) => {
                let amend = |(limit, quota)| {
                    let consistency = Consistency::Exact;
                    Amendment { limit, quota, key, change, consistency }
                };
                let amendments: Vec<_> = limits.iter().map(|(l, q)| amend((*l, q))).collect();
                let amended = self.store.amend(&amendments).await;
                amended.iter().map(|amended| format!("{amended:?}")).collect()
            }
            Step::At(_) => Vec::new(),
        };
        said.sort_unstable();
        said
    }
}

fn ask(cost: u64, id: u128) -> Step {
    Step::Ask(cost, id, false)
}

fn give_back(units: u64) -> Step {
    Step::Amend(Change::Refund { units, charged_at_us: None })
}

fn spend(units: u64) -> Step {
    Step::Amend(Change::Spend { units })
}

#[tokio::test]
async fn a_log_in_a_slot_on_its_way_is_never_lost() {
    for program in peers::servers().unwrap() {
        let twins = Twins::start(program).await;
        let limits = [("log", Quota::sliding_window_log(4, WINDOW_US).unwrap())];
        let settle = |id, actual| Step::Amend(Change::Settle { id, actual });
        // All happens at one moment.
        twins.play(&limits, &[ask(1, 1)], &[ask(1, 2), Step::Burst(4), ask(1, 3)]).await;
        // What was there has left the window.
        let later = [Step::At(WINDOW_US), ask(2, 2), ask(1, 3), ask(2, 4)];
        twins.play(&limits, &[ask(3, 1)], &later).await;
        // A part has left it, and the rest is of now.
        let before = [ask(1, 1), Step::At(WINDOW_US), ask(1, 2)];
        twins.play(&limits, &before, &[ask(1, 3), ask(3, 4), ask(2, 5)]).await;
        // The clock steps back, and a denial anchors all of it; or an admission does.
        let back = [Step::At(0), ask(4, 2), ask(2, 3), Step::At(WINDOW_US), ask(4, 4)];
        twins.play(&limits, &[Step::At(50), ask(2, 1)], &back).await;
        twins.play(&limits, &[Step::At(50), ask(2, 1)], &[Step::At(0), ask(2, 2)]).await;
        // Units come back, at last all of them.
        let back = [give_back(1), give_back(1), ask(1, 2), give_back(9), ask(4, 3)];
        twins.play(&limits, &[ask(3, 1), Step::At(9), ask(1, 5)], &back).await;
        // A reservation is settled below, at and above its estimate.
        for actual in [0, 1, 2, 5, 50] {
            let then = [settle(1, actual), settle(1, 0), ask(1, 2), ask(4, 3)];
            // The repeat finds no state where all came back, and a record: nobody decides both.
            let then = if actual == 0 { &then[..1] } else { &then[..] };
            twins.play(&limits, &[Step::Ask(2, 1, true)], then).await;
        }
        // More is spent than fits, and then nothing fits, also after the clock has stepped back.
        let debt = [spend(3), spend(9), spend(1), Step::At(0), spend(1), ask(1, 2)];
        twins.play(&limits, &[Step::At(5), ask(2, 1)], &debt).await;
    }
}

#[tokio::test]
async fn a_permit_in_a_slot_on_its_way_is_never_lost() {
    for program in peers::servers().unwrap() {
        let twins = Twins::start(program).await;
        let limits = [("jobs", Quota::concurrency(4, WINDOW_US).unwrap())];
        let longer = [("jobs", Quota::concurrency(4, 3 * WINDOW_US).unwrap())];
        let renew = |id| Step::Amend(Change::Renew { id });
        let release = |id| Step::Amend(Change::Release { id });
        // All that were held have ended.
        let ended = [Step::At(WINDOW_US), ask(1, 2), ask(3, 3), ask(1, 4)];
        twins.play(&limits, &[ask(2, 1)], &ended).await;
        // The only one is renewed again and again, and released.
        let life = [renew(1), Step::At(9), renew(1), ask(1, 2), release(2), renew(1), ask(3, 3)];
        twins.play(&limits, &[ask(2, 1)], &life).await;
        twins.play(&limits, &[ask(2, 1)], &[release(1), release(1), renew(1), ask(4, 2)]).await;
        // The last that is held ends a set of others that have ended.
        let before = [ask(1, 1), Step::At(WINDOW_US / 2), ask(2, 2), Step::At(WINDOW_US)];
        twins.play(&limits, &before, &[renew(1), renew(2), release(2), ask(4, 3)]).await;
        twins.play(&limits, &before, &[release(2), ask(4, 3)]).await;
        // The clock steps back.
        let back = [Step::At(0), ask(3, 2), renew(1), ask(2, 3), Step::At(WINDOW_US), ask(4, 4)];
        twins.play(&limits, &[Step::At(50), ask(2, 1)], &back).await;
        let back = [Step::At(0), release(1), ask(4, 2)];
        twins.play(&limits, &[Step::At(50), ask(2, 1)], &back).await;
        let back = [Step::At(0), release(1), ask(3, 3), ask(1, 4)];
        twins.play(&limits, &[Step::At(50), ask(2, 1), ask(1, 2)], &back).await;
        // The lease time has become another since.
        let then = [renew(1), Step::At(WINDOW_US), ask(3, 2), ask(2, 3)];
        twins.play_changed(&limits, &[ask(2, 1)], &longer, &then).await;
    }
}

#[tokio::test]
async fn several_limits_in_a_slot_on_its_way_are_charged_together() {
    for program in peers::servers().unwrap() {
        let twins = Twins::start(program).await;
        let limits = [
            ("count", Quota::fixed_window(9, 100 * WINDOW_US).unwrap()),
            ("log", Quota::sliding_window_log(2, WINDOW_US).unwrap()),
            ("jobs", Quota::concurrency(2, WINDOW_US).unwrap()),
            ("pair", Quota::sliding_window_counter(9, 100 * WINDOW_US).unwrap()),
        ];
        let then = [
            Step::At(WINDOW_US),
            ask(1, 2),
            ask(2, 3),
            Step::At(WINDOW_US / 2),
            ask(2, 4),
            ask(1, 5),
            Step::At(5 * WINDOW_US),
            ask(2, 6),
            ask(1, 7),
            give_back(1),
        ];
        twins.play(&limits, &[ask(2, 1)], &then).await;
        let of_a_kind = [("a", limits[1].1), ("b", limits[1].1)];
        let then = [Step::At(WINDOW_US), Step::Burst(5), Step::At(3 * WINDOW_US), Step::Burst(5)];
        twins.play(&of_a_kind, &[Step::Burst(3)], &then).await;
    }
}
