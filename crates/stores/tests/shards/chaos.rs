//! Four processes under way while a server dies, freezes, or is taken out of the list.

use tokio::runtime::Runtime;
use tollkeeper_core::Store;
use tollkeeper_redis::{Settings, Shards};
use tollkeeper_testkit::redis_server::RedisServer;

use crate::client::USERS;
use crate::servers;
use crate::workers::{PROCESSES, Workers};

/// What each user has, which hardly comes back during a test. A multiple of the processes.
const LIMIT: u64 = 12;

/// How much later than its deadline nobody may be.
const SLACK_MS: u64 = 100;

/// The processes, and where keys lie.
struct House {
    workers: Workers,
    places: Shards,
    _runtime: Runtime,
}

impl House {
    /// Processes that ask these servers.
    fn new(servers: &[RedisServer], timeout_ms: u64) -> Self {
        let mut workers = Workers::start("client::a_client", &servers[0].port().to_string());
        let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
        workers.all(&format!("open {timeout_ms}ms {PROCESSES} {LIMIT} {}", urls.join(" ")));
        let runtime = Runtime::new().unwrap();
        let guard = runtime.enter();
        let places = Shards::open(&crate::urls(servers), |_| Settings::default()).unwrap();
        drop(guard);
        Self { workers, places, _runtime: runtime }
    }

    /// Lets all of them ask for so long. `strike` is called after a fifth of it.
    fn load(&mut self, time_ms: u64, mut strike: impl FnMut()) {
        let mut ticks = 0;
        let asked = self.workers.all_while(&format!("load {time_ms}"), || {
            ticks += 1;
            if ticks == time_ms / 5 {
                strike();
            }
        });
        assert!(asked > time_ms / 4, "only {asked} were asked in {time_ms} ms");
    }

    /// How many limits of a server's keys were decided without it.
    fn without(&mut self, shard: usize) -> u64 {
        self.workers.all(&format!("without {shard}"))
    }

    /// Each user, the server where it lies, and how often it was admitted by all processes.
    fn admitted(&mut self) -> Vec<(String, usize, u64)> {
        let users = (0..USERS).map(|nth| {
            let user = format!("user-{nth}");
            let admitted = self.workers.all(&format!("admitted {user}"));
            let shard = self.places.part(&user).shard;
            (user, shard, admitted)
        });
        users.collect()
    }

    /// The other servers never noticed; nobody waited; nobody was admitted beyond the bound, which
    /// is the limit, and once more without the server that failed.
    fn assert_only(&mut self, failed: usize, timeout_ms: u64) {
        for shard in 0..self.places.shards() {
            let without = self.without(shard);
            assert_eq!(without > 0, shard == failed, "server {shard}: {without} without it");
        }
        let slowest_ms = self.workers.all("slowest");
        assert!(slowest_ms <= PROCESSES * (timeout_ms + SLACK_MS), "{slowest_ms} ms in all");
        for (user, shard, admitted) in self.admitted() {
            let most = if shard == failed { 2 * LIMIT } else { LIMIT };
            assert!(admitted <= most, "{user} on {shard}: {admitted} of {most}");
            assert!(admitted >= LIMIT / 2, "{user} on {shard}: only {admitted}");
        }
    }
}

#[test]
fn one_is_killed() {
    let mut servers = servers(3);
    // So long that only a server that is no more misses it.
    let mut house = House::new(&servers, 2_000);
    house.load(2_500, || servers[1].kill());
    house.assert_only(1, 2_000);
}

#[test]
fn one_freezes() {
    let servers = servers(3);
    let mut house = House::new(&servers, 300);
    house.load(4_000, || servers[2].stop().unwrap());
    house.assert_only(2, 300);
    servers[2].cont().unwrap();
}

#[test]
fn one_is_away_from_the_start() {
    let mut servers = servers(2);
    servers[0].kill();
    let mut house = House::new(&servers, 2_000);
    house.load(1_000, || {});
    house.assert_only(0, 2_000);
}

#[test]
fn one_is_taken_out_of_the_list() {
    let servers = servers(3);
    let mut before = House::new(&servers, 2_000);
    before.load(1_500, || {});
    let first = before.admitted();
    drop(before);
    // The processes end, and others begin with a shorter list.
    let mut after = House::new(&servers[..2], 2_000);
    after.load(1_500, || {});
    for ((user, shard, before), (_, now, again)) in first.into_iter().zip(after.admitted()) {
        assert!(shard == 2 || shard == now, "{user} moved from {shard} to {now}");
        // Who lay on the one that left begins anew, once.
        let most = if shard == 2 { 2 * LIMIT } else { LIMIT };
        assert!(before <= LIMIT && before + again <= most, "{user}: {before}, then {again}");
        assert!(before + again >= LIMIT, "{user}: {before}, then {again}");
    }
    assert_eq!((after.without(0), after.without(1)), (0, 0));
}
