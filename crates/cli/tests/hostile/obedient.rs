//! Who waits as long as an answer says is admitted, by every algorithm, over real sockets.

use std::net::SocketAddr;

use sfv::{BareItem, List, ListEntry, Parser};
use tollkeeper_engine::{SystemTimer, Timer};

use crate::client::Client;
use crate::kit::{Reply, Service};

const SECOND_US: u64 = 1_000_000;

/// Two units each, and whole seconds until there is another.
const POLICY: &str = "
headers: [legacy, ietf]
rules:
  token_bucket: { token_bucket: { capacity: 2, refill_rate: 1/s } }
  gcra: { gcra: { burst: 2, rate: 1/s } }
  leaking_bucket: { leaking_bucket: { queue_capacity: 2, leak_rate: 1/s } }
  fixed_window: { fixed_window: { max_requests: 2, window_size: 2s } }
  sliding_window_log: { sliding_window_log: { max_requests: 2, window_size: 2s } }
  sliding_window_counter: { sliding_window_counter: { max_requests: 2, window_size: 2s } }
  concurrency: { concurrency: { max_in_flight: 2, lease: 2s } }
";

const RULES: [&str; 7] = [
    "token_bucket",
    "gcra",
    "leaking_bucket",
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "concurrency",
];

/// A member of one of the headers: its name, and its parameters.
struct Member {
    name: String,
    numbers: Vec<(String, u64)>,
}

impl Member {
    fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }
}

/// Reads a header as the standard of structured fields says.
fn members(reply: &Reply, header: &str) -> Vec<Member> {
    let text = reply.header(header).unwrap();
    let list: List = Parser::new(text).parse().unwrap();
    let member = |entry: ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("{text}") };
        let BareItem::String(name) = item.bare_item else { panic!("{text}") };
        let number = |value: BareItem| match value {
            BareItem::Integer(number) => u64::try_from(i64::from(number)).unwrap(),
            _ => panic!("{text}"),
        };
        let numbers = item.params.into_iter().map(|(key, value)| (key.to_string(), number(value)));
        Member { name: name.to_string(), numbers: numbers.collect() }
    };
    list.into_iter().map(member).collect()
}

/// The one limit of a rule, as `RateLimit` tells it: what remains, and seconds until it is as new.
fn rate_limit(reply: &Reply, rule: &str) -> (u64, u64) {
    let [policy] = members(reply, "ratelimit-policy").try_into().ok().unwrap();
    assert_eq!((policy.name.as_str(), policy.number("q")), (rule, Some(2)));
    assert_eq!(policy.number("w"), (rule != "concurrency").then_some(2), "{rule}");
    let [limit] = members(reply, "ratelimit").try_into().ok().unwrap();
    assert_eq!(limit.name, rule);
    let numbers = (limit.number("r").unwrap(), limit.number("t").unwrap());
    let body = reply.json();
    assert_eq!(body["remaining"], numbers.0);
    assert_eq!(body["reset_after_ms"].as_u64().unwrap().div_ceil(1000), numbers.1);
    assert_eq!(reply.header("x-ratelimit-remaining"), Some(numbers.0.to_string().as_str()));
    numbers
}

/// A client of one rule.
struct Obedient {
    address: SocketAddr,
    rule: &'static str,
    timer: SystemTimer,
    runtime: tokio::runtime::Runtime,
}

impl Obedient {
    fn new(address: SocketAddr, rule: &'static str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { address, rule, timer: SystemTimer::new(), runtime }
    }

    fn ask(&self) -> Reply {
        Client::connect(self.address)
            .post("/v1/check", &format!(r#"{{"rule":"{0}","key":"{0}"}}"#, self.rule))
    }

    /// Waits for whole seconds from now, which is later than when the answer was made.
    fn wait(&self, seconds: u64) {
        let at_us = self.timer.now_us() + seconds * SECOND_US;
        self.runtime.block_on(async { self.timer.at(at_us).await });
    }

    /// Asks until there is nothing left; the refusal, and the seconds after which to come back.
    fn use_up(&self) -> (Reply, u64) {
        for _ in 0..10 {
            let reply = self.ask();
            let (remaining, _) = rate_limit(&reply, self.rule);
            if reply.status == 200 {
                assert_eq!(reply.header("retry-after"), None);
                continue;
            }
            assert_eq!((reply.status, remaining), (429, 0), "{reply:?}");
            let seconds = reply.header("retry-after").unwrap().parse().unwrap();
            let exact_ms = reply.json()["retry_after_ms"].as_u64().unwrap();
            assert!(seconds >= 1 && exact_ms.div_ceil(1000) == seconds, "{reply:?}");
            return (reply, seconds);
        }
        panic!("{} refuses nobody", self.rule)
    }

    /// Does as it is told, three times, and then waits until all is as new.
    fn obey(self) {
        for _ in 0..3 {
            let (_, seconds) = self.use_up();
            self.wait(seconds);
            let reply = self.ask();
            assert_eq!(reply.status, 200, "{} after {seconds} s: {reply:?}", self.rule);
        }
        let (refusal, _) = self.use_up();
        let (_, seconds) = rate_limit(&refusal, self.rule);
        self.wait(seconds);
        let reply = self.ask();
        let (remaining, _) = rate_limit(&reply, self.rule);
        assert_eq!((reply.status, remaining), (200, 1), "{} is as new: {reply:?}", self.rule);
    }
}

#[test]
fn who_obeys_is_admitted() {
    let service = Service::start("obedient", POLICY);
    let address = service.address;
    std::thread::scope(|scope| {
        for rule in RULES {
            scope.spawn(move || Obedient::new(address, rule).obey());
        }
    });
}
