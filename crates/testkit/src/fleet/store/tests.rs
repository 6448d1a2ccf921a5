//! The store of a fleet decides as every store does.

use super::*;
use crate::case::{Action, Case, quota};
use crate::fleet::Calls;
use crate::model::Settled;
use crate::random::{Plot, random_case};

fn run(store: &mut Store, quota: Quota, op: Op, now_us: u64) -> Reply {
    let mut calls = Calls::default();
    calls.send(3, quota, op);
    let call = calls.take().next().unwrap();
    store.run(&call, now_us)
}

/// Plays a case of one limit; says how often a change took effect.
fn play(case: &Case) -> usize {
    let mut store = Store::default();
    let quota = quota(&case.limits[0].spec).unwrap();
    let mut done = 0;
    for step in &case.steps {
        let (op, expect) = match step.action {
            Action::Check { cost, id, reserve_us, ref expect } => {
                let ticket = Ticket { id: id.into(), reserve_for_us: reserve_us };
                let op = Op::Decide { cost, ticket: Some(ticket) };
                let Reply::Decided { outcome, now_us } = run(&mut store, quota, op, step.at_us)
                else {
                    panic!("{}: not decided", case.name);
                };
                let numbers = &expect.numbers;
                assert_eq!(now_us, step.at_us);
                assert_eq!(
                    (outcome.allowed, outcome.remaining, outcome.retry_after_us),
                    (numbers.allowed, numbers.remaining, numbers.retry_after_us),
                    "{}: {step:?}",
                    case.name
                );
                continue;
            }
            Action::Reset => {
                store = Store::default();
                continue;
            }
            Action::Refund { units, charged_at_us } => {
                run(
                    &mut store,
                    quota,
                    Op::Amend(Change::Refund { units, charged_at_us }),
                    step.at_us,
                );
                continue;
            }
            Action::Settle { id, actual, expect } => {
                (Change::Settle { id: id.into(), actual }, expect)
            }
            Action::Release { id, expect } => (Change::Release { id: id.into() }, settled(expect)),
            Action::Renew { id, expect } => (Change::Renew { id: id.into() }, settled(expect)),
            Action::Change { .. } => return done,
        };
        let came = match run(&mut store, quota, Op::Amend(op), step.at_us) {
            Reply::Amended(amended) if amended.forgiven().is_some() => Settled::Done,
            Reply::Amended(Amended::Repeated) => Settled::Repeated,
            _ => Settled::Unknown,
        };
        assert_eq!(came, expect, "{}: {step:?}", case.name);
        done += usize::from(came == Settled::Done);
    }
    done
}

fn settled(done: bool) -> Settled {
    if done { Settled::Done } else { Settled::Unknown }
}

#[test]
fn it_decides_and_amends_as_the_model() {
    let mut done = 0;
    for algorithm in 0..7 {
        for seed in 0..100 {
            let case = random_case(seed, Plot::AfterTheFact, algorithm, 40);
            let alone = case.limits.len() == 1 && !case.limits[0].shadow;
            done += if alone { play(&case) } else { 0 };
        }
    }
    assert!(done > 100, "{done}");
}

#[test]
fn a_slot_knows_nothing_of_another() {
    let quota = Quota::fixed_window(1, 1_000_000).unwrap();
    let mut store = Store::default();
    let mut calls = Calls::default();
    for slot in [0, 1, 0] {
        calls.send(slot, quota, Op::Decide { cost: 1, ticket: None });
    }
    let allowed = calls.take().map(|call| match store.run(&call, 5) {
        Reply::Decided { outcome, .. } => outcome.allowed,
        _ => false,
    });
    assert_eq!(allowed.collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn what_is_left_can_be_lowered() {
    let quota = Quota::fixed_window(10, 1_000_000).unwrap();
    let mut store = Store::default();
    let lower = Op::Amend(Change::LeaveAtMost { units: 4 });
    assert_eq!(run(&mut store, quota, lower, 5), Reply::Amended(DONE));
    let look = Op::Decide { cost: 0, ticket: None };
    let Reply::Decided { outcome, .. } = run(&mut store, quota, look, 5) else {
        panic!("not decided");
    };
    assert_eq!(outcome.remaining, 4);
}
