//! Random checks that go to a real server together: whatever the turns were, each was told what the
//! model says at its own.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollkeeper_core::{Check, Clock, ManualClock, Outcome, Quota, Request, Store, Ticket};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::case;
use tollkeeper_testkit::dice::Dice;
use tollkeeper_testkit::model::{Limit, Model, Numbers, RateSpec, Spec};
use tollkeeper_testkit::redis_server::RedisServer;

use crate::merging::scripts_run;
use crate::store;

const CALLERS: usize = 64;
const HOUR_US: u64 = 3_600_000_000;
const START_US: u64 = 1_700_000_000_000_000;

/// Of the algorithm with this number, 0 to 6. Its states outlive the test by the server's own clock.
fn spec(dice: &mut Dice, algorithm: u64) -> Spec {
    let (max, window_us) = (dice.between(1, 30), HOUR_US);
    let count_numerator = dice.between(1, 40);
    let rate = RateSpec { count_numerator, count_denominator: 1, period_us: HOUR_US };
    match algorithm {
        0 => Spec::TokenBucket { capacity: max, rate },
        1 => Spec::Gcra { capacity: max, rate },
        2 => {
            let max_delay_us = dice.one_in(3).then(|| dice.below(2 * HOUR_US));
            Spec::LeakingBucket { capacity: max, rate, shape: dice.one_in(2), max_delay_us }
        }
        3 => Spec::FixedWindow { max, window_us },
        4 => Spec::SlidingWindowLog { max, window_us },
        5 => Spec::SlidingWindowCounter { max, window_us },
        _ => Spec::Concurrency { max, lease_us: window_us },
    }
}

/// A key, the limits that whoever asks for it meets, and what they must say.
struct Key {
    name: String,
    quotas: Arc<[(String, Quota)]>,
    model: Model,
}

impl Key {
    fn new(name: String, specs: &[Spec]) -> Self {
        let quota = |(nth, spec)| (format!("limit-{nth}"), case::quota(spec).unwrap());
        let limits = specs.iter().map(|spec| Limit { spec: spec.clone(), shadow: false });
        let model = Model::new(limits.collect());
        Self { name, quotas: specs.iter().enumerate().map(quota).collect(), model }
    }

    /// Holds what was told at `now_us` to the model. Whoever takes something leaves less than all
    /// before him, and who takes nothing tells what was left in his turn.
    fn judge(&mut self, now_us: u64, mut told: Vec<Told>) {
        let left = |told: &Told| told.numbers.iter().map(|limit| limit.remaining).sum::<u64>();
        told.sort_by_key(|told| (u64::MAX - left(told), !told.takes));
        for Told { cost, id, numbers, takes } in told {
            let answer = self.model.check_as(now_us, cost, id, None);
            assert_eq!(
                (answer.allowed && cost > 0, answer.limits),
                (takes, numbers),
                "{}",
                self.name
            );
        }
    }
}

/// What one caller was told.
struct Told {
    cost: u64,
    id: u128,
    takes: bool,
    numbers: Vec<Numbers>,
}

async fn ask(
    store: Arc<RedisStore>,
    (key, quotas): (String, Arc<[(String, Quota)]>),
    cost: u64,
    id: u128,
) -> Told {
    let checks = quotas.iter().map(|(limit, quota)| Check::new(limit, quota, &key, cost));
    let ticket = Some(Ticket { id, reserve_for_us: None });
    let request = Request::new(checks, ticket).unwrap();
    let answer = store.decide_one(&request).await.unwrap();
    let numbers = answer.outcomes().iter().map(numbers).collect();
    Told { cost, id, takes: answer.allowed && cost > 0, numbers }
}

fn numbers(outcome: &Outcome) -> Numbers {
    Numbers {
        allowed: outcome.allowed,
        limit: outcome.limit,
        remaining: outcome.remaining,
        retry_after_us: outcome.retry_after_us,
        reset_after_us: outcome.reset_after_us,
        delay_us: outcome.delay_us,
    }
}

#[tokio::test]
async fn checks_that_go_together_are_told_what_some_order_of_turns_tells() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let clock = ManualClock::at(START_US);
    let virtual_clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let settings = Settings { virtual_clock: Some(virtual_clock), ..Settings::default() };
    let store = Arc::new(store::store_on(server.port(), settings).await);
    let (mut id, mut takers) = (0, [0, 0]);
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let specs = [0, 1, 2].map(|_| {
            let algorithm = dice.below(7);
            spec(&mut dice, algorithm)
        });
        // Some meet one limit, and others two: only who meets the same goes together.
        let key = |nth: usize| Key::new(format!("{seed}.{nth}"), &specs[nth % 2..=nth % 2 * 2]);
        let mut keys: Vec<Key> = (0..8).map(key).collect();
        for _ in 0..5 {
            clock.advance(dice.pick(&[0, 1, HOUR_US / 7, HOUR_US]));
            let mut asking = JoinSet::new();
            for _ in 0..CALLERS {
                // One is asked for more than all others.
                let nth = usize::try_from(dice.pick(&[0, 0, 1, 2, 3, 4, 5, 6, 7])).unwrap();
                let key = (keys[nth].name.clone(), Arc::clone(&keys[nth].quotas));
                let cost = dice.pick(&[0, 1, 1, 1, 2, 3, 50]);
                id += 1;
                let asked = ask(Arc::clone(&store), key, cost, id);
                asking.spawn(async move { (nth, asked.await) });
            }
            let mut told: Vec<Vec<Told>> = keys.iter().map(|_| Vec::new()).collect();
            for (nth, one) in asking.join_all().await {
                takers[usize::from(one.takes)] += 1;
                told[nth].push(one);
            }
            for (key, told) in keys.iter_mut().zip(told) {
                key.judge(clock.now_us(), told);
            }
        }
    }
    // Or they would not have gone together, or only one way.
    assert!(u128::from(scripts_run(&server)) * 3 < id * 2, "{} calls", scripts_run(&server));
    assert!(takers.iter().all(|takers| *takers > 1_000), "{takers:?}");
}
