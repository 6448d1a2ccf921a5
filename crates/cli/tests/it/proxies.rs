//! Forward-auth with the proxies that people have: real nginx, Caddy and Traefik, configured by the
//! very files of the examples, between real clients and an app.

use std::time::Duration;

use tollkeeper_testkit::app::App;
use tollkeeper_testkit::call::{Answer, Call};
use tollkeeper_testkit::front::{Front, Kind};
use tollkeeper_testkit::moment::pass;

use crate::kit::Service;

/// Clients come from 127.0.0.2 and up; 127.0.0.1 is the proxy.
const POLICY: &str = "
client_ip: { trusted_proxies: [127.0.0.1] }
headers: [legacy, ietf]
rules:
  per-client: { match: { path: /api/** }, key: ip, limit: 3/day }
  orders: { match: { path: /orders, methods: [POST] }, limit: 1/day }
  shop: { match: { host: shop.example }, limit: 1/day }
  free-plan: { match: { path: /reports, headers: { x-plan: free } }, limit: 1/day }
  keyed: { match: { path: /keyed }, key: header:x-api-key, limit: 1/day, when_missing: deny }
  soon: { match: { path: /soon }, key: ip, limit: 1/s }
";

/// Clients, a proxy, Tollkeeper and an app.
pub(crate) struct Street {
    kind: Kind,
    pub(crate) service: Service,
    pub(crate) app: App,
    pub(crate) front: Front,
}

impl Street {
    fn new(name: &str, kind: Kind) -> Self {
        Self::with(&format!("{name}-{kind:?}"), kind, POLICY, str::to_owned)
    }

    /// With another policy, and with the proxy's file changed.
    pub(crate) fn with(
        name: &str,
        kind: Kind,
        policy: &str,
        change: impl Fn(&str) -> String,
    ) -> Self {
        let file = match kind {
            Kind::Nginx => include_str!("../../../../examples/nginx/nginx.conf"),
            Kind::Caddy => include_str!("../../../../examples/caddy/Caddyfile"),
            Kind::Traefik => include_str!("../../../../examples/traefik/dynamic.yaml"),
        };
        let (service, app) = (Service::start(name, policy), App::start().unwrap());
        let front = Front::start(kind, |address| {
            change(file)
                .replace("127.0.0.1:8080", &service.address.to_string())
                .replace("127.0.0.1:9000", &app.address().to_string())
                .replace(":8000", &format!(":{}", address.port()))
        });
        let street = Self { kind, service, app, front: front.unwrap() };
        // What it was asked until it was ready.
        let _ = street.app.take();
        street
    }

    pub(crate) fn send(&self, call: &Call) -> Answer {
        let sent = call.send(self.front.address());
        sent.unwrap_or_else(|error| panic!("{:?}: {error}; {}", self.kind, self.front.log()))
    }

    pub(crate) fn status(&self, call: &Call) -> u16 {
        self.send(call).status
    }

    /// What an allowed request was told to have left: the client sees it, but through Traefik,
    /// which has no way to tell it to anybody but the app.
    fn remaining(&self, call: &Call) -> Option<String> {
        let answer = self.send(call);
        let seen = self.app.take();
        assert_eq!((answer.status, seen.len()), (200, 1), "{:?}: {answer:?}", self.kind);
        let told = match self.kind {
            Kind::Traefik => seen[0].header("x-ratelimit-remaining"),
            _ => answer.header("x-ratelimit-remaining"),
        };
        assert_eq!(answer.count("x-ratelimit-remaining"), usize::from(self.is_told(&answer)));
        told.map(str::to_owned)
    }

    fn is_told(&self, answer: &Answer) -> bool {
        self.kind != Kind::Traefik && answer.header("x-ratelimit-limit").is_some()
    }
}

fn is_our_429(kind: Kind, denied: &Answer, rule: &str) {
    assert_eq!(denied.status, 429, "{kind:?}: {denied:?}");
    let retry: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    let body = denied.json();
    assert_eq!(body["message"], format!("Try again in {retry}s"), "{kind:?}: {denied:?}");
    assert_eq!((&body["error"], &body["status"]), (&"rate_limited".into(), &429.into()));
    assert_eq!((&body["rule"], &body["remaining"]), (&rule.into(), &0.into()));
    assert_eq!(body["violated-policies"], serde_json::json!([rule]));
    assert_eq!(denied.header("content-type"), Some("application/json"));
    assert_eq!(denied.header("cache-control"), Some("no-store"));
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    assert!(denied.header("x-ratelimit-reset").is_some());
    let quoted = format!("\"{rule}\";");
    for name in ["ratelimit", "ratelimit-policy"] {
        assert!(denied.header(name).is_some_and(|text| text.starts_with(&quoted)), "{denied:?}");
        assert_eq!(denied.count(name), 1, "{kind:?}: {denied:?}");
    }
}

/// Each client has a limit of its own, and none by another name.
fn counts_each_client(kind: Kind) {
    let street = Street::new("clients", kind);
    let api = |last: u8| Call::get("/api/x").from(last);
    for left in ["2", "1", "0"] {
        assert_eq!(street.remaining(&api(2)).as_deref(), Some(left), "{kind:?}");
    }
    is_our_429(kind, &street.send(&api(2)), "per-client");
    assert_eq!(street.remaining(&api(3)).as_deref(), Some("2"), "{kind:?}");

    for (name, value) in [
        ("x-forwarded-for", "127.0.0.77"),
        ("x-forwarded-for", "127.0.0.77, 127.0.0.1"),
        ("forwarded", "for=127.0.0.77"),
        ("x-real-ip", "127.0.0.77"),
        ("x-forwarded-uri", "/elsewhere"),
        ("x-forwarded-method", "DELETE"),
        ("x-forwarded-host", "elsewhere.example"),
        ("x-original-method", "DELETE"),
        ("x-original-host", "elsewhere.example"),
        ("x-ratelimit-remaining", "1000"),
    ] {
        let forged = street.send(&api(2).header(name, value));
        assert_eq!(forged.status, 429, "{kind:?} takes {name}: {value}: {forged:?}");
    }
    // What nginx writes itself it replaces; from the others it comes beside what they write.
    let forged = street.send(&api(2).header("x-original-uri", "/elsewhere"));
    let expected = if kind == Kind::Nginx { 429 } else { 400 };
    assert_eq!(forged.status, expected, "{kind:?}: {forged:?}");
    // Bytes beyond ASCII do not hide what the proxy wrote.
    let forged = Call::get("/api/x?é").from(2).header("x-original-uri", "/elsewhere");
    assert_eq!(street.status(&forged), expected, "{kind:?}");
    // A forger who still has something left is charged all the same, and only once.
    let forged =
        api(3).header("x-forwarded-for", "127.0.0.78").header("x-ratelimit-remaining", "9");
    assert_eq!(street.remaining(&forged).as_deref(), Some("1"), "{kind:?}");
    assert_eq!(street.remaining(&api(78)).as_deref(), Some("2"), "{kind:?}");
    assert_eq!(street.app.take(), [], "{kind:?}: the app has seen what was refused");
}

/// Rules see the request that the client sent.
fn shows_the_request(kind: Kind) {
    let street = Street::new("request", kind);
    let order = |method: &str| Call::new(method, "/orders?item=7").from(2).body(&[b'x'; 70_000]);
    let first = street.send(&order("POST"));
    assert_eq!((first.status, first.json()["body_bytes"].as_u64()), (200, Some(70_000)));
    is_our_429(kind, &street.send(&order("POST")), "orders");
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(street.status(&order(method)), 200, "{kind:?} {method}");
    }
    let seen: Vec<String> = street.app.take().into_iter().map(|seen| seen.method).collect();
    assert_eq!(seen, ["POST", "PUT", "DELETE", "PATCH"], "{kind:?}");

    let at = |host: &str| street.status(&Call::get("/").header("host", host));
    let statuses = ["shop.example", "SHOP.example:8000", "blog.example"].map(at);
    assert_eq!(statuses, [200, 429, 200], "{kind:?}");
    let plan = |plan: &str| street.status(&Call::get("/reports").header("x-plan", plan));
    assert_eq!(["free", "paid", "free", "paid"].map(plan), [200, 200, 429, 200], "{kind:?}");
    let key = |key: &str| street.status(&Call::get("/keyed").header("x-api-key", key));
    assert_eq!(["a", "b", "a"].map(key), [200, 200, 429], "{kind:?}");
    let lacking = street.send(&Call::get("/keyed"));
    assert_eq!(lacking.status, 429, "{kind:?}: {lacking:?}");
    assert!(lacking.json()["message"].as_str().unwrap().contains("header:x-api-key"));
    assert_eq!((lacking.header("retry-after"), lacking.count("x-ratelimit-limit")), (None, 0));
    let allowed = street.app.take().len();
    assert_eq!(allowed, 2 + 3 + 2, "{kind:?}: the app has seen what was refused");
    // Whom no rule is for is told nothing, and a 403 of the app is the app's.
    assert_eq!(street.remaining(&Call::get("/about?x=%20y&deny=500")), None);
    let own = street.send(&Call::get("/status/403"));
    assert_eq!((own.status, own.header("x-app")), (403, Some("here")), "{kind:?}: {own:?}");
}

/// However a path is spelt, it is the same path, and however long.
fn knows_every_spelling(kind: Kind) {
    let street = Street::new("spelling", kind);
    // The others refuse much more than this by themselves; we take heads of 32 kB.
    let length = if kind == Kind::Traefik { 30_000 } else { 8_000 };
    let long = format!("/api/x?{}", "y".repeat(length));
    let targets = [
        "/%61pi/x",
        "//api//x",
        "/api/./y/../x",
        "/api/caf%C3%A9%20x",
        "/api/x?y=/../../free&z=%2F",
        "/api/x?deny=500",
        "/api/x?y=é",
        "/api?",
        "http://localhost/api/x",
        &long,
    ];
    for (target, last) in targets.into_iter().zip(10..) {
        let call = Call::get(target).from(last);
        assert_eq!(street.remaining(&call).as_deref(), Some("2"), "{kind:?} {target}");
        let head = street.send(&Call::new("HEAD", target).from(last));
        assert_eq!((head.status, head.body.len()), (200, 0), "{kind:?} HEAD {target}");
        assert_eq!(street.app.take().len(), 1);
        assert_eq!(street.remaining(&call).as_deref(), Some("0"), "{kind:?} {target}");
        let denied = street.send(&Call::new("HEAD", target).from(last));
        assert_eq!((denied.status, denied.body.len()), (429, 0), "{kind:?} HEAD {target}");
        assert!(denied.header("retry-after").is_some(), "{kind:?}: {denied:?}");
    }
}

/// Who waits as long as told is admitted.
fn admits_who_obeys(kind: Kind) {
    let street = Street::new("obeys", kind);
    let soon = Call::get("/soon").from(2);
    let denied = loop {
        let answer = street.send(&soon);
        if answer.status != 200 {
            break answer;
        }
    };
    is_our_429(kind, &denied, "soon");
    let retry: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(retry, 1);
    pass(Duration::from_secs(retry));
    assert_eq!(street.status(&soon), 200, "{kind:?}");
}

/// While Tollkeeper is away nobody is let in, and each proxy says so in its own way.
fn is_closed_without_us(kind: Kind, status: u16) {
    let mut street = Street::new("away", kind);
    assert_eq!(street.status(&Call::get("/about")), 200);
    assert_eq!(street.app.take().len(), 1);
    street.service.kill();
    for _ in 0..3 {
        let answer = street.send(&Call::get("/about"));
        assert_eq!(answer.status, status, "{kind:?}: {answer:?}");
    }
    assert_eq!(street.app.take(), []);
}

/// The same while it takes connections and is silent, after a time that the proxy's file says.
fn is_closed_while_we_are_silent(kind: Kind, status: u16) {
    let street = Street::with(&format!("silent-{kind:?}"), kind, POLICY, |file| {
        let changed = file.replace("5s", "300ms");
        assert_ne!(changed, file);
        changed
    });
    street.service.freeze();
    let answer = street.send(&Call::get("/about"));
    assert_eq!(answer.status, status, "{kind:?}: {answer:?}");
    assert_eq!(street.app.take(), []);
}

#[test]
fn nginx_counts_each_client() {
    counts_each_client(Kind::Nginx);
}

#[test]
fn caddy_counts_each_client() {
    counts_each_client(Kind::Caddy);
}

#[test]
fn traefik_counts_each_client() {
    counts_each_client(Kind::Traefik);
}

#[test]
fn nginx_shows_the_request() {
    shows_the_request(Kind::Nginx);
}

#[test]
fn caddy_shows_the_request() {
    shows_the_request(Kind::Caddy);
}

#[test]
fn traefik_shows_the_request() {
    shows_the_request(Kind::Traefik);
}

#[test]
fn nginx_knows_every_spelling() {
    knows_every_spelling(Kind::Nginx);
}

#[test]
fn caddy_knows_every_spelling() {
    knows_every_spelling(Kind::Caddy);
}

#[test]
fn traefik_knows_every_spelling() {
    knows_every_spelling(Kind::Traefik);
}

#[test]
fn nginx_admits_who_obeys() {
    admits_who_obeys(Kind::Nginx);
}

#[test]
fn caddy_admits_who_obeys() {
    admits_who_obeys(Kind::Caddy);
}

#[test]
fn traefik_admits_who_obeys() {
    admits_who_obeys(Kind::Traefik);
}

#[test]
fn nginx_is_closed_without_us() {
    is_closed_without_us(Kind::Nginx, 500);
}

#[test]
fn caddy_is_closed_without_us() {
    is_closed_without_us(Kind::Caddy, 502);
}

#[test]
fn nginx_is_closed_while_we_are_silent() {
    is_closed_while_we_are_silent(Kind::Nginx, 500);
}

#[test]
fn caddy_is_closed_while_we_are_silent() {
    is_closed_while_we_are_silent(Kind::Caddy, 504);
}

#[test]
fn traefik_is_closed_without_us() {
    is_closed_without_us(Kind::Traefik, 500);
}
