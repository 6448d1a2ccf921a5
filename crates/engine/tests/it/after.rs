//! Permits, reservations and refunds when the store gives no answer.

use tollkeeper_core::Amended;
use tollkeeper_engine::{Ask, EngineError, Handle, Judgement, Source, Target};
use tollkeeper_policy::{Attributes, Policy};
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Bench, ready};

const POLICY: &str = "
rules:
  permits: { concurrency: { max_in_flight: 2, lease: 1h } }
  tokens: { token_bucket: { capacity: 10, refill_rate: 10/h } }
";

const DONE: Amended = Amended::Done { forgiven: 0 };

fn permit(bench: &Bench) -> Option<Handle> {
    bench.at_once("permits", "alice").handle().cloned()
}

#[test]
fn a_permit_given_without_the_store_is_given_back_here() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Refusing);
    let (first, _second) = (permit(&bench).unwrap(), permit(&bench).unwrap());
    assert!(permit(&bench).is_none());
    let read: Handle = first.to_string().parse().unwrap();
    assert_eq!(ready(bench.engine.release(&read)), Ok(DONE));
    assert_eq!(ready(bench.engine.release(&read)), Ok(Amended::Unknown));
    assert!(permit(&bench).is_some());
    // The store is not asked about it, also when it is back.
    let before = bench.engine.store().calls();
    bench.mood(Mood::Well);
    assert_eq!(ready(bench.engine.renew(&read)), Ok(Amended::Unknown));
    assert_eq!(bench.engine.store().calls(), before);
}

#[test]
fn a_permit_of_the_store_is_given_back_there_and_here() {
    let bench = Bench::new(POLICY);
    let (first, _second) = (permit(&bench).unwrap(), permit(&bench).unwrap());
    assert_eq!(ready(bench.engine.renew(&first)), Ok(DONE));
    assert_eq!(ready(bench.engine.release(&first)), Ok(DONE));
    bench.mood(Mood::Refusing);
    assert!(permit(&bench).is_some(), "the one that was given back");
    assert!(permit(&bench).is_none());
}

/// What this process remembers of a permit went by what the store said: of requests that ended while
/// it was away the permits were held here until their leases ended, and nobody else got one.
#[test]
fn a_permit_of_the_store_ends_or_lasts_here_though_the_store_is_away() {
    let bench = Bench::new(POLICY);
    let held = [permit(&bench).unwrap(), permit(&bench).unwrap()];
    bench.mood(Mood::Refusing);
    ready(bench.engine.release(&held[0])).unwrap_err();
    assert!(permit(&bench).is_some() && permit(&bench).is_none());
    // The other one's request goes on for longer than a lease.
    let bench = Bench::new(POLICY);
    let held = permit(&bench).unwrap();
    bench.mood(Mood::Refusing);
    for _ in 0..3 {
        bench.clock.advance(1_800_000_000);
        ready(bench.engine.renew(&held)).unwrap_err();
    }
    assert!(permit(&bench).is_some() && permit(&bench).is_none());
}

/// A rule that the new policy lacks kept what the others held.
#[test]
fn a_handle_is_good_for_the_rules_that_are_left() {
    let file = |more: &str| {
        format!(
            "rules: {{ few: {{ key: user, concurrency: {{ max_in_flight: 1, lease: 1h }} }}{more} }}"
        )
    };
    let both = ", other: { key: user, concurrency: { max_in_flight: 9, lease: 1h } }";
    let bench = Bench::new(&file(both));
    let request = Attributes::from_pairs([("user", "alice")]).unwrap();
    let judge = || ready(bench.engine.judge(bench.engine.meet(&request))).unwrap();
    let Judgement::Decided(first) = judge() else { panic!() };
    bench.engine.reload(Policy::parse(&file(""), &|_| None).unwrap()).unwrap();
    let handle = first.handle().unwrap();
    assert_eq!(ready(bench.engine.renew(handle)), Ok(DONE));
    assert_eq!(ready(bench.engine.release(handle)), Ok(DONE));
    let Judgement::Decided(second) = judge() else { panic!() };
    assert!(second.allowed());
    let gone = "rules: { new: { limit: 1/s } }";
    bench.engine.reload(Policy::parse(gone, &|_| None).unwrap()).unwrap();
    let unknown = ready(bench.engine.release(handle));
    assert!(matches!(unknown, Err(EngineError::UnknownRule { .. })), "{unknown:?}");
}

#[test]
fn what_the_store_cannot_do_now_is_an_error_and_can_be_tried_again() {
    let bench = Bench::new(POLICY);
    let held = permit(&bench).unwrap();
    bench.mood(Mood::Refusing);
    assert!(matches!(ready(bench.engine.release(&held)), Err(EngineError::Store(_))));
    bench.mood(Mood::Well);
    assert_eq!(ready(bench.engine.release(&held)), Ok(DONE));
}

#[test]
fn a_reservation_made_without_the_store_is_settled_here() {
    let bench = Bench::new(POLICY);
    bench.mood(Mood::Refusing);
    let ask = Ask { target: Target::Rule("tokens"), key: Some("alice"), cost: 8 };
    let verdict = ready(bench.engine.reserve(ask, None)).unwrap();
    assert_eq!((verdict.source(), verdict.decision().remaining), (Source::Fallback, 2));
    let handle = verdict.handle().unwrap();
    assert_eq!(ready(bench.engine.settle(handle, 3)), Ok(DONE));
    assert_eq!(ready(bench.engine.settle(handle, 3)), Ok(Amended::Repeated));
    assert_eq!(bench.at_once("tokens", "alice").decision().remaining, 6);
}

#[test]
fn a_refund_reaches_what_this_process_remembers() {
    let bench = Bench::new(POLICY);
    let charged_at_us = bench.at_once_cost("tokens", "alice", 6).decision().charged_at_us;
    let ask = Ask { target: Target::Rule("tokens"), key: Some("alice"), cost: 6 };
    assert_eq!(ready(bench.engine.refund(ask, charged_at_us)), Ok(DONE));
    bench.mood(Mood::Refusing);
    assert_eq!(bench.at_once("tokens", "alice").decision().remaining, 9);
}

#[test]
fn a_reset_reaches_what_this_process_remembers() {
    let bench = Bench::new(POLICY);
    let _ = bench.at_once_cost("tokens", "alice", 6);
    assert_eq!(ready(bench.engine.reset(Some("tokens"), None)), Ok(1));
    bench.mood(Mood::Refusing);
    assert_eq!(bench.at_once("tokens", "alice").decision().remaining, 9);
}
