//! Another policy while it runs: usage is kept, and a bad change changes nothing.

use tollkeeper_engine::{EngineError, Source};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::Mood;

use crate::kit::Bench;

fn policy(text: &str) -> Policy {
    Policy::parse(text, &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn usage_survives_a_changed_limit() {
    let bench = Bench::new("rules: { api: { limit: 100/min } }");
    assert_eq!(bench.at_once_cost("api", "alice", 80).decision().remaining, 20);
    bench.engine.reload(policy("rules: { api: { limit: 90/min } }")).unwrap();
    assert_eq!(bench.at_once_cost("api", "alice", 0).decision().remaining, 10);
    bench.engine.reload(policy("rules: { api: { limit: 200/min } }")).unwrap();
    assert_eq!(bench.at_once_cost("api", "alice", 0).decision().remaining, 120);
}

#[test]
fn a_request_under_way_keeps_the_policy_that_it_began_with() {
    let bench = Bench::new("rules: { old: { limit: 5/min } }");
    bench.mood(Mood::Silent);
    let mut begun = bench.begin("old", "alice");
    assert!(begun.poll().is_none());
    let closed = "store: { on_failure: closed }\nrules: { new: { limit: 1/min } }";
    bench.engine.reload(policy(closed)).unwrap();
    bench.timer.advance(20_000);
    let verdict = begun.poll().unwrap().unwrap();
    assert_eq!((verdict.rule(), verdict.allowed()), ("old", true));
    // Whoever comes now has the new one.
    let unknown = bench.begin("old", "alice").poll().unwrap();
    assert!(matches!(unknown, Err(EngineError::UnknownRule { .. })));
    bench.mood(Mood::Refusing);
    assert!(bench.at_once("new", "alice").failed_closed());
}

#[test]
fn a_changed_deadline_holds_from_then_on() {
    let bench = Bench::new("rules: { api: { limit: 5/min } }");
    let slow = "store: { timeout: 100ms }\nrules: { api: { limit: 5/min } }";
    bench.engine.reload(policy(slow)).unwrap();
    bench.mood(Mood::Silent);
    let mut begun = bench.begin("api", "alice");
    assert!(begun.poll().is_none());
    bench.timer.advance(99_999);
    assert!(begun.poll().is_none());
    bench.timer.advance(1);
    assert_eq!(begun.poll().unwrap().unwrap().source(), Source::Fallback);
}

#[test]
fn what_of_the_store_cannot_change_is_refused_by_name() {
    let bench = Bench::new("rules: { api: { limit: 5/min } }");
    for (settings, field) in [
        ("url: redis://localhost", "store.url"),
        ("prefix: other", "store.prefix"),
        ("count_nodes: true", "store.count_nodes"),
        ("colocate: first", "store.colocate"),
        ("connections: 7", "store.connections"),
        ("max_keys: 7", "store.max_keys"),
        ("when_full: deny", "store.when_full"),
        ("names: false", "store.names"),
    ] {
        let other =
            policy(&format!("store: {{ {settings} }}\nrules: {{ api: {{ limit: 1/min }} }}"));
        let error = bench.engine.reload(other).unwrap_err().to_string();
        assert_eq!(error, format!("`{field}` cannot change while the service runs: restart it"));
    }
    assert_eq!(bench.at_once("api", "alice").decision().limit, 5);
}
