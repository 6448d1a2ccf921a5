//! More calls than the cap, beside a store that is well: what is decided past it keeps to the bound of an outage that
//! lasts as long.

use tollkeeper_core::{Check, Request, Store};
use tollkeeper_engine::{BreakerState, MAX_IN_FLIGHT, Source};
use tollkeeper_testkit::faulty::Mood;

use crate::kit::{Begun, Bench, ready};

/// A limit of a hundred, which comes back in a second.
const LIMIT: u64 = 100;

/// How often the time moves while there are too many, by how much, and how many come past the cap each time.
const STEPS: u64 = 100;
const STEP_US: u64 = 90_000;
const PAST_THE_CAP: u64 = 40;

/// What comes back of the limit between the first and the last who come, and how many windows they see.
const FLOWN: u64 = LIMIT * (STEPS - 1) * STEP_US / 1_000_000;
const WINDOWS: u64 = (STEPS - 1) * STEP_US / 1_000_000 + 1;

fn policy(nodes: u64) -> String {
    format!(
        "
store: {{ timeout: 10s, denied_cache: 0, nodes: {nodes} }}
rules:
  bucket: {{ token_bucket: {{ capacity: {LIMIT}, refill_rate: {LIMIT}/s }} }}
  window: {{ fixed_window: {{ max_requests: {LIMIT}, window_size: 1s }} }}
  lenient: {{ limit: {LIMIT}/s, on_failure: open }}
  strict: {{ limit: {LIMIT}/s, on_failure: closed }}
  crowd: {{ limit: 1000000/s }}
"
    )
}

/// How many were admitted past the cap, and by the store.
#[derive(Debug, Default)]
struct Admitted {
    here: u64,
    there: u64,
}

/// A call that the store does not answer for now.
fn begin_slow(bench: &Bench) -> Begun<'_> {
    bench.mood(Mood::Slow);
    let mut begun = bench.begin("crowd", "somebody");
    assert!(begun.poll().is_none());
    bench.mood(Mood::Well);
    begun
}

/// Asks past the cap for a while; each time that somebody gives up, one comes through to the store. Before that
/// others may use up whatever the limit has there.
fn overload(bench: &Bench, rule: &str, others_use_it: impl Fn(u64) -> bool) -> Admitted {
    let crowd: Vec<_> = (1..MAX_IN_FLIGHT).map(|_| begin_slow(bench)).collect();
    let mut admitted = Admitted::default();
    for step in 0..STEPS {
        if others_use_it(step) {
            use_elsewhere(bench, rule);
        }
        let verdict = bench.at_once(rule, "alice");
        assert_eq!(verdict.source(), Source::Store);
        admitted.there += u64::from(verdict.allowed());
        let last = begin_slow(bench);
        for _ in 0..PAST_THE_CAP {
            let verdict = bench.at_once(rule, "alice");
            assert_eq!(verdict.source(), Source::Fallback);
            admitted.here += u64::from(verdict.allowed());
        }
        drop(last);
        bench.timer.advance(STEP_US);
        bench.clock.advance(STEP_US);
    }
    // The store was well all the time, and nobody said otherwise.
    assert_eq!(bench.engine.health().breaker, BreakerState::Closed);
    assert!(bench.heard.changes.lock().unwrap().is_empty());
    for mut begun in crowd {
        assert_eq!(begun.poll().unwrap().unwrap().source(), Source::Store);
    }
    admitted
}

/// Another process takes all that the limit has left in the store.
fn use_elsewhere(bench: &Bench, rule: &str) {
    let quota = bench.engine.policy().quota(rule).copied().unwrap();
    let take = |cost| {
        let request = Request::new([Check::new(rule, &quota, "alice", cost)], None).unwrap();
        let answer = ready(bench.engine.store().behind().decide(&[request])).remove(0).unwrap();
        answer.outcomes()[0].remaining
    };
    let left = take(0);
    assert_eq!(take(left), 0);
}

#[test]
fn past_the_cap_a_bucket_gives_what_was_left_and_this_process_s_part_of_the_rate() {
    for nodes in [1, 4, 10] {
        let bench = Bench::new(&policy(nodes));
        let admitted = overload(&bench, "bucket", |_| false);
        // It is full in both, and flows into both.
        let part = (LIMIT + FLOWN) / nodes;
        assert!(admitted.here <= part, "{nodes}: {admitted:?}");
        assert!(admitted.here + 2 >= part, "{nodes}: {admitted:?} is far from {part}");
        assert!(admitted.there <= LIMIT + FLOWN, "{nodes}: {admitted:?}");
    }
}

#[test]
fn past_the_cap_a_bucket_that_was_used_up_gives_this_process_s_part_of_the_rate() {
    for nodes in [1, 4, 10] {
        let bench = Bench::new(&policy(nodes));
        let admitted = overload(&bench, "bucket", |step| step == 0);
        let part = FLOWN / nodes;
        assert!(admitted.here <= part, "{nodes}: {admitted:?}");
        assert!(admitted.here + 2 >= part, "{nodes}: {admitted:?} is far from {part}");
    }
}

#[test]
fn past_the_cap_a_window_gives_this_process_s_part_of_each() {
    for nodes in [1, 4, 10] {
        let part = LIMIT / nodes;
        let bench = Bench::new(&policy(nodes));
        let admitted = overload(&bench, "window", |_| false).here;
        assert!(admitted <= part * WINDOWS, "{nodes}: {admitted}");
        assert!(admitted + WINDOWS >= part * WINDOWS, "{nodes}: {admitted}");
        // Of one that was used up nothing is left here either.
        let bench = Bench::new(&policy(nodes));
        let admitted = overload(&bench, "window", |step| step == 0).here;
        assert!(admitted <= part * (WINDOWS - 1), "{nodes}: {admitted}");
    }
}

/// Whoever comes through brings along what is left.
#[test]
fn past_the_cap_nothing_is_given_while_the_store_says_that_nothing_is_left() {
    for rule in ["bucket", "window"] {
        let bench = Bench::new(&policy(4));
        let admitted = overload(&bench, rule, |_| true);
        assert_eq!((admitted.here, admitted.there), (0, 0), "{rule}");
    }
}

#[test]
fn past_the_cap_open_gives_everything_and_closed_nothing() {
    let bench = Bench::new(&policy(4));
    assert_eq!(overload(&bench, "lenient", |_| false).here, STEPS * PAST_THE_CAP);
    let bench = Bench::new(&policy(4));
    assert_eq!(overload(&bench, "strict", |_| false).here, 0);
}
