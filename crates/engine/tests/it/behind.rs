//! Calls that nobody asked for: they take as long as the policy of now lets them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::advance;
use tollkeeper_engine::{Ask, Engine, SystemTimer, Target, Verdict};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::parted::Parted;
use tollkeeper_testkit::passing::Passing;

type Memory = MemoryStore<Passing>;
type Servers = Parted<FaultyStore<Memory>>;

struct Bench {
    engine: Engine<Hybrid<Servers>, Memory>,
}

fn policy(text: &str) -> Policy {
    Policy::parse(text, &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
}

impl Bench {
    fn new(text: &str) -> Self {
        let clock = Passing::new();
        let memory = || MemoryStore::new(Settings::default(), clock.clone());
        let servers = Parted::new((0..2).map(|_| FaultyStore::new(memory())).collect());
        let (timing, patience) = (Arc::new(clock.clone()), Duration::from_millis(20));
        let store = Hybrid::new(servers, timing, patience, Settings::default(), 7);
        let timer = Arc::new(SystemTimer::new());
        let engine = Engine::guarded(policy(text), store, memory(), timer).unwrap();
        Self { engine }
    }

    fn servers(&self) -> &Servers {
        self.engine.store().store()
    }

    async fn ask(&self, key: &str) -> Verdict {
        let ask = Ask { target: Target::Rule("api"), key: Some(key), cost: 1 };
        self.engine.check(ask).await.unwrap()
    }

    /// How many calls of a kind were not answered.
    fn failed(&self, kind: &str) -> u64 {
        let stats = self.engine.store().stats();
        stats.calls.iter().find(|calls| calls.kind == kind).map_or(0, |calls| calls.failed)
    }
}

async fn pass(us: u64) {
    // Whoever waits meanwhile wakes in between.
    for _ in 0..us.div_ceil(1_000) {
        advance(Duration::from_millis(1)).await;
    }
}

/// They took as long as the policy had said with which the process had begun.
#[tokio::test(start_paused = true)]
async fn calls_that_nobody_asked_for_take_as_long_as_the_policy_of_now_says() {
    let rules = "rules: { api: { limit: 1000/s, consistency: share } }";
    let bench = Bench::new(rules);
    bench.ask("k").await;
    pass(5_500_000).await;
    let failed = bench.failed("count");
    assert_eq!(failed, 0);
    for server in [0, 1] {
        bench.servers().shard(server).set(Mood::Silent);
    }
    // Of twenty milliseconds each may take twice as much.
    pass(560_000).await;
    assert_eq!(bench.failed("count"), failed + 1);
    let reloaded = policy(&format!("store: {{ timeout: 200ms }}\n{rules}"));
    bench.engine.reload(reloaded).unwrap();
    // The next begins a second later.
    pass(1_000_000 + 360_000).await;
    assert_eq!(bench.failed("count"), failed + 1);
    pass(60_000).await;
    assert_eq!(bench.failed("count"), failed + 2);
}
