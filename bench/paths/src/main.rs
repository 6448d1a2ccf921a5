//! Walks one path of the product many times and does nothing else: `paths NAME TIMES`; `paths list`
//! tells their names. Counted by valgrind with two numbers of times, the difference is what the path
//! costs; see `tests/ceilings.rs`, which counts what is done in [`walked`].

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark ends when something is wrong"
)]

use std::hint::black_box;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::HeaderMap;
use axum::routing::get;
use tokio::runtime::Builder;
use tollkeeper_core::{Algorithm, Check, Request as Asked, ShortLimit};
use tollkeeper_engine::{Ask, Engine, ManualTimer, Source, Target};
use tollkeeper_memory::{MemoryStore, Settings, SystemClock};
use tollkeeper_policy::{Attributes, Policy};
use tollkeeper_tower::{RateLimitLayer, headers};
use tower_service::Service;

/// So much that nobody is denied.
const LIMIT: &str = "1000000/s";

/// A path that can be walked so many times.
type Walk = fn(u64);

/// Every path, by its name.
const PATHS: [(&str, Walk); 11] = [
    ("check-bucket", check),
    ("decide-bucket", |times| decide(times, Algorithm::TokenBucket)),
    ("decide-new-key", decide_new),
    ("decide-fixed-window", |times| decide(times, Algorithm::FixedWindow)),
    ("decide-sliding-counter", |times| decide(times, Algorithm::SlidingWindowCounter)),
    ("match-request", match_request),
    ("check-rule", check_rule),
    ("deny-again", deny_again),
    ("write-headers", write_headers),
    ("handler", |times| handle(times, false)),
    ("handler-with-layer", |times| handle(times, true)),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, times) = (arguments.next(), arguments.next());
    if name.as_deref() == Some("list") {
        println!("{}", PATHS.map(|(name, _)| name).join("\n"));
        return ExitCode::SUCCESS;
    }
    let path = PATHS.iter().find(|(known, _)| Some(*known) == name.as_deref());
    let (Some((_, walk)), Some(times)) = (path, times.and_then(|times| times.parse().ok())) else {
        let names = PATHS.map(|(name, _)| name).join(", ");
        eprintln!("usage: paths list | paths NAME TIMES; names: {names}");
        return ExitCode::from(2);
    };
    LazyLock::force(&CLOCK);
    black_box(walked(*walk, times));
    ExitCode::SUCCESS
}

/// All that is counted.
#[inline(never)]
fn walked(walk: Walk, times: u64) -> u64 {
    walk(black_box(times));
    times
}

/// Read like the one that is released, but it stands still. Made before anything is counted: its
/// ticks have to be compared with the system's clock first, for as long as that takes.
static CLOCK: LazyLock<SystemClock> =
    LazyLock::new(|| SystemClock::standing(1_763_000_000_000_000));

fn store() -> MemoryStore {
    MemoryStore::new(Settings::default(), CLOCK.clone())
}

/// A store decides for a key that it knows, by the shortest way.
fn check(times: u64) {
    let store = store();
    let quota = LIMIT.parse::<ShortLimit>().unwrap().quota(Some(Algorithm::Gcra)).unwrap();
    for _ in 0..times {
        let check = Check::new("api", &quota, black_box("user:12345"), 1);
        assert!(store.check_now(&check).unwrap().outcome.allowed);
    }
}

/// A store decides for a key that it knows.
fn decide(times: u64, algorithm: Algorithm) {
    let store = store();
    let quota = LIMIT.parse::<ShortLimit>().unwrap().quota(Some(algorithm)).unwrap();
    let check = Check::new("api", &quota, "user:12345", 1);
    for _ in 0..times {
        let asked = Asked::new([black_box(check)], None).unwrap();
        assert!(black_box(store.decide_now(&asked).unwrap()).allowed);
    }
}

/// A store decides for a key that it does not know, and remembers it.
fn decide_new(times: u64) {
    let store = store();
    let quota = LIMIT.parse::<ShortLimit>().unwrap().quota(Some(Algorithm::Gcra)).unwrap();
    // As many for any number of times, so that making them does not count.
    let keys: Vec<String> = (0..10_000).map(|nth| format!("user:{nth}")).collect();
    for key in keys.iter().take(usize::try_from(times).unwrap()) {
        let asked = Asked::new([Check::new("api", &quota, black_box(key), 1)], None).unwrap();
        assert!(black_box(store.decide_now(&asked).unwrap()).allowed);
    }
}

/// A request finds the two of ten rules that it meets.
fn match_request(times: u64) {
    let mut file = "rules:\n  per-ip: { key: ip, limit: 1000/min }\n".to_owned();
    for nth in 0..9 {
        file += &format!(
            "  rule-{nth}: {{ match: {{ path: /api/{nth}/** }}, key: header:x-api-key, limit: 9/s }}\n"
        );
    }
    let policy = Policy::parse(&file, &|_| None).unwrap();
    let request = Attributes::from_pairs([
        ("method", "GET"),
        ("path", "/api/7/items/4711"),
        ("ip", "203.0.113.9"),
        ("header.x-api-key", "key-of-a-client"),
    ])
    .unwrap();
    for _ in 0..times {
        assert_eq!(black_box(policy.meet(black_box(&request))).met.len(), 2);
    }
}

/// An engine with one rule, which may have a key.
fn engine(key: &str) -> Engine<MemoryStore> {
    let file = format!("rules: {{ api: {{ limit: {LIMIT}{key} }} }}");
    Engine::new(Policy::parse(&file, &|_| None).unwrap(), store())
}

const ASK: Ask<'_> = Ask { target: Target::Rule("api"), key: Some("user:12345"), cost: 1 };

/// The engine decides what a rule's name was sent for.
fn check_rule(times: u64) {
    let engine = engine("");
    for _ in 0..times {
        assert!(engine.check_at_once(black_box(ASK)).unwrap().unwrap().allowed());
    }
}

/// The engine tells a denial again that still holds.
fn deny_again(times: u64) {
    let file = "store: { url: redis://127.0.0.1:1 }\nrules: { api: { limit: 1/h } }";
    let policy = Policy::parse(file, &|_| None).unwrap();
    let timer = Arc::new(ManualTimer::default());
    let engine: Engine<MemoryStore, MemoryStore> =
        Engine::guarded(policy, store(), store(), timer).unwrap();
    Builder::new_current_thread().build().unwrap().block_on(async {
        while engine.check(ASK).await.unwrap().allowed() {}
        for _ in 0..times {
            let verdict = engine.check(black_box(ASK)).await.unwrap();
            assert_eq!(verdict.source(), Source::Cache);
        }
    });
}

/// A verdict becomes headers.
fn write_headers(times: u64) {
    let verdict = engine("").check_at_once(ASK).unwrap().unwrap();
    for _ in 0..times {
        let mut headers = HeaderMap::new();
        headers::write(&mut headers, verdict.policy().headers(), black_box(&verdict));
        assert_eq!(black_box(headers).len(), 3);
    }
}

/// An axum handler answers, behind the middleware or not.
fn handle(times: u64, limited: bool) {
    let engine = engine(", key: \"header:x-api-key\"");
    let app = Router::new().route("/", get(async || "hello"));
    let app = if limited { app.layer(RateLimitLayer::new(Arc::new(engine))) } else { app };
    // As axum's own server does: layers are put on once, and not for each request.
    let mut app: Router = app.with_state(());
    let peer: SocketAddr = ([203, 0, 113, 9], 4711).into();
    let request = || {
        let request = Request::builder().uri("/").header("x-api-key", "key-4711");
        request.extension(ConnectInfo(peer)).body(Body::empty()).unwrap()
    };
    Builder::new_current_thread().build().unwrap().block_on(async {
        for _ in 0..times {
            let answer = app.call(black_box(request())).await.unwrap();
            assert!(black_box(answer).status().is_success());
        }
    });
}
