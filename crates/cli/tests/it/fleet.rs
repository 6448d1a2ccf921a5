//! Four services that decide one limit by themselves, on one real server, through crashes of either.

#![allow(clippy::disallowed_methods, reason = "what flows in depends on real time")]

use std::thread;
use std::time::{Duration, Instant};

use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{Service, until};

const LIMIT: u64 = 3_000;

/// How often the server is told, with `sync`.
const REPORTED: Duration = Duration::from_millis(100);

/// What is decided by whom, since when.
struct Fleet {
    server: RedisServer,
    services: Vec<Service>,
    begun: Instant,
}

/// What some checks were told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    asked: u64,
    admitted: u64,
    here: u64,
    without: u64,
    /// Told less than a period after the one before.
    soon: u64,
}

/// A check that was admitted: when it was asked and when it was told.
type Admitted = (Instant, Instant);

impl Fleet {
    fn start(rule: &str) -> Self {
        let server = RedisServer::start("redis-server", &[]).unwrap();
        let policy = format!(
            "store: {{ url: \"{}\", timeout: 5s, on_failure: closed, {} }}
rules:
  hot: {{ limit: {LIMIT}/min, {rule} }}
",
            server.url(),
            if rule.contains("share") { "count_nodes: true" } else { "nodes: 4" },
        );
        let way = rule.split([' ', ',']).nth(1).unwrap();
        let services = (0..4).map(|nth| Service::start(&format!("fleet-{way}-{nth}"), &policy));
        let services = services.collect();
        Self { server, services, begun: Instant::now() }
    }

    /// Asks every service at once, `times` each.
    fn ask(&self, times: usize) -> Told {
        let told: Vec<Told> = thread::scope(|scope| {
            let each = self.services.iter().map(|service| scope.spawn(|| ask(service, times)));
            each.collect::<Vec<_>>().into_iter().map(|one| one.join().unwrap()).collect()
        });
        told.into_iter().fold(Told::default(), Told::and)
    }

    /// Asks until more than half of the limit is admitted, and for as much again. It is drawn bit by bit: a
    /// quarter of it is out at most.
    fn ask_for_half(&self, before: Told) -> Told {
        let mut told = Told::default();
        until("more than half of the limit is admitted", || {
            told = told.and(self.ask(500));
            before.admitted + told.admitted > LIMIT / 2
        });
        told.and(self.ask(1_000))
    }

    /// What the limit allows since the beginning, from which `capacities` were full.
    fn allowed(&self, capacities: u64) -> u64 {
        let elapsed_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap() + 1;
        capacities * LIMIT + LIMIT * elapsed_ms / 60_000 + 1
    }
}

fn ask(service: &Service, times: usize) -> Told {
    ask_timed(service, times).0
}

fn ask_timed(service: &Service, times: usize) -> (Told, Vec<Admitted>) {
    let (mut told, mut admitted, mut last) = (Told::default(), Vec::new(), None::<Instant>);
    for _ in 0..times {
        let asked = Instant::now();
        let reply = service.post("/v1/check", r#"{"rule":"hot","key":"k"}"#).json();
        let now = Instant::now();
        told.asked += 1;
        told.soon += u64::from(last.is_some_and(|last| now < last + REPORTED));
        last = Some(now);
        if reply["allowed"] == true {
            admitted.push((asked, now));
        }
        told.admitted += u64::from(reply["allowed"] == true);
        let source = reply["source"].as_str().unwrap();
        told.here += u64::from(["lease", "sync", "share"].contains(&source));
        told.without += u64::from(source == "fallback");
    }
    (told, admitted)
}

impl Told {
    fn and(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            admitted: self.admitted + other.admitted,
            here: self.here + other.here,
            without: self.without + other.without,
            soon: self.soon + other.soon,
        }
    }
}

#[test]
fn leases_hold_when_a_node_dies_with_them_and_when_the_server_forgets() {
    let mut fleet = Fleet::start("consistency: lease");
    let first = fleet.ask(200);
    assert!(first.here * 10 > first.asked * 9, "{first:?}");
    // One dies with what it has. What it had is lost, and nobody else has it.
    fleet.services[3].kill();
    fleet.services.truncate(3);
    let second = fleet.ask_for_half(first);
    let admitted = first.admitted + second.admitted;
    assert!(admitted <= fleet.allowed(1), "{first:?}, {second:?}");
    assert_eq!(fleet.server.keys_without_ttl().unwrap(), Vec::<String>::new());
    // The server dies: what is leased is spent, what a process knows to be short it denies for a period
    // more, however fast it is asked meanwhile, and then the rule fails closed.
    fleet.server.kill();
    let mut third = Told::default();
    for service in &fleet.services {
        until("the rule fails closed", || {
            let told = ask(service, 1);
            third = third.and(told);
            told.without > 0
        });
    }
    assert!(third.admitted <= third.here, "{third:?}");
    // It comes back and knows nothing: one capacity more, once.
    fleet.server.restart().unwrap();
    until("the server decides again", || {
        fleet.services.iter().all(|service| ask(service, 1).without == 0)
    });
    let fourth = fleet.ask_for_half(Told::default());
    let admitted = admitted + third.admitted + fourth.admitted;
    assert!(admitted <= fleet.allowed(2), "{first:?}, {second:?}, {third:?}, {fourth:?}");
}

/// How many a service may have admitted in some two periods at most, whenever within each call.
fn most_in_two_periods(admitted: &[Admitted]) -> u64 {
    let until = |told: Instant| told + 2 * REPORTED;
    let within = |(nth, (_, told)): (usize, &Admitted)| {
        admitted[nth..].iter().take_while(|(asked, _)| *asked <= until(*told)).count()
    };
    admitted.iter().enumerate().map(within).max().unwrap_or(0) as u64
}

/// What is not told yet was admitted since what was last heard was asked for, which counts for two periods:
/// that much each service can be over, once, however fast the machine lets it be asked.
#[test]
fn reports_keep_their_bound_and_what_is_too_much_is_paid_back() {
    let fleet = Fleet::start("consistency: sync, sub_shards: 2");
    let each: Vec<(Told, Vec<Admitted>)> = thread::scope(|scope| {
        let asking = |service| scope.spawn(move || ask_timed(service, 3_000));
        let each: Vec<_> = fleet.services.iter().map(asking).collect();
        each.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let told = each.iter().fold(Told::default(), |all, (told, _)| all.and(*told));
    let over: u64 = each.iter().map(|(_, admitted)| most_in_two_periods(admitted)).sum();
    let most = fleet.allowed(1) + over;
    assert!((LIMIT * 9 / 10..=most).contains(&told.admitted), "{told:?} of {most}");
    // Most of those who come while what was heard counts are decided by it.
    assert!(told.here * 2 > told.soon && told.without == 0, "{told:?}");
    assert_eq!(fleet.server.keys_without_ttl().unwrap(), Vec::<String>::new());
}

#[test]
fn shares_are_of_as_many_as_there_are() {
    let mut fleet = Fleet::start("consistency: share");
    // Until all have heard of all, nobody serves, and nobody should be sent anything.
    assert_eq!(fleet.ask(1).admitted, 0);
    let ready = fleet.services[3].get("/readyz");
    assert_eq!((ready.status, ready.json()["ready"].as_bool()), (503, Some(false)));
    assert!(ready.json()["begins_in_ms"].as_u64().is_some_and(|ms| ms <= 3_000), "{}", ready.body);
    until("all serve", || fleet.services.iter().all(|service| ask(service, 1).admitted == 1));
    // A process that begins has nothing: it gets what flows in.
    let told = fleet.ask(500);
    assert!(told.admitted <= fleet.allowed(0), "{told:?}");
    assert_eq!((told.here, told.without), (told.asked, 0));
    assert!(fleet.services.iter().all(|service| service.get("/readyz").status == 200));
    // When some are gone, the others have their parts.
    fleet.services.truncate(1);
    until("its part grows", || {
        let metrics = fleet.services[0].get("/metrics").body;
        metrics.lines().any(|line| line == "tollkeeper_nodes 1")
    });
    let after = fleet.ask(500);
    assert!(told.admitted + after.admitted <= fleet.allowed(0), "{told:?}, {after:?}");
}
