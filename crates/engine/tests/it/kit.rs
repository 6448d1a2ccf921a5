//! An engine on a store that fails on demand, with time that is moved by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tollkeeper_core::{ManualClock, StoreError};
use tollkeeper_engine::{
    Ask, Engine, EngineError, ManualTimer, Observer, StoreChange, Target, Verdict,
};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};

pub(crate) type Memory = MemoryStore<ManualClock>;

/// An engine and everything that can be done to it.
pub(crate) struct Bench {
    pub(crate) engine: Engine<FaultyStore<Memory>, Memory>,
    pub(crate) timer: ManualTimer,
    pub(crate) clock: ManualClock,
    pub(crate) heard: Arc<Heard>,
}

/// What an observer heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) changes: Mutex<Vec<StoreChange>>,
    pub(crate) states: Mutex<usize>,
    pub(crate) decided: Mutex<usize>,
    pub(crate) lacked: Mutex<Vec<(String, bool)>>,
}

impl Observer for Heard {
    fn decided(&self, _verdict: &Verdict) {
        *self.decided.lock().unwrap() += 1;
    }

    fn lacked(&self, rule: &str, shadow: bool) {
        self.lacked.lock().unwrap().push((rule.to_owned(), shadow));
    }

    fn store_changed(&self, _shard: &str, change: &StoreChange) {
        self.changes.lock().unwrap().push(change.clone());
    }

    fn state_failed(&self, _error: &StoreError) {
        *self.states.lock().unwrap() += 1;
    }
}

impl Bench {
    /// An engine of a policy file.
    pub(crate) fn new(policy: &str) -> Self {
        let policy = Policy::parse(policy, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
        let clock = ManualClock::at(1_700_000_000_000_000);
        let timer = ManualTimer::default();
        let memory = || MemoryStore::new(Settings::default(), clock.clone());
        let store = FaultyStore::new(memory());
        let heard = Arc::new(Heard::default());
        let engine = Engine::guarded(policy, store, memory(), Arc::new(timer.clone())).unwrap();
        let engine = engine.observed(Arc::clone(&heard) as Arc<dyn Observer>);
        Self { engine, timer, clock, heard }
    }

    /// How the store behaves from here on.
    pub(crate) fn mood(&self, mood: Mood) {
        self.engine.store().set(mood);
    }

    /// A check of `rule` for `key`, begun and not waited for.
    pub(crate) fn begin<'a>(&'a self, rule: &'a str, key: &'a str) -> Begun<'a> {
        self.begin_cost(rule, key, 1)
    }

    pub(crate) fn begin_cost<'a>(&'a self, rule: &'a str, key: &'a str, cost: u64) -> Begun<'a> {
        let ask = Ask { target: Target::Rule(rule), key: Some(key), cost };
        Begun(Box::pin(self.engine.check(ask)))
    }

    /// What a check is told that must not have to wait.
    pub(crate) fn at_once(&self, rule: &str, key: &str) -> Verdict {
        self.at_once_cost(rule, key, 1)
    }

    pub(crate) fn at_once_cost(&self, rule: &str, key: &str, cost: u64) -> Verdict {
        self.begin_cost(rule, key, cost).poll().expect("it waits").unwrap()
    }

    /// Lets so many checks in a row end without an answer, at their deadline.
    pub(crate) fn time_out(&self, rule: &str, times: usize) {
        for _ in 0..times {
            let mut begun = self.begin(rule, "somebody");
            assert!(begun.poll().is_none(), "it does not wait");
            self.timer.advance(20_000);
            assert!(begun.poll().is_some(), "it waits past its deadline");
        }
    }
}

type Checking<'a> = Pin<Box<dyn Future<Output = Result<Verdict, EngineError>> + 'a>>;

/// A check that is under way.
pub(crate) struct Begun<'a>(Checking<'a>);

impl Begun<'_> {
    pub(crate) fn poll(&mut self) -> Option<Result<Verdict, EngineError>> {
        now(self.0.as_mut())
    }
}

/// What a future is by now, if it is ready.
pub(crate) fn now<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ready) => Some(ready),
        Poll::Pending => None,
    }
}

/// What a future is that must not have to wait.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    now(std::pin::pin!(future)).expect("it waits")
}
