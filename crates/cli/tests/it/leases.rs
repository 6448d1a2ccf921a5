//! Two services that lease one limit from one server.

use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{Service, until};
use crate::reload::replace;

fn policy(server: &RedisServer) -> String {
    format!(
        "store: {{ url: \"{}\", nodes: 2, timeout: 5s, on_failure: closed }}
rules:
  hot: {{ limit: 1000/min, consistency: lease }}
  exact: {{ limit: 1000/min }}
",
        server.url()
    )
}

/// How many scripts the server has run.
fn scripts(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let stats = stats.to_string();
    let calls = |line: &str| -> Option<u64> {
        let (_, rest) = line.strip_prefix("cmdstat_eval")?.split_once("calls=")?;
        rest.split(',').next()?.parse().ok()
    };
    stats.lines().filter_map(calls).sum()
}

/// What became of so many checks, each at one of the services in turn.
#[derive(Debug, Default)]
struct Told {
    asked: u64,
    admitted: u64,
    by_lease: u64,
    without: u64,
}

fn ask(services: &[Service], rule: &str, times: usize) -> Told {
    let mut told = Told::default();
    ask_more(services, rule, times, &mut told);
    told
}

fn ask_more(services: &[Service], rule: &str, times: usize, told: &mut Told) {
    for nth in 0..times {
        let body = format!(r#"{{"rule":"{rule}","key":"k"}}"#);
        let reply = services[nth % services.len()].post("/v1/check", &body).json();
        told.asked += 1;
        told.admitted += u64::from(reply["allowed"] == true);
        told.by_lease += u64::from(reply["source"] == "lease");
        told.without += u64::from(reply["source"] == "fallback");
    }
}

/// Asks until more have been admitted. A leased limit is drawn bit by bit, and as much time lies between as
/// the units that are out take to be spent.
fn ask_until_admitted(services: &[Service], rule: &str, most: u64, told: &mut Told) {
    until("enough are admitted", || {
        ask_more(services, rule, 100, told);
        told.admitted > most
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what flows in depends on real time")]
fn a_limit_that_two_services_lease_is_kept_with_few_calls() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let services = ["first", "second"].map(|name| Service::start(name, &policy(&server)));
    let before = scripts(&server);
    let begun = std::time::Instant::now();
    let mut told = ask(&services, "hot", 3000);
    ask_until_admitted(&services, "hot", 500, &mut told);
    let flown_in = begun.elapsed().as_millis() * 1000 / 60_000 + 1;
    let most = 1000 + u64::try_from(flown_in).unwrap();
    assert!(told.admitted <= most, "{told:?} of {most}");
    assert!(told.by_lease > told.asked - 100, "{told:?}");
    let calls = scripts(&server) - before;
    // Eight at first each, and one for each of them in 1.2 s. Two scripts are not known at first, and then called again,
    // perhaps by both.
    let periods = 2 * (begun.elapsed().as_millis() / 900 + 1);
    assert!(u128::from(calls) <= 16 + 4 + periods, "{calls} scripts");
    // What was drawn lately is out, at most a quarter of the limit.
    let state = services[0].get("/debug/state?rule=hot&key=k").json();
    let leased = state["keys"].as_object().unwrap().values().next().unwrap()["leased"].as_u64();
    assert!(leased.is_some_and(|units| (1..=250).contains(&units)), "{state}");
    // One that is not leased asks each time.
    let before = scripts(&server);
    assert_eq!(ask(&services, "exact", 100).by_lease, 0);
    assert!(scripts(&server) - before >= 50, "merged at most");
}

#[test]
fn without_the_server_what_is_leased_is_spent_and_then_the_rule_fails_as_it_says() {
    let mut server = RedisServer::start("redis-server", &[]).unwrap();
    let services = [Service::start("alone", &policy(&server))];
    // So few that what was drawn for them is not all spent.
    let told = ask(&services, "hot", 40);
    assert_eq!(told.admitted, 40);
    server.kill();
    let told = ask(&services, "hot", 1000);
    assert!(told.by_lease > 0 && told.without > 0, "{told:?}");
    assert_eq!(told.admitted, told.by_lease, "a rule that fails closed admits nobody else");
    // The counts of both are told apart.
    let metrics = services[0].get("/metrics").body;
    assert!(metrics.contains(r#"source="lease""#), "{metrics}");
}

/// Beside a rule that is not leased, what is leased ended unused in every outage.
#[test]
fn without_the_server_what_is_leased_is_spent_beside_what_is_not() {
    let mut server = RedisServer::start("redis-server", &[]).unwrap();
    let exact = "exact: { limit: 1000/min, on_failure: static }";
    let policy = policy(&server).replace("exact: { limit: 1000/min }", exact);
    let service = Service::start("beside", &policy);
    let both = || service.post("/v1/check", r#"{"attributes":{"ip":"192.0.2.7"}}"#).json();
    // Until there is something to spend.
    let is_leased = |reply: &serde_json::Value| {
        let leased = &reply["limits"][0];
        leased["source"] == "lease" && leased["remaining"].as_u64().is_some_and(|left| left > 10)
    };
    assert!((0..900).any(|_| is_leased(&both())));
    server.kill();
    let (mut spent, mut denied) = (0, 0);
    while denied < 3 {
        let reply = both();
        let [leased, exact] = [0, 1].map(|nth| reply["limits"][nth]["source"].clone());
        assert_eq!(reply["source"], "fallback", "{reply}");
        if reply["allowed"] == true {
            assert_eq!((leased.as_str(), exact.as_str()), (Some("lease"), Some("fallback")));
            spent += 1;
        } else {
            assert_eq!((reply["rule"].as_str(), leased.as_str()), (Some("hot"), None), "{reply}");
            denied += 1;
        }
    }
    assert!(spent > 5, "{spent}");
    let metrics = service.get("/metrics").body;
    let count = |name: &str, rule: &str| -> u64 {
        let line = format!("tollkeeper_fail_{name}_total{{rule=\"{rule}\"}} ");
        let count = metrics.lines().find_map(|it| it.strip_prefix(&line)?.parse().ok());
        count.unwrap_or(0)
    };
    // A rule is counted where it had to do without the server, and only there.
    assert_eq!((count("static", "exact"), count("closed", "hot")), (spent + denied, denied));
}

/// What the old policy had drawn was out for up to four of its turns, of many minutes each: nobody was admitted
/// so long, though most of the limit was there.
#[test]
#[expect(clippy::disallowed_methods, reason = "what flows in depends on real time")]
fn a_leased_limit_goes_on_with_other_numbers() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let with = |hot: &str| policy(&server).replace("limit: 1000/min, consistency: lease", hot);
    let services = ["slow", "fast"].map(|name| {
        Service::start(&format!("other-{name}"), &with("limit: 1600/day, consistency: lease"))
    });
    let to = |hot: &str, limit: u64| {
        let look = r#"{"rule":"hot","key":"k","cost":0}"#;
        for service in &services {
            replace(service, &with(hot));
            until("the other numbers count", || {
                service.post("/v1/check", look).json()["limit"] == limit
            });
        }
    };
    // Of 400 that may be out 300 and more are, beside what was spent: more than may be out of a thousand, and
    // less than there is.
    let mut told = ask(&services, "hot", 60);
    assert!((told.admitted, told.by_lease > 40) == (60, true), "{told:?}");
    to("limit: 1000/min, consistency: lease", 1000);
    let begun = std::time::Instant::now();
    ask_until_admitted(&services, "hot", 160, &mut told);
    ask_more(&services, "hot", 1000, &mut told);
    // What was used is used, by whichever numbers.
    let most = |more: u64| {
        let flown_in = begun.elapsed().as_millis() * 1000 / 60_000 + 1;
        1000 + more + u64::try_from(flown_in).unwrap()
    };
    assert!(told.admitted <= most(0), "{told:?}");
    // What is leased may be spent beside it, once.
    to("limit: 999/min", 999);
    let exact = ask(&services, "hot", 1000);
    assert_eq!(exact.by_lease, 0);
    assert!(told.admitted + exact.admitted <= most(250), "{told:?}, {exact:?}");
}

/// A local limiter that began anew would give a key its whole part once more.
#[test]
#[expect(clippy::disallowed_methods, reason = "what flows in depends on real time")]
fn an_outage_gives_what_was_leased_no_second_part() {
    let mut server = RedisServer::start("redis-server", &[]).unwrap();
    let policy = policy(&server).replace("nodes: 2", "nodes: 1").replace("closed", "static");
    let services = [Service::start("static", &policy)];
    let begun = std::time::Instant::now();
    let mut told = Told::default();
    ask_until_admitted(&services, "hot", 500, &mut told);
    server.kill();
    until("most are decided without it", || {
        ask_more(&services, "hot", 100, &mut told);
        told.without >= 1000
    });
    // What flows in, in the server and then here.
    let flown_in = begun.elapsed().as_millis() * 1000 / 60_000 + 2;
    assert!(u128::from(told.admitted) <= 1000 + flown_in, "{told:?}, {flown_in} flew in");
}
