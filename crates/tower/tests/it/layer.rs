//! The layer in front of a service, with time that is moved by hand.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::task::yield_now;
use tollkeeper_core::ManualClock;
use tollkeeper_engine::{Ask, Engine, ManualTimer, Target};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_tower::{Body, Identity, InFlight, PeerAddr, RateLimitLayer, Refusal};
use tower::util::ServiceExt;
use tower::{Layer, Service, service_fn};

type App = Engine<MemoryStore<ManualClock>>;

fn engine(policy: &str) -> Arc<App> {
    let policy = Policy::parse(policy, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let clock = ManualClock::at(1_700_000_000_000_000);
    Arc::new(Engine::new(policy, MemoryStore::new(Settings::default(), clock)))
}

fn request(path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(()).unwrap();
    request.extensions_mut().insert(PeerAddr("203.0.113.9:4711".parse().unwrap()));
    request
}

async fn ok(_request: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

async fn send(
    layer: &RateLimitLayer<MemoryStore<ManualClock>>,
    request: Request<()>,
) -> Response<Body<Full<Bytes>>> {
    layer.layer(service_fn(ok)).oneshot(request).await.unwrap()
}

async fn text(response: Response<Body<Full<Bytes>>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn header<'a, B>(response: &'a Response<B>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

async fn remaining(engine: &App, rule: &str, key: &str) -> u64 {
    let ask = Ask { target: Target::Rule(rule), key: Some(key), cost: 0 };
    engine.check(ask).await.unwrap().decision().remaining
}

#[tokio::test]
async fn a_request_goes_or_is_refused_with_headers_on_both() {
    let engine = engine("rules: { per-ip: { key: ip, limit: 2/min } }");
    let layer = RateLimitLayer::new(engine);
    for left in ["1", "0"] {
        let response = send(&layer, request("/", &[])).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some(left));
        assert_eq!(text(response).await, "hello");
    }
    let denied = send(&layer, request("/", &[])).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&denied, "retry-after"), Some("30"));
    assert_eq!(header(&denied, "cache-control"), Some("no-store"));
    assert_eq!(header(&denied, "content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_str(&text(denied).await).unwrap();
    assert_eq!((&body["error"], &body["status"]), (&"rate_limited".into(), &429.into()));
    assert_eq!(body["violated-policies"][0], "per-ip");
    let problem = send(&layer, request("/", &[("accept", "application/problem+json")])).await;
    assert_eq!(header(&problem, "content-type"), Some("application/problem+json"));
}

/// A byte that is no text hid all cookies, and a second line all that were in it: such requests were
/// counted by nobody.
#[tokio::test]
async fn a_cookie_is_found_in_any_line_and_beside_any_byte() {
    let layer =
        RateLimitLayer::new(engine("rules: { api: { key: \"cookie:session\", limit: 1/day } }"));
    let cookies = |lines: &[&[u8]]| {
        let mut request = request("/", &[]);
        for line in lines {
            let line = HeaderValue::from_bytes(line).unwrap();
            request.headers_mut().append("cookie", line);
        }
        request
    };
    assert_eq!(send(&layer, cookies(&[b"session=abc"])).await.status(), StatusCode::OK);
    for lines in [
        &[&b"x=\xe9; session=abc"[..]][..],
        &[b"x=1", b"session=abc"],
        &[b"x=1", b"y=2", b"z=3; session=abc"],
    ] {
        let status = send(&layer, cookies(lines)).await.status();
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{lines:?}");
    }
    // However many other headers there are.
    let mut request = cookies(&[b"x=1", b"session=abc"]);
    for nth in 0..30 {
        let name = HeaderName::try_from(format!("x-{nth}")).unwrap();
        request.headers_mut().insert(name, HeaderValue::from_static("1"));
    }
    assert_eq!(send(&layer, request).await.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_header_that_is_no_text_counts_as_any_other() {
    let layer =
        RateLimitLayer::new(engine("rules: { api: { key: \"header:x-user\", limit: 1/day } }"));
    for (user, status) in [(&b"jos\xe9"[..], 200), (b"jos\xe9", 429), (b"jos\xe8", 200)] {
        let mut request = request("/", &[]);
        request.headers_mut().insert("x-user", HeaderValue::from_bytes(user).unwrap());
        assert_eq!(send(&layer, request).await.status(), status, "{user:?}");
    }
}

#[tokio::test]
async fn a_refusal_for_want_of_a_key_is_told_as_any_other() {
    let file = "rules: { api: { key: \"header:x-api-key\", when_missing: deny, limit: 1/day } }";
    let layer = RateLimitLayer::new(engine(file));
    let denied = send(&layer, request("/", &[("accept", "application/problem+json")])).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&denied, "cache-control"), Some("no-store"));
    assert_eq!(header(&denied, "content-type"), Some("application/problem+json"));
    assert_eq!(header(&denied, "retry-after"), None, "waiting does not help");
}

#[tokio::test]
async fn what_no_rule_applies_to_passes_untouched() {
    let layer =
        RateLimitLayer::new(engine("rules: { api: { match: { path: /api/** }, limit: 1/day } }"));
    for _ in 0..5 {
        let response = send(&layer, request("/about", &[])).await;
        assert_eq!((response.status(), response.headers().len()), (StatusCode::OK, 0));
    }
}

#[tokio::test]
async fn the_app_says_who_it_is_and_a_client_cannot() {
    let engine = engine("rules: { per-user: { key: user, limit: 1/day, when_missing: deny } }");
    let layer = RateLimitLayer::new(engine).identify(|parts| match parts.headers.get("token") {
        Some(token) if token == "a" => Identity::user("alice"),
        Some(_) => Identity::user("bob"),
        None => Identity::unknown(),
    });
    let status =
        async |headers: &[(&str, &str)]| send(&layer, request("/", headers)).await.status();
    assert_eq!(status(&[("token", "a")]).await, StatusCode::OK);
    assert_eq!(status(&[("token", "b")]).await, StatusCode::OK);
    assert_eq!(status(&[("token", "a"), ("user", "carol")]).await, StatusCode::TOO_MANY_REQUESTS);
    let missing = send(&layer, request("/", &[("user", "carol")])).await;
    assert_eq!(missing.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(text(missing).await.contains("attribute:user"));
}

#[tokio::test]
async fn the_app_can_write_the_refusal_itself() {
    let layer = RateLimitLayer::new(engine("rules: { all: { limit: 1/day } }")).respond(
        |refusal: &Refusal<'_>| {
            let mut response = Response::new(format!("<p>{}</p>", refusal.message()));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        },
    );
    let _ = send(&layer, request("/", &[])).await;
    let denied = send(&layer, request("/", &[])).await;
    assert_eq!(denied.status(), StatusCode::IM_A_TEAPOT);
    assert!(header(&denied, "retry-after").is_some());
    assert!(text(denied).await.starts_with("<p>Try again in"));
}

#[tokio::test]
async fn an_answer_that_should_not_count_is_given_back() {
    let policy = "rules: { api: { limit: 10/day, refund_on: [5xx, 404] } }";
    let engine = engine(policy);
    let layer = RateLimitLayer::new(Arc::clone(&engine));
    for (status, left) in [(200, 9), (500, 9), (404, 9), (403, 8), (503, 8)] {
        let service = layer.layer(service_fn(move |_request: Request<()>| async move {
            let mut response = Response::new(Full::<Bytes>::from("x"));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(response)
        }));
        let _ = service.oneshot(request("/", &[])).await.unwrap();
        assert_eq!(remaining(&engine, "api", "global").await, left, "{status}");
    }
}

#[tokio::test]
async fn a_permit_is_held_until_the_body_has_ended_or_is_dropped() {
    let engine = engine("rules: { api: { concurrency: { max_in_flight: 1, lease: 1h } } }");
    let layer = RateLimitLayer::new(Arc::clone(&engine));
    for read in [true, false] {
        let first = send(&layer, request("/", &[])).await;
        assert_eq!(first.status(), StatusCode::OK);
        let second = send(&layer, request("/", &[])).await;
        assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
        if read {
            assert_eq!(text(first).await, "hello");
        } else {
            drop(first);
        }
        // A task gives it back.
        while remaining(&engine, "api", "global").await == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// The store gave it to somebody who was gone, and it was held until its lease ended.
#[tokio::test]
async fn a_permit_is_given_back_though_its_client_left_before_the_store_gave_it() {
    let file = "rules: { few: { concurrency: { max_in_flight: 1, lease: 1h } } }";
    let policy = Policy::parse(file, &|_| None).unwrap();
    let memory = || MemoryStore::new(Settings::default(), ManualClock::at(1_700_000_000_000_000));
    let timer = Arc::new(ManualTimer::default());
    let engine = Engine::guarded(policy, FaultyStore::new(memory()), memory(), timer).unwrap();
    let engine = Arc::new(engine);
    engine.store().set(Mood::Slow);
    let service = RateLimitLayer::new(Arc::clone(&engine)).layer(service_fn(ok));
    let mut call = Box::pin(service.oneshot(request("/", &[])));
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending(), "the store has to be asked");
    engine.store().set(Mood::Well);
    drop(call);
    engine.given_back().await;
    assert_eq!(engine.store().calls(), 2, "taken, and given back");
    let ask = Ask { target: Target::Rule("few"), key: None, cost: 0 };
    assert_eq!(engine.check(ask).await.unwrap().decision().remaining, 1);
}

#[tokio::test(start_paused = true)]
async fn a_permit_lasts_for_as_long_as_its_request_does() {
    let engine = engine("rules: { api: { concurrency: { max_in_flight: 1, lease: 30s } } }");
    let layer = RateLimitLayer::new(Arc::clone(&engine));
    let slow = send(&layer, request("/", &[])).await;
    // Ten leases go by.
    for _ in 0..300 {
        tokio::time::advance(Duration::from_secs(1)).await;
        engine.store().clock().advance(1_000_000);
        let other = send(&layer, request("/", &[])).await;
        assert_eq!(other.status(), StatusCode::TOO_MANY_REQUESTS);
    }
    drop(slow);
    while remaining(&engine, "api", "global").await == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handler_whose_work_goes_on_keeps_its_permit() {
    let engine = engine("rules: { api: { concurrency: { max_in_flight: 1, lease: 1h } } }");
    let layer = RateLimitLayer::new(Arc::clone(&engine));
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let upgrading = layer.layer(service_fn(move |request: Request<()>| {
        *keep.lock().unwrap() = request.extensions().get::<InFlight>().cloned();
        ok(request)
    }));
    assert_eq!(text(upgrading.oneshot(request("/", &[])).await.unwrap()).await, "hello");
    // The answer has ended, and whatever gives back has had its turn.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(send(&layer, request("/", &[])).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(kept.lock().unwrap().take().is_some());
    while remaining(&engine, "api", "global").await == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leaking_bucket_lets_requests_wait_for_their_turn() {
    let policy = "rules: { api: { leaking_bucket: { queue_capacity: 3, leak_rate: 1/s } } }";
    let layer = RateLimitLayer::new(engine(policy));
    let begun = tokio::time::Instant::now();
    let answers = [(); 4].map(|()| send(&layer, request("/", &[])));
    let mut waited = Vec::new();
    for answer in answers {
        let response = answer.await;
        waited.push((response.status().as_u16(), begun.elapsed().as_secs()));
    }
    // The bucket's clock stands still, so each waits for those that are queued before it.
    assert_eq!(waited, [(200, 0), (200, 1), (200, 3), (429, 3)]);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_while_waiting_gives_back() {
    let policy = "rules: { api: { leaking_bucket: { queue_capacity: 2, leak_rate: 1/h } } }";
    let engine = engine(policy);
    let layer = RateLimitLayer::new(Arc::clone(&engine));
    assert_eq!(send(&layer, request("/", &[])).await.status(), StatusCode::OK);
    let given_back = async || {
        let given_back = async {
            while remaining(&engine, "api", "global").await == 0 {
                yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), given_back).await.unwrap();
    };
    {
        let mut waiting = pin!(send(&layer, request("/", &[])));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(remaining(&engine, "api", "global").await, 0);
    }
    given_back().await;
    // Also who never began to wait.
    let call = layer.layer(service_fn(ok)).call(request("/", &[]));
    assert_eq!(remaining(&engine, "api", "global").await, 0);
    drop(call);
    given_back().await;
}

#[tokio::test]
async fn the_service_is_not_called_for_a_refused_request() {
    let calls = Arc::new(AtomicUsize::new(0));
    let layer = RateLimitLayer::new(engine("rules: { all: { limit: 3/day } }"));
    for _ in 0..10 {
        let calls = Arc::clone(&calls);
        let service = layer.layer(service_fn(move |request: Request<()>| {
            calls.fetch_add(1, Ordering::SeqCst);
            ok(request)
        }));
        let _ = service.oneshot(request("/", &[])).await.unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn an_error_of_the_service_is_its_own_and_its_permit_is_given_back() {
    let engine = engine("rules: { api: { concurrency: { max_in_flight: 1, lease: 1h } } }");
    let layer = RateLimitLayer::new(Arc::clone(&engine));
    let failing = layer
        .layer(service_fn(async |_request: Request<()>| Err::<Response<Full<Bytes>>, _>("broken")));
    assert_eq!(failing.oneshot(request("/", &[])).await.unwrap_err(), "broken");
    while remaining(&engine, "api", "global").await == 0 {
        tokio::task::yield_now().await;
    }
    // The same for one that never answers and is given up.
    let stuck = layer.layer(service_fn(async |_request: Request<()>| {
        pending::<Result<Response<Full<Bytes>>, Infallible>>().await
    }));
    {
        let mut stuck = pin!(stuck.oneshot(request("/", &[])));
        let mut context = Context::from_waker(Waker::noop());
        while remaining(&engine, "api", "global").await > 0 {
            assert!(stuck.as_mut().poll(&mut context).is_pending());
        }
    }
    while remaining(&engine, "api", "global").await == 0 {
        tokio::task::yield_now().await;
    }
}
