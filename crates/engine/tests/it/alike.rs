//! One caller cannot tell a store of many parts from one that is a whole: for every algorithm and
//! every story the answers are the same, to the microsecond.

use tollkeeper_core::limits::MAX_CHECKS;
use tollkeeper_core::{
    Algorithm, Amended, Amendment, Answer, Change, Check, Consistency, ManualClock, Quota, Request,
    Store, Ticket,
};
use tollkeeper_engine::Whole;
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_testkit::case::quota;
use tollkeeper_testkit::dice::Dice;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::parted::Parted;
use tollkeeper_testkit::random::random_spec;

use crate::kit::{Memory, ready};

const START_US: u64 = 1_700_000_000_123_457;

/// A limit and whom it counts.
struct Met {
    name: String,
    quota: Quota,
    key: String,
    shadow: bool,
}

/// The same limits in a store of one part and in one of many.
struct Twins {
    clock: ManualClock,
    one: Memory,
    many: Whole<Parted<Memory>>,
    limits: Vec<Met>,
}

/// What an admitted request may be given back by.
struct Held {
    ticket: Ticket,
    charged_at_us: Option<u64>,
    units: u64,
}

impl Twins {
    fn new(dice: &mut Dice) -> Self {
        let clock = ManualClock::at(START_US);
        let memory = || MemoryStore::new(Settings::default(), clock.clone());
        let many = Whole(Parted::new((0..3).map(|_| memory()).collect()));
        let limits = (0..dice.between(2, 6)).map(|nth| {
            let algorithm = dice.below(7);
            let quota = quota(&random_spec(dice, algorithm)).unwrap();
            let key = format!("key{}", dice.below(5));
            Met { name: format!("limit-{nth}"), quota, key, shadow: dice.one_in(6) }
        });
        let limits = limits.collect();
        Self { one: memory(), many, clock, limits }
    }

    fn check(&self, cost: u64, ticket: Ticket) -> Answer {
        let fits = |met: &&Met| {
            let permit = met.quota.algorithm() == Algorithm::Concurrency;
            !(permit && ticket.reserve_for_us.is_some())
        };
        let checks = self.limits.iter().filter(fits).map(|met| Check {
            limit: &met.name,
            quota: &met.quota,
            key: &met.key,
            cost,
            shadow: met.shadow,
            consistency: Consistency::Exact,
        });
        let request = [Request::new(checks, Some(ticket)).unwrap()];
        let one = ready(self.one.decide(&request)).remove(0).unwrap();
        let many = ready(self.many.decide(&request)).remove(0).unwrap();
        assert_eq!(many, one, "{request:#?}");
        one
    }

    fn amend(&self, change: Change) {
        let amendment = |met: &'_ Met| match (change, met.quota.algorithm()) {
            (Change::Refund { .. } | Change::Settle { .. }, Algorithm::Concurrency) => false,
            (Change::Release { .. } | Change::Renew { .. }, algorithm) => {
                algorithm == Algorithm::Concurrency
            }
            _ => true,
        };
        let fitting = self.limits.iter().filter(|met| amendment(met));
        let amendments: Vec<Amendment<'_>> = fitting
            .map(|met| Amendment {
                limit: &met.name,
                quota: &met.quota,
                key: &met.key,
                change,
                consistency: Consistency::Exact,
            })
            .collect();
        let one: Vec<Amended> =
            ready(self.one.amend(&amendments)).into_iter().map(Result::unwrap).collect();
        let many: Vec<Amended> =
            ready(self.many.amend(&amendments)).into_iter().map(Result::unwrap).collect();
        assert_eq!(many, one, "{change:?}");
    }
}

fn tell(seed: u64) {
    let mut dice = Dice::new(seed);
    let twins = Twins::new(&mut dice);
    let mut held: Vec<Held> = Vec::new();
    for nth in 0..80u128 {
        twins.clock.advance(dice.pick(&[0, 0, 1, 1_000, 250_000, 1_000_000, 61_000_000]));
        let id = u128::from(seed) << 32 | nth;
        if dice.one_in(5) && !held.is_empty() {
            let at = usize::try_from(dice.below(held.len() as u64)).unwrap();
            let Held { ticket, charged_at_us, units } = held.swap_remove(at);
            match ticket.reserve_for_us {
                Some(_) => twins.amend(Change::Settle { id: ticket.id, actual: dice.below(4) }),
                None => {
                    twins.amend(Change::Refund { units, charged_at_us });
                    twins.amend(Change::Release { id: ticket.id });
                }
            }
            continue;
        }
        let reserve_for_us = dice.one_in(4).then_some(600_000_000);
        let ticket = Ticket { id, reserve_for_us };
        let permits = |met: &Met| met.quota.algorithm() == Algorithm::Concurrency;
        if reserve_for_us.is_some() && twins.limits.iter().all(permits) {
            continue;
        }
        let units = dice.pick(&[0, 1, 1, 1, 2, 3]);
        let answer = twins.check(units, ticket);
        if let Some(at_us) = answer.charged_at_us {
            held.push(Held { ticket, charged_at_us: Some(at_us), units });
        }
    }
}

#[test]
fn a_store_of_many_parts_answers_as_one_whole() {
    (0..1_500).for_each(tell);
}

#[test]
fn as_many_limits_as_a_request_may_meet_are_told_apart() {
    let clock = ManualClock::at(START_US);
    let memory = || MemoryStore::new(Settings::default(), clock.clone());
    let (one, many): (Memory, _) = (memory(), Whole(Parted::new(vec![memory(), memory()])));
    let keys: Vec<String> = (0..MAX_CHECKS).map(|nth| format!("key{nth}")).collect();
    let quotas: Vec<Quota> = (0..MAX_CHECKS as u64)
        .map(|nth| Quota::fixed_window(40 - nth, 86_400_000_000))
        .map(Result::unwrap)
        .collect();
    for nth in 0..20 {
        let checks = keys.iter().zip(&quotas);
        let checks = checks.map(|(key, quota)| Check::new("l", quota, key, 1));
        let request = [Request::new(checks, None).unwrap()];
        let (one, many) = (ready(one.decide(&request)), ready(many.decide(&request)));
        assert_eq!(one, many);
        let answer = one[0].as_ref().unwrap();
        // The last limit is the narrowest: it denies, and the others are charged no further.
        assert_eq!((answer.allowed, answer.outcomes().len()), (nth < 9, MAX_CHECKS));
        assert_eq!(answer.outcomes()[0].remaining, 40 - (nth + 1).min(9));
    }
}

#[test]
fn a_part_that_fails_is_the_failure_of_all_and_the_others_keep_nothing() {
    let clock = ManualClock::at(START_US);
    let memory = || MemoryStore::new(Settings::default(), clock.clone());
    let store = Whole(Parted::new((0..2).map(|_| FaultyStore::new(memory())).collect()));
    let keys = [store.0.key_on(0, "a"), store.0.key_on(1, "b")];
    let quota = Quota::fixed_window(5, 86_400_000_000).unwrap();
    let check = |key, cost| Check::new("l", &quota, key, cost);
    store.0.shard(1).set(Mood::Refusing);
    let request = Request::new(keys.iter().map(|key| check(key, 2)), None).unwrap();
    assert!(ready(store.decide(&[request])).remove(0).is_err());
    let look = Request::new([check(&keys[0], 0)], None).unwrap();
    let left = ready(store.decide(&[look])).remove(0).unwrap();
    assert_eq!(left.outcomes()[0].remaining, 5);
}
