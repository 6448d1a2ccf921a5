//! What it costs to find the rules of a request, in a file of ten rules and in one of ten thousand.
//! Run it with `cargo bench -p tollkeeper-policy`.
//!
//! Each request meets three rules. The two files take turns, so that a machine that slows down
//! slows both down, and the median of all turns counts. `same` asks for one path again and again;
//! `others` for another path each time, so that with ten thousand rules the memory of most of
//! them is cold.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![allow(clippy::print_stdout, reason = "it tells what it measured")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::fmt::Write;
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use tollkeeper_policy::{Policy, RequestView};

const TURNS: usize = 401;
const REQUESTS: usize = 2_000;

/// A request that costs nothing to look at.
struct Get<'a> {
    path: &'a str,
    host: &'a str,
    tenant: &'a str,
}

impl RequestView for Get<'_> {
    fn method(&self) -> Option<&str> {
        Some("GET")
    }

    fn path(&self) -> Option<&str> {
        Some(self.path)
    }

    fn host(&self) -> Option<&str> {
        Some(self.host)
    }

    fn header(&self, name: &str) -> Option<&str> {
        match name {
            "x-api-key" => Some("key-of-a-client"),
            "x-tenant" => Some(self.tenant),
            _ => None,
        }
    }

    fn ip(&self) -> Option<IpAddr> {
        Some(IpAddr::from([203, 0, 113, 7]))
    }
}

/// What tells the rules of a file apart.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Paths,
    Hosts,
    Headers,
}

const KINDS: [Kind; 3] = [Kind::Paths, Kind::Hosts, Kind::Headers];

/// A file of so many rules: one for every client, one for the service, the others for one thing
/// each.
fn policy(kind: Kind, rules: usize) -> Policy {
    let mut text = "rules:\n  per-ip: { limit: 1000/min, key: ip }\n".to_owned();
    text += "  service: { limit: 1/s, key: header:x-api-key, match: { path: /v1/**, methods: [GET] } }\n";
    for number in 2..rules {
        let match_ = match kind {
            Kind::Paths => {
                format!("path: \"/v1/service-{number}/items/{{id}}\", methods: [GET, POST]")
            }
            Kind::Hosts => format!("host: tenant-{number}.example.com"),
            Kind::Headers => format!("headers: {{ x-tenant: tenant-{number} }}"),
        };
        let _ = writeln!(
            text,
            "  r{number}: {{ limit: 1/s, key: [header:x-api-key, method], match: {{ {match_} }} }}"
        );
    }
    Policy::parse(&text, &|_| None).unwrap()
}

struct Texts {
    paths: Vec<String>,
    hosts: Vec<String>,
    tenants: Vec<String>,
}

/// The requests of one turn; each is for one of the first `rules` rules.
fn texts(rules: usize, same: bool) -> Texts {
    // A step that is prime to every count of rules visits them in no order that caches like.
    let numbers = (0..REQUESTS).map(|i| if same { 5 } else { 2 + (i * 7_919) % (rules - 2) });
    let numbers: Vec<usize> = numbers.collect();
    let each = |text: &dyn Fn(usize) -> String| numbers.iter().map(|n| text(*n)).collect();
    Texts {
        paths: each(&|n| format!("/v1/service-{n}/items/4711")),
        hosts: each(&|n| format!("tenant-{n}.example.com")),
        tenants: each(&|n| format!("tenant-{n}")),
    }
}

/// Nanoseconds for one request.
fn turn(policy: &Policy, requests: &[Get<'_>]) -> f64 {
    let begun = Instant::now();
    let mut met = 0;
    for request in requests {
        met += black_box(policy.meet(black_box(request))).met.len();
    }
    let taken = begun.elapsed();
    assert_eq!(met, 3 * requests.len(), "every request meets three rules");
    taken.as_secs_f64() * 1e9 / requests.len() as f64
}

fn median(mut turns: Vec<f64>) -> f64 {
    turns.sort_by(f64::total_cmp);
    turns[turns.len() / 2]
}

fn main() {
    for kind in KINDS {
        let (few, many) = (policy(kind, 10), policy(kind, 10_000));
        for same in [true, false] {
            let (few_texts, many_texts) = (texts(10, same), texts(10_000, same));
            let requests = |texts: &'static Texts| -> Vec<Get<'static>> {
                let all = texts.paths.iter().zip(&texts.hosts).zip(&texts.tenants);
                all.map(|((path, host), tenant)| Get { path, host, tenant }).collect()
            };
            let (few_requests, many_requests) = (
                requests(Box::leak(Box::new(few_texts))),
                requests(Box::leak(Box::new(many_texts))),
            );
            let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                of_few.push(turn(&few, &few_requests));
                of_many.push(turn(&many, &many_requests));
            }
            let (few_ns, many_ns) = (median(of_few), median(of_many));
            let which = if same { "same" } else { "others" };
            println!(
                "{kind:?} {which}: 10 rules {few_ns:.0} ns, 10000 rules {many_ns:.0} ns, ratio {:.2}",
                many_ns / few_ns
            );
        }
    }
}
