//! Four services on one real server are asked for ten times what a limit allows: together they admit
//! no more than it, and hardly less.
//!
//! The upper bound holds by how leases are made, however slow the machine is: it is exact, for every
//! interval, of which a request was decided in those that hold both its question and its answer. The lower one is of stretches, all but one of which have to reach it: units that a stalled process holds end
//! unspent. What a stall costs is little: a process holds a quarter second's worth of its quarter of
//! the limit, and what flows in meanwhile is kept by the server, which has room for seconds of it. For how
//! long the machine itself stood still is measured beside, and not asked for.

#![allow(clippy::disallowed_methods, reason = "what flows in depends on real time")]

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use tollkeeper_testkit::moment::pass;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{Service, read_reply, request};

/// Units a second, and at once.
const PER_SECOND: u64 = 1_600;
const AT_ONCE: u64 = 4 * PER_SECOND;

/// What one request takes: a few hundred a second are ten times the limit.
const COST: u64 = 20;

const SERVICES: u64 = 4;
const TIMES_THE_LIMIT: u64 = 10;

/// Long enough that what they hold when it begins and when it ends does not matter.
const STRETCH: Duration = Duration::from_secs(4);
const STRETCHES: usize = 4;

/// How late the machine may be without standing still.
const PUNCTUAL: Duration = Duration::from_millis(10);

/// Units that were asked for, and those that were admitted.
#[derive(Clone, Debug, Default)]
struct Units {
    asked: u64,
    /// For each request when it was asked and when it was told, since the test began.
    admitted: Vec<(Duration, Duration)>,
    /// For how long the machine stood still meanwhile.
    stalled: Duration,
}

impl Units {
    fn admitted(&self) -> u64 {
        self.admitted.len() as u64 * COST
    }
}

/// Asserts that no interval holds more than is allowed in it.
fn assert_never_over(mut admitted: Vec<(Duration, Duration)>) {
    admitted.sort_by_key(|(_, told)| *told);
    for (from, _) in &admitted {
        let mut units = 0;
        for (_, told) in admitted.iter().filter(|(asked, _)| asked >= from) {
            units += COST;
            let most = AT_ONCE + flows_in(*told - *from) + 1;
            assert!(units <= most, "{units} from {from:?} to {told:?}, where {most} are allowed");
        }
    }
}

/// What flows in.
fn flows_in(time: Duration) -> u64 {
    let units = u128::from(PER_SECOND) * time.as_micros() / 1_000_000;
    u64::try_from(units).unwrap()
}

/// Asks one service for its part of the demand, for so long.
fn ask(service: &Service, time: Duration, first: Instant) -> Units {
    let begun = Instant::now();
    let body = format!(r#"{{"rule":"hot","key":"k","cost":{COST}}}"#);
    let check = request("POST", "/v1/check", &[], body.as_bytes());
    let mut stream = BufReader::new(TcpStream::connect(service.address).unwrap());
    let mut units = Units::default();
    while begun.elapsed() < time {
        if units.asked > flows_in(begun.elapsed()) * TIMES_THE_LIMIT / SERVICES {
            pass(Duration::from_millis(1));
            continue;
        }
        let asked = first.elapsed();
        stream.get_mut().write_all(&check).unwrap();
        let reply = read_reply(&mut stream);
        assert!(reply.status == 200 || reply.status == 429, "{reply:?}");
        units.asked += COST;
        if reply.status == 200 {
            units.admitted.push((asked, first.elapsed()));
        }
    }
    units
}

/// For how long the machine stands still, of so long.
fn stalled(time: Duration) -> Duration {
    let (begun, mut stalled) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < time {
        let at = Instant::now();
        pass(Duration::from_millis(1));
        let late = at.elapsed();
        stalled += if late > PUNCTUAL { late } else { Duration::ZERO };
    }
    stalled
}

fn ask_all(services: &[Service], time: Duration, first: Instant) -> Units {
    let (stalled, each): (Duration, Vec<Units>) = thread::scope(|scope| {
        let watching = scope.spawn(move || stalled(time));
        let asking = services.iter().map(|service| scope.spawn(move || ask(service, time, first)));
        let asking = asking.collect::<Vec<_>>().into_iter().map(|one| one.join().unwrap());
        let each = asking.collect();
        (watching.join().unwrap(), each)
    });
    let asked = each.iter().map(|one| one.asked).sum();
    Units { asked, admitted: each.into_iter().flat_map(|one| one.admitted).collect(), stalled }
}

#[test]
fn at_ten_times_the_limit_four_services_admit_all_of_it_and_no_more() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let policy = format!(
        "store: {{ url: \"{}\", nodes: {SERVICES}, timeout: 5s, on_failure: closed }}
rules:
  hot: {{ limit: {PER_SECOND}/s burst {AT_ONCE}, consistency: lease, period: 250ms }}
",
        server.url(),
    );
    let services: Vec<Service> =
        (0..SERVICES).map(|nth| Service::start(&format!("overload-{nth}"), &policy)).collect();
    let begun = Instant::now();
    // What there was at once is gone.
    let mut admitted = ask_all(&services, Duration::from_secs(2), begun).admitted;
    assert!(admitted.len() as u64 * COST > AT_ONCE / 2, "{} requests", admitted.len());
    let mut stretches = Vec::new();
    let reached = (0..STRETCHES).filter(|_| {
        let stretch = Instant::now();
        let units = ask_all(&services, STRETCH, begun);
        let allowed = flows_in(stretch.elapsed().saturating_sub(units.stalled));
        admitted.extend(&units.admitted);
        let (asked, used) = (units.asked, units.admitted());
        println!("{asked} asked, {used} admitted in {:?}, of {allowed}", stretch.elapsed());
        stretches.push((asked, used, allowed));
        asked >= 9 * allowed && used * 100 >= allowed * 97
    });
    let reached = reached.count();
    assert_never_over(admitted);
    assert!(
        reached + 1 >= STRETCHES,
        "units asked for and admitted, and what was allowed: {stretches:?}"
    );
}
