//! What is sent to the API: every body gets an answer of the right kind, and the same check means
//! the same alone and in a batch, through the router and past it.

mod ways;

use std::cell::LazyCell;

use axum::Router;
use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tollkeeper_policy::Policy;
use tower_service::Service;

/// The calls that take a body. The first byte of an input chooses one, and how the body goes there
/// past the router; the rest is the body.
const CALLS: [&str; 8] = [
    "/v1/check",
    "/v1/check/batch",
    "/v1/reserve",
    "/v1/refund",
    "/v1/settle",
    "/v1/cancel",
    "/v1/release",
    "/v1/renew",
];

/// Cuts a body into pieces where it stands, and is no part of it. No JSON holds it.
const CUT: u8 = 0x1f;

/// The longest answer to a call that is no batch.
const MAX_ANSWER: usize = 4 * 1024;

const POLICY: &str = "
store: { max_keys: 1000 }
rules:
  api: { limits: [3/h, 5/day], key: [ip, header:x-api-key], when_missing: deny }
  path: { match: { path: /api/**, methods: [GET] }, key: route, limit: 9/s, cost: { header: x-cost, min: 0, max: 9 } }
  jobs: { concurrency: { max_in_flight: 2, lease: 1s } }
  shaped: { leaking_bucket: { queue_capacity: 5, leak_rate: 1/s, max_delay: 2s } }
  log: { sliding_window_log: { max_requests: 3, window_size: 1 }, shadow: true }
  plan: { match: { host: a.test }, limit: 1/s, tiers: { by: attribute:plan, limits: { pro: 2/s } } }
";

/// The API on a store of its own, and what its calls run on.
struct Api {
    policy: Policy,
    routes: Router,
    runtime: Runtime,
}

thread_local! {
    static API: LazyCell<Api> = LazyCell::new(|| {
        let policy = Policy::parse(POLICY, &|_| None).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let routes = tollkeeper_server::routes(policy.clone()).unwrap();
        Api { policy, routes, runtime }
    });
}

/// An answer: its status and its JSON.
type Answer = (u16, Value);

impl Api {
    fn call(&self, path: &str, body: &[u8]) -> Answer {
        let request = Request::builder().method(Method::POST).uri(path);
        let request = request.body(Body::from(body.to_vec())).unwrap();
        self.runtime.block_on(async {
            let response = self.routes.clone().call(request).await.unwrap();
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            if path != CALLS[1] {
                assert!(body.len() <= MAX_ANSWER, "{path}: {} bytes", body.len());
            }
            (status, serde_json::from_slice(&body).unwrap())
        })
    }
}

/// Sends the bytes to a call.
pub fn bodies(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let choice = usize::from(first.wrapping_sub(b'0'));
    let path = CALLS[choice % CALLS.len()];
    let pieces: Vec<&[u8]> = rest.split(|byte| *byte == CUT).collect();
    let body = &pieces.concat();
    API.with(|api| {
        let (status, told) = api.call(path, body);
        match path {
            "/v1/check" => {
                decided(status, &told);
                check_batched(api, body, status, &told);
                ways::agree(&api.runtime, &api.policy, &pieces, choice / CALLS.len());
            }
            "/v1/reserve" => decided(status, &told),
            "/v1/check/batch" if status == 200 => {
                let results = told["results"].as_array().unwrap();
                let sent: Value = serde_json::from_slice(body).unwrap();
                assert_eq!(results.len(), sent["checks"].as_array().unwrap().len());
                for result in results {
                    match result["status"].as_u64() {
                        Some(status) => problem(u16::try_from(status).unwrap(), result),
                        None => assert!(result["allowed"].is_boolean(), "{result}"),
                    }
                }
            }
            _ if status == 200 => assert!(told["result"].is_string(), "{told}"),
            _ => problem(status, &told),
        }
    });
}

fn decided(status: u16, told: &Value) {
    match status {
        200 => assert_eq!(told["allowed"], true, "{told}"),
        429 => assert_eq!(told["allowed"], false, "{told}"),
        _ => return problem(status, told),
    }
    assert!(told["limits"].is_array(), "{told}");
}

/// What a caller did wrong is the caller's fault, and says what.
fn problem(status: u16, told: &Value) {
    assert!(matches!(status, 400 | 413), "{status} {told}");
    assert_eq!(told["status"], status, "{told}");
    assert!(!told["detail"].as_str().unwrap().is_empty());
}

/// A body that is refused alone is refused in a batch, and for the same reason.
fn check_batched(api: &Api, body: &[u8], status: u16, told: &Value) {
    let is_object = serde_json::from_slice::<Value>(body).is_ok_and(|value| value.is_object());
    if !is_object {
        return;
    }
    let batch = [b"{\"checks\":[", body, b"]}"].concat();
    let (_, answer) = api.call(CALLS[1], &batch);
    // Where a batch as a whole is refused, the place in it is another.
    let refused = answer.get("results").is_none();
    let result = answer["results"].get(0).unwrap_or(&answer);
    let shown = String::from_utf8_lossy(body);
    assert_eq!(result["status"].is_u64(), status == 400, "{shown}: {told}, then {result}");
    if status == 400 && !refused {
        assert_eq!(result["detail"], told["detail"], "{shown}");
    }
}
