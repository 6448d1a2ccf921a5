//! Calls that nobody asked for, beside a store of several servers: they take as long as the policy of now
//! lets them, and what they come to is the affair of the server that they were for.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{Store, split_key};
use tollkeeper_engine::{Ask, BreakerState, Engine, Source, SystemTimer, Target, Verdict};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::parted::Parted;
use tollkeeper_testkit::passing::Passing;

type Memory = MemoryStore<Passing>;
type Servers = Parted<FaultyStore<Memory>>;

/// What the permits of processes that count each other are called.
const COUNTED: &str = "nodes";

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

    fn breaker(&self, server: usize) -> BreakerState {
        self.engine.shard_health(server).breaker
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

/// The breaker of a server that was well opened, since another one did not count.
#[tokio::test(start_paused = true)]
async fn who_is_not_counted_does_not_blame_the_server_of_its_keys() {
    let bench = Bench::new("rules: { api: { limit: 1000/s, consistency: share } }");
    let counting = bench.servers().part(COUNTED).shard;
    let key = bench.servers().key_on(1 - counting, "k");
    bench.ask(&key).await;
    pass(5_000_000).await;
    assert_eq!(bench.ask(&key).await.source(), Source::Share);
    bench.servers().shard(counting).set(Mood::Refusing);
    pass(4_000_000).await;
    for _ in 0..100 {
        assert_eq!(bench.ask(&key).await.source(), Source::Fallback);
    }
    assert_eq!(bench.breaker(1 - counting), BreakerState::Closed);
    // Whoever has his keys on the one that does not count is told of it.
    let beside = bench.servers().key_on(counting, "k");
    for _ in 0..100 {
        assert_eq!(bench.ask(&beside).await.source(), Source::Fallback);
    }
    assert_eq!(bench.breaker(counting), BreakerState::Open);
}

/// A key of the first server whose parts lie on the second.
fn split_elsewhere(servers: &Servers) -> String {
    let keys = (0..).map(|nth| format!("k{nth}"));
    let is_elsewhere = |key: &String| {
        let shards = [0, 1].map(|part| servers.part(&split_key(key, part)).shard);
        servers.part(key).shard == 0 && shards == [1, 1]
    };
    keys.into_iter().find(is_elsewhere).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_key_that_fails_is_not_the_affair_of_the_whole_key_s_server() {
    for mood in [Mood::Refusing, Mood::Silent] {
        let bench =
            Bench::new("rules: { api: { limit: 100000/s, consistency: sync, sub_shards: 2 } }");
        let key = split_elsewhere(bench.servers());
        for _ in 0..20 {
            assert!(bench.ask(&key).await.allowed());
            pass(1_000).await;
        }
        bench.servers().shard(1).set(mood);
        pass(1_000_000).await;
        for _ in 0..50 {
            assert_eq!(bench.ask(&key).await.source(), Source::Fallback, "{mood:?}");
            pass(100_000).await;
            let ask = Ask { target: Target::Rule("api"), key: Some(&key), cost: 1 };
            let reserved = bench.engine.reserve(ask, None).await.unwrap();
            assert_eq!(reserved.source(), Source::Fallback, "{mood:?}");
        }
        assert_eq!(bench.breaker(0), BreakerState::Closed, "{mood:?}");
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
