//! Where nobody hears of a request, no verdict is made of it. The client is told the same.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use tollkeeper_core::ManualClock;
use tollkeeper_engine::{Engine, Observer, Verdict};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_tower::RateLimitLayer;
use tower::util::ServiceExt;
use tower::{Layer, service_fn};

const REQUESTS: usize = 5;

const STYLES: [&str; 7] =
    ["", "legacy", "legacy-delta", "openai", "ietf", "legacy, openai", "legacy-delta, ietf"];

const RULES: [&str; 8] = [
    "limit: 3/min",
    "limit: 3/min, key: \"header:x-api-key\"",
    "limit: 5/min, cost: 2",
    "limit: 2/min, shadow: true",
    "limits: [3/min, 4/h]",
    "limit: 3/min, refund_on: [2xx]",
    "fixed_window: { max_requests: 3, window_size: 60 }",
    "leaking_bucket: { queue_capacity: 3, leak_rate: 1/s }",
];

#[derive(Debug, Default)]
struct Heard(AtomicUsize);

impl Observer for Heard {
    fn decided(&self, _verdict: &Verdict) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn engine(policy: &str) -> Engine<MemoryStore<ManualClock>> {
    let policy = Policy::parse(policy, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let clock = ManualClock::at(1_700_000_000_700_000);
    Engine::new(policy, MemoryStore::new(Settings::default(), clock))
}

async fn ok(_request: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

async fn told(engine: Engine<MemoryStore<ManualClock>>) -> Vec<(StatusCode, HeaderMap)> {
    let service = RateLimitLayer::new(Arc::new(engine)).layer(service_fn(ok));
    let mut told = Vec::new();
    for _ in 0..REQUESTS {
        let request = Request::builder().uri("/").header("x-api-key", "a").body(()).unwrap();
        let (parts, _) = service.clone().oneshot(request).await.unwrap().into_parts();
        told.push((parts.status, parts.headers));
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_client_is_told_the_same_whether_or_not_anybody_hears() {
    for styles in STYLES {
        for rule in RULES {
            let policy = format!("headers: [{styles}]\nrules: {{ api: {{ {rule} }} }}");
            let heard = Arc::new(Heard::default());
            let observed = engine(&policy).observed(Arc::clone(&heard) as Arc<dyn Observer>);
            let whole = told(observed).await;
            assert_eq!(told(engine(&policy)).await, whole, "{policy}");
            assert_eq!(heard.0.load(Ordering::Relaxed), REQUESTS, "{policy}");
            let names = whole[0].1.len();
            assert_eq!(names > 0, !styles.is_empty(), "{policy}");
        }
    }
}
