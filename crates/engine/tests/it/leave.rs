//! A store that decides some limits in this process, with leave of its server.

use std::sync::Arc;

use tollkeeper_core::{
    Amended, Amendment, Answer, Check, Consistency, Entry, Filter, ManualClock, Request, Store,
    StoreError,
};
use tollkeeper_engine::{Ask, Engine, ManualTimer, Source, Target};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};

use crate::kit::{Memory, ready};

const START_US: u64 = 1_700_000_000_000_000;

/// A server, and what it gave leave for.
#[derive(Debug)]
struct Leave {
    server: FaultyStore<Memory>,
    here: Memory,
}

fn is_here(consistency: Consistency) -> bool {
    consistency != Consistency::Exact
}

impl Store for Leave {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        self.server.decide(requests).await
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        let is_here = |check: &Check<'_>| is_here(check.consistency);
        let answer = request.checks().iter().all(is_here).then(|| self.here.decide_at_once(request));
        // What it has no leave for any longer is the server's.
        answer.flatten().filter(|answer| answer.as_ref().is_ok_and(|answer| answer.allowed))
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        self.server.amend(amendments).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        self.server.reset(filter).await
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.server.inspect(filter, most).await
    }
}

fn engine(rules: &str) -> Engine<Leave, Memory> {
    let policy = Policy::parse(rules, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let at = |us| MemoryStore::new(Settings::default(), ManualClock::at(us));
    let store = Leave { server: FaultyStore::new(at(START_US)), here: at(START_US) };
    Engine::guarded(policy, store, at(START_US), Arc::new(ManualTimer::default())).unwrap()
}

/// With the server down, a batch left to `on_failure` what a single check would have been given.
#[test]
fn a_batch_takes_what_was_given_leave_for_as_a_check_does() {
    let engine = engine("rules: { told: { limit: 10/h, consistency: sync, on_failure: closed } }");
    engine.store().server.set(Mood::Refusing);
    let ask = Ask { target: Target::Rule("told"), key: Some("alice"), cost: 1 };
    assert!(ready(engine.check(ask)).unwrap().allowed());
    let verdicts = ready(engine.check_many(&[ask; 12]));
    let allowed = verdicts.iter().filter(|verdict| verdict.as_ref().unwrap().allowed()).count();
    assert_eq!(allowed, 9, "ten in all");
    let last = verdicts.last().unwrap().as_ref().unwrap();
    assert_eq!(last.source(), Source::Fallback);
}
