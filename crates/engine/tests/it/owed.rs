//! Permits that the store took for somebody who had been told something else by then.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use tollkeeper_core::{Amended, Amendment, Answer, Check, ManualClock, Request, Store};
use tollkeeper_core::{StoreError, Ticket};
use tollkeeper_engine::{Ask, Engine, ManualTimer, Target, Verdict};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::relay::{Relay, Relayed};

use crate::kit::{Bench, Memory, now, ready};

fn policy(on_failure: &str) -> String {
    let rule = "concurrency: { max_in_flight: 2, lease: 1h }";
    format!("rules: {{ few: {{ on_failure: {on_failure}, {rule} }} }}")
}

/// How many permits the store has left.
fn left<S: Store>(engine: &Engine<S, Memory>) -> u64 {
    let ask = Ask { target: Target::Rule("few"), key: Some("alice"), cost: 0 };
    ready(engine.check(ask)).unwrap().decision().remaining
}

/// Lets the store give a permit and say nothing; what its caller is told at his deadline.
fn told_too_late(engine: &Engine<FaultyStore<Memory>, Memory>, timer: &ManualTimer) -> Verdict {
    engine.store().set(Mood::RanSilent);
    let ask = Ask { target: Target::Rule("few"), key: Some("alice"), cost: 1 };
    let mut checking = Box::pin(engine.check(ask));
    assert!(now(checking.as_mut()).is_none());
    timer.advance(20_000);
    now(checking.as_mut()).unwrap().unwrap()
}

/// Such a permit was held by nobody for an hour.
#[test]
fn a_permit_that_was_taken_too_late_is_given_back_to_the_store_alone() {
    for (on_failure, allowed) in [("static", true), ("open", true), ("closed", false)] {
        let Bench { engine, timer, .. } = Bench::new(&policy(on_failure));
        let engine = Arc::new(engine);
        let verdict = told_too_late(&engine, &timer);
        assert_eq!(verdict.allowed(), allowed);
        engine.store().set(Mood::Well);
        assert_eq!(left(&engine), 1, "{on_failure}");
        ready(engine.repaying(&verdict).unwrap());
        assert_eq!(left(&engine), 2, "{on_failure}");
        ready(engine.given_back());
        // What it holds in this process it still holds.
        let handle = verdict.handle().cloned();
        assert_eq!(handle.is_some(), on_failure == "static");
        if let Some(handle) = handle {
            assert_eq!(ready(engine.release(&handle)), Ok(Amended::Done { forgiven: 0 }));
        }
    }
}

#[test]
fn nothing_is_owed_of_what_was_answered_or_not_sent() {
    let Bench { engine, .. } = Bench::new(&policy("static"));
    let engine = Arc::new(engine);
    for mood in [Mood::Well, Mood::Refusing, Mood::Unreached] {
        engine.store().set(mood);
        let ask = Ask { target: Target::Rule("few"), key: Some("alice"), cost: 1 };
        let verdict = ready(engine.check(ask)).unwrap();
        assert!(engine.repaying(&verdict).is_none(), "{mood:?}");
    }
}

#[test]
fn it_is_given_back_when_the_store_is_there_again_or_has_ended() {
    for away_s in [1, 60, 3600, 5000] {
        let Bench { engine, timer, .. } = Bench::new(&policy("static"));
        let engine = Arc::new(engine);
        let verdict = told_too_late(&engine, &timer);
        engine.store().set(Mood::Unreached);
        let mut repaying = pin!(engine.repaying(&verdict).unwrap());
        let mut tried_s = 0;
        while tried_s < away_s && now(repaying.as_mut()).is_none() {
            timer.advance(1_000_000);
            tried_s += 1;
        }
        assert_eq!(tried_s, away_s.min(3600), "its lease ends after an hour");
        engine.store().set(Mood::Well);
        let in_time = tried_s < 3600;
        // The breaker lets one call go now and then.
        for _ in 0..if in_time { 60 } else { 0 } {
            if now(repaying.as_mut()).is_some() {
                break;
            }
            timer.advance(1_000_000);
        }
        assert_eq!(left(&engine), if in_time { 2 } else { 1 }, "{away_s}");
    }
}

/// Runs what it was asked for when it is told to, and answers never.
#[derive(Debug)]
struct Late {
    memory: Memory,
    asked: Mutex<Option<Ticket>>,
}

impl Late {
    async fn run(&self, engine: &Engine<Relayed<Self>, Memory>) {
        let policy = engine.policy();
        let limit = policy.rules()[0].every_limit().next().unwrap();
        let ticket = self.asked.lock().unwrap().take();
        let check = Check::new(limit.name(), limit.quota(), "alice", 1);
        let request = Request::new([check], ticket).unwrap();
        assert!(self.memory.decide_one(&request).await.unwrap().allowed);
    }
}

impl Relay for Late {
    type To = Memory;

    fn to(&self) -> &Memory {
        &self.memory
    }

    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        if requests[0].checks()[0].cost == 0 {
            return self.memory.decide(requests).await;
        }
        *self.asked.lock().unwrap() = requests[0].ticket();
        std::future::pending().await
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        self.memory.amend(amendments).await
    }
}

/// A server that stands still takes what came meanwhile in any order.
#[test]
fn it_is_given_back_though_the_call_that_takes_it_runs_after_that() {
    let policy = Policy::parse(&policy("closed"), &|_| None).unwrap();
    let clock = ManualClock::at(1_700_000_000_000_000);
    let memory = || MemoryStore::new(Settings::default(), clock.clone());
    let timer = ManualTimer::default();
    let late = Relayed(Late { memory: memory(), asked: Mutex::default() });
    let engine = Engine::guarded(policy, late, memory(), Arc::new(timer.clone())).unwrap();
    let engine = Arc::new(engine);
    let ask = Ask { target: Target::Rule("few"), key: Some("alice"), cost: 1 };
    let mut checking = Box::pin(engine.check(ask));
    assert!(now(checking.as_mut()).is_none());
    timer.advance(20_000);
    let verdict = now(checking.as_mut()).unwrap().unwrap();
    let mut repaying = pin!(engine.repaying(&verdict).unwrap());
    assert!(now(repaying.as_mut()).is_none(), "nobody has taken it yet");
    ready(engine.store().0.run(&engine));
    assert_eq!(left(&engine), 1);
    timer.advance(1_000_000);
    assert!(now(repaying.as_mut()).is_some());
    assert_eq!(left(&engine), 2);
}
