//! What only a real server with its own clock can show: the life of keys, and forgotten scripts.

use std::path::Path;

use tollkeeper_core::{
    Amended, Amendment, Back, Change, Check, Consistency, Filter, LeakMode, Lend, Quota, Rate,
    Request, State, Store, TURNS, Ticket,
};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;
use tollkeeper_testkit::resp::Reply;

use crate::store;

struct Fixture {
    store: RedisStore,
    server: RedisServer,
}

impl Fixture {
    async fn start(program: impl AsRef<Path>) -> Self {
        let server = RedisServer::start(program, &[]).unwrap();
        let store = store::store_on(server.port(), Settings::default()).await;
        Self { store, server }
    }

    async fn ask(&self, quota: &Quota, cost: u64, ticket: Ticket) -> tollkeeper_core::Answer {
        let check = Check::new("api", quota, "alice", cost);
        let request = Request::new([check], Some(ticket)).unwrap();
        self.store.decide(&[request]).await.remove(0).unwrap()
    }
}

/// So long that its edge does not fall into a test.
const MAX_WINDOW_US: u64 = 400 * 86_400_000_000;

fn quotas() -> Vec<Quota> {
    let rate = Rate::new(7, 13_000_000).unwrap();
    vec![
        Quota::token_bucket(10, rate).unwrap(),
        Quota::gcra(10, rate).unwrap(),
        Quota::leaking_bucket(10, rate, LeakMode::Shape, None).unwrap(),
        Quota::fixed_window(10, 60_000_000).unwrap(),
        Quota::sliding_window_log(10, 60_000_000).unwrap(),
        Quota::sliding_window_counter(10, 60_000_000).unwrap(),
        Quota::concurrency(10, 60_000_000).unwrap(),
    ]
}

#[tokio::test]
async fn every_key_has_a_life_that_is_long_enough_and_not_much_longer() {
    for program in peers::servers().unwrap() {
        let fixture = Fixture::start(program).await;
        for (nth, quota) in (1u128..).zip(quotas()) {
            let reserve_for_us = (!matches!(quota, Quota::Concurrency(_))).then_some(30_000_000);
            let ticket = Ticket { id: nth, reserve_for_us };
            let answer = fixture.ask(&quota, 3, ticket).await;
            let reset_us = i64::try_from(answer.outcomes()[0].reset_after_us).unwrap();
            let name = format!("rl:{{alice}}:api:{}", quota.algorithm().suffix());
            // When it ends, in milliseconds since the epoch, does not change while the test runs.
            let ends = fixture.server.command(&["PEXPIRETIME", &name]).unwrap();
            let fresh_at_us = i64::try_from(answer.now_us).unwrap() + reset_us;
            let late_us = ends.integer().unwrap() * 1000 - fresh_at_us;
            assert!((0..=reset_us + 2_000).contains(&late_us), "{name}: {late_us} µs late");
        }
        let keys = fixture.server.command(&["DBSIZE"]).unwrap();
        assert_eq!(keys.integer(), Some(7 + 6));
        assert_eq!(fixture.server.keys_without_ttl().unwrap(), Vec::<String>::new());
    }
}

/// What came back shortened the life of the state, and what was lent with it did not lengthen it again.
#[tokio::test]
async fn a_state_that_is_given_back_and_lent_at_once_lives_for_both() {
    let fixture = Fixture::start("redis-server").await;
    let quota = Quota::token_bucket(1000, Rate::new(1, 1_000_000).unwrap()).unwrap();
    let lend = async |units, back| {
        let lend = Lend { most: units, least: units, most_out: 1000, period_us: 60_000_000, back };
        let (change, consistency) = (Change::Lend(lend), Consistency::Exact);
        let amendment =
            Amendment { limit: "api", quota: &quota, key: "alice", change, consistency };
        match fixture.store.amend(&[amendment]).await.remove(0) {
            Ok(Amended::Lent(lent)) => lent,
            other => panic!("{other:?}"),
        }
    };
    let mut back = [Back::default(); TURNS];
    let first = lend(700, back).await;
    back[0] = Back { turn: first.turn, spent: 0, unspent: 500 };
    let second = lend(250, back).await.drawn;
    assert_eq!((first.drawn.units, second.units), (700, 250));
    let ends = fixture.server.command(&["PEXPIRETIME", "rl:{alice}:api:tb"]).unwrap();
    let ends_us = u64::try_from(ends.integer().unwrap()).unwrap() * 1000;
    let fresh_at_us = second.at_us + second.reset_after_us;
    assert!(ends_us >= fresh_at_us, "{} µs early", fresh_at_us - ends_us);
}

/// Each draw that gave anything back was told to every process, and none of them had a use for it.
#[tokio::test]
async fn units_of_a_lease_come_back_without_anybody_being_told() {
    let fixture = Fixture::start("redis-server").await;
    let quota = Quota::token_bucket(1000, Rate::new(1, 1_000_000).unwrap()).unwrap();
    let amend = async |change| {
        let consistency = Consistency::Exact;
        let amendment =
            Amendment { limit: "api", quota: &quota, key: "alice", change, consistency };
        fixture.store.amend(&[amendment]).await.remove(0).unwrap()
    };
    let told = || {
        let Reply::Text(text) = fixture.server.command(&["INFO", "commandstats"]).unwrap() else {
            panic!()
        };
        text.contains("cmdstat_publish:")
    };
    let mut back = [Back::default(); TURNS];
    for units in [700, 250] {
        let lend = Lend { most: units, least: units, most_out: 1000, period_us: 60_000_000, back };
        let Amended::Lent(lent) = amend(Change::Lend(lend)).await else { panic!() };
        assert_eq!(lent.drawn.units, units);
        back[0] = Back { turn: lent.turn, spent: 0, unspent: 500 };
    }
    assert!(!told());
    amend(Change::Refund { units: 1, charged_at_us: None }).await;
    assert!(told());
}

#[tokio::test]
async fn a_script_that_the_server_has_forgotten_is_sent_again() {
    for program in peers::servers().unwrap() {
        let fixture = Fixture::start(program).await;
        let quota = Quota::fixed_window(10, MAX_WINDOW_US).unwrap();
        for used in 1..=3u64 {
            let answer = fixture.ask(&quota, 1, Ticket { id: 1, reserve_for_us: None }).await;
            assert_eq!(answer.outcomes()[0].remaining, 10 - used);
            fixture.server.command(&["SCRIPT", "FLUSH"]).unwrap();
        }
        let change = Change::Refund { units: 3, charged_at_us: None };
        let amendment = Amendment {
            limit: "api",
            quota: &quota,
            key: "alice",
            change,
            consistency: Consistency::Exact,
        };
        assert!(fixture.store.amend(&[amendment]).await.remove(0).is_ok());
        let left = fixture.ask(&quota, 0, Ticket { id: 1, reserve_for_us: None }).await;
        assert_eq!(left.outcomes()[0].remaining, 10);
    }
}

/// Where the state of the next test is.
const STATE: &str = "rl:{alice}:api:fw";

#[tokio::test]
async fn a_key_of_another_type_under_our_name_is_an_error_that_changed_nothing() {
    for program in peers::servers().unwrap() {
        let fixture = Fixture::start(program).await;
        let quota = Quota::fixed_window(10, MAX_WINDOW_US).unwrap();
        fixture.server.holds_others();
        let theirs: [&[&str]; 2] = [&["SET", STATE, "not ours"], &["HSET", STATE, "not", "ours"]];
        for command in theirs {
            fixture.server.command(&["DEL", STATE]).unwrap();
            fixture.server.command(command).unwrap();
            let wide = Check::new("wide", &quota, "alice", 1);
            let taken = Check { limit: "api", ..wide };
            let request = Request::new([wide, taken], None).unwrap();
            let error = fixture.store.decide(&[request]).await.remove(0).unwrap_err();
            assert!(error.to_string().contains("WRONGTYPE"), "{error}");
            let filter = Filter { limits: Some(&["wide"]), ..Filter::default() };
            assert_eq!(fixture.store.inspect(filter, 10).await.unwrap(), []);
        }
    }
}

/// Its life ends later than what a double counts in microseconds, and so it was not shown.
#[tokio::test]
async fn a_debt_of_many_years_is_shown() {
    for program in peers::servers().unwrap() {
        let fixture = Fixture::start(program).await;
        let year_us = 365 * 86_400_000_000;
        let quota = Quota::token_bucket(100, Rate::new(1, year_us).unwrap()).unwrap();
        for units in [100, 70] {
            let change = Change::Spend { units };
            let (limit, key, consistency) = ("api", "alice", Consistency::Exact);
            let amendment = Amendment { limit, quota: &quota, key, change, consistency };
            fixture.store.amend(&[amendment]).await.remove(0).unwrap();
            let shown = fixture.store.inspect(Filter::default(), 10).await.unwrap();
            assert!(matches!(shown[0].state, State::Debt(debt) if debt.unit == year_us));
        }
    }
}

/// Values that look like ours at first: as long as ours, or of the same type.
const LOOK_ALIKES: [(&str, &[&str]); 19] = [
    ("tb", &["SET", "*", "0000000000000000000000000000000000000000"]),
    ("tb", &["SET", "*", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]),
    ("tb", &["EVAL", "redis.call('SET', KEYS[1], string.rep(string.char(0), 40))", "1", "*"]),
    (
        "gcra",
        &["EVAL", "redis.call('SET', KEYS[1], struct.pack('<ddddd', 1, 0/0, 1, 1, 1))", "1", "*"],
    ),
    ("lb", &["EVAL", "redis.call('SET', KEYS[1], string.rep(string.char(255), 40))", "1", "*"]),
    ("fw", &["SET", "*", "000000000000000000000000"]),
    ("fw", &["EVAL", "redis.call('SET', KEYS[1], string.rep(string.char(0), 24))", "1", "*"]),
    ("swc", &["SET", "*", "00000000000000000000000000000000"]),
    ("swc", &["EVAL", "redis.call('SET', KEYS[1], struct.pack('<dddd', 1, -1/0, 1, 1))", "1", "*"]),
    ("swl", &["RPUSH", "*", "a job"]),
    ("swl", &["RPUSH", "*", "17"]),
    ("swl", &["RPUSH", "*", "-17", "3"]),
    ("swl", &["RPUSH", "*", "one", "two", "three"]),
    ("swl", &["RPUSH", "*", "1", "one", "1"]),
    ("swl", &["RPUSH", "*", "1", "0000000000000000000000000000000000000000"]),
    (
        "swl",
        &["EVAL", "redis.call('RPUSH', KEYS[1], struct.pack('<ddddd', 1, 0/0, 1, 1, 1))", "1", "*"],
    ),
    ("cc", &["ZADD", "*", "17", "alice"]),
    ("cc", &["ZADD", "*", "17", "alice", "18", "bob:3"]),
    ("cc", &["ZADD", "*", "-17", "units:3"]),
];

/// Such a value was taken for a fault of the server, or for a state and written over.
#[tokio::test]
async fn a_value_that_looks_like_ours_is_the_fault_of_its_key() {
    for program in peers::servers().unwrap().into_iter().chain(peers::oldest_redis()) {
        let fixture = Fixture::start(program).await;
        for (suffix, command) in LOOK_ALIKES {
            let name = format!("rl:{{alice}}:api:{suffix}");
            let quotas = quotas();
            let quota = quotas.iter().find(|one| one.algorithm().suffix() == suffix).unwrap();
            let command: Vec<&str> = command
                .iter()
                .map(|word| if *word == "*" { name.as_str() } else { word })
                .collect();
            fixture.server.command(&command).unwrap();
            let dump = "return redis.sha1hex(redis.call('DUMP', KEYS[1]))";
            let digest = || fixture.server.command(&["EVAL", dump, "1", &name]);
            let before = digest().unwrap();
            let ticket = Ticket { id: 1, reserve_for_us: None };
            let check = Check::new("api", quota, "alice", 1);
            let request = Request::new([check], Some(ticket)).unwrap();
            let decided = fixture.store.decide(&[request]).await.remove(0).map(drop);
            let change = match quota {
                Quota::Concurrency(_) => Change::Release { id: 1 },
                _ => Change::Spend { units: 1 },
            };
            let consistency = Consistency::Exact;
            let amendment = Amendment { limit: "api", quota, key: "alice", change, consistency };
            let amended = fixture.store.amend(&[amendment]).await.remove(0).map(drop);
            for told in [decided, amended] {
                let error = told.expect_err(&command.join(" "));
                assert!(error.is_of_state(), "{command:?}: {error}");
            }
            assert_eq!(digest().unwrap(), before, "{command:?}");
            fixture.server.command(&["DEL", &name]).unwrap();
        }
    }
}
