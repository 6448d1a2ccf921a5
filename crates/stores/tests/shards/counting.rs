//! Processes that count each other on one of two servers, which is killed: the other one is not blamed.

use std::time::Duration;

use tollkeeper_core::Store;
use tollkeeper_engine::{Ask, BreakerState, Source, Target};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::Policy;
use tollkeeper_stores::{StoreEngine, engine};
use tollkeeper_testkit::moment;
use tollkeeper_testkit::redis_server::RedisServer;

/// So long that only a server that is no more misses it.
const TIMEOUT: &str = "2s";

/// More than enough for processes to be counted, and for a number to count no more.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the permits of processes are called.
const COUNTED: &str = "nodes";

type App = StoreEngine<SystemClock>;

fn open(servers: &[RedisServer]) -> App {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"{}\"", server.url())).collect();
    let text = format!(
        "store: {{ url: [{}], timeout: {TIMEOUT}, on_failure: closed }}
rules: {{ api: {{ limit: 1000000/s, consistency: share }} }}",
        urls.join(", ")
    );
    engine(Policy::parse(&text, &|_| None).unwrap(), SystemClock::new()).unwrap()
}

/// A key that lies on a server.
fn key_on(app: &App, shard: usize) -> String {
    let mut keys = (0..).map(|nth| format!("user-{nth}"));
    keys.find(|key| app.store().part(key).shard == shard).unwrap()
}

#[test]
fn the_one_that_counts_is_killed() {
    let mut servers = crate::servers(2);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let app = {
        let _within = runtime.enter();
        open(&servers)
    };
    let counting = app.store().part(COUNTED).shard;
    let key = key_on(&app, 1 - counting);
    let ask = || {
        let ask = Ask { target: Target::Rule("api"), key: Some(&key), cost: 1 };
        runtime.block_on(app.check(ask)).unwrap()
    };
    let until =
        |is_it: &dyn Fn() -> bool| moment::until(PATIENCE, || is_it().then_some(())).unwrap();
    until(&|| ask().allowed());
    servers[counting].kill();
    until(&|| ask().source() == Source::Fallback);
    for _ in 0..100 {
        assert_eq!(ask().source(), Source::Fallback);
    }
    assert_eq!(app.shard_health(1 - counting).breaker, BreakerState::Closed);
    // It is well, and whoever asks it hears so.
    servers[counting].restart().unwrap();
    until(&|| ask().source() == Source::Share && ask().allowed());
}
