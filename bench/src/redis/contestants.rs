//! What is compared: a command, plain scripts, and the store, all over the same client library and
//! as many connections. All of them admit everything here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, IntoConnectionInfo};
use tollkeeper_core::{
    Check, Consistency, Quota, Rate, RedisAddress, RedisUrl, Request, Store, Ticket,
};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::dice::Dice;

/// How many keys there are.
pub(crate) const KEYS: u64 = 2_000;

/// So much that nobody is denied, and that comes back so slowly that no bucket becomes as new.
const COUNT: u64 = 1_000_000;
const INTERVAL_US: u64 = 1_000_000_000;

/// A window that does not end too often, and one in which a log does not grow too long.
const WINDOW_US: u64 = 60_000_000;
const LOG_WINDOW_US: u64 = 10_000_000;

/// What four limits are compared with.
pub(crate) const ONE: &str = "token bucket";

/// Those by whom merging is judged.
pub(crate) const PLAIN: &str = "plain gcra";
pub(crate) const MERGED: &str = "gcra";
pub(crate) const ALONE: &str = "gcra, each by itself";

/// Ends the name of a contestant whose every key is new.
const NEW_KEYS: &str = "new keys";

/// One of those that are compared.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    kind: Kind,
}

enum Kind {
    Nothing,
    Incr(Arc<Links>),
    Plain { links: Arc<Links>, sha: String, args: Vec<String> },
    Ours { store: Arc<RedisStore>, limits: Vec<(String, Quota)> },
}

impl Contestant {
    /// Asks once, for a key by the dice.
    pub(crate) async fn ask(&self, dice: &mut Dice) {
        let nth = if self.name.ends_with(NEW_KEYS) { dice.roll() } else { dice.below(KEYS) };
        match &self.kind {
            Kind::Nothing => {}
            Kind::Incr(links) => {
                let mut command = redis::cmd("INCR");
                command.arg(format!("rl:{{user:{nth}}}:incr"));
                links.call(&command).await;
            }
            Kind::Plain { links, sha, args } => {
                let mut command = redis::cmd("EVALSHA");
                let key = format!("rl:{{user:{nth}}}:{}", self.name);
                command.arg(sha).arg(1).arg(key).arg(args);
                links.call(&command).await;
            }
            Kind::Ours { store, limits } => {
                let key = format!("user:{nth}");
                let check = |(limit, quota)| Check::new(limit, quota, &key, 1);
                let checks = limits.iter().map(|(limit, quota)| check((limit.as_str(), quota)));
                let request = Request::new(checks, None).unwrap();
                let answers = store.decide(&[request]).await;
                assert!(answers[0].as_ref().unwrap().allowed, "{} was denied", self.name);
            }
        }
    }
}

/// Everything that is compared, over `connections` connections each. What is ours comes right after
/// what it is compared with.
pub(crate) async fn all(port: u16, connections: usize, merge: bool) -> Vec<Arc<Contestant>> {
    let links = Arc::new(Links::open(port, connections).await);
    let store = Arc::new(open_store(port, connections, merge).await);
    let mut all = vec![Contestant { name: "INCR", kind: Kind::Incr(Arc::clone(&links)) }];
    for (name, text, parameter) in plain_scripts() {
        let args = vec![COUNT.to_string(), parameter, "1".to_owned()];
        let kind = Kind::Plain { links: Arc::clone(&links), sha: links.load(text).await, args };
        all.push(Contestant { name, kind });
    }
    for (name, quotas) in our_limits() {
        let limits = quotas.into_iter().enumerate();
        let limits = limits.map(|(nth, quota)| (format!("{name}{nth}"), quota)).collect();
        let contestant =
            Contestant { name, kind: Kind::Ours { store: Arc::clone(&store), limits } };
        let plain = format!("plain {name}");
        let other = if name.starts_with("four") { ONE } else { &plain };
        let place = all.iter().position(|contestant| contestant.name == other);
        all.insert(place.map_or(all.len(), |place| place + 1), contestant);
    }
    all.into_iter().map(Arc::new).collect()
}

/// Somebody who asks nobody: what he waits is what the machine is late by.
pub(crate) fn nobody() -> Arc<Contestant> {
    Arc::new(Contestant { name: "nobody", kind: Kind::Nothing })
}

/// Checks that go together, the same each by itself, and the plain script.
pub(crate) async fn merging(port: u16, connections: usize) -> Vec<Arc<Contestant>> {
    let mut all = all(port, connections, true).await;
    all.retain(|contestant| [PLAIN, MERGED].contains(&contestant.name));
    let store = Arc::new(open_store(port, connections, false).await);
    if let Kind::Ours { limits, .. } = &all[1].kind {
        let kind = Kind::Ours { store, limits: limits.clone() };
        all.push(Arc::new(Contestant { name: ALONE, kind }));
    }
    all
}

/// The plain scripts, and what each takes beside the count.
fn plain_scripts() -> [(&'static str, &'static str, String); 7] {
    let (interval, window) = (INTERVAL_US.to_string(), WINDOW_US.to_string());
    let per_second = (1e6 / INTERVAL_US as f64).to_string();
    let gcra = include_str!("../../lua/gcra.lua");
    let gcra_string = include_str!("../../lua/gcra_string.lua");
    let counter = include_str!("../../lua/sliding_window_counter.lua");
    let log = include_str!("../../lua/sliding_window_log.lua");
    [
        ("plain gcra in a string", gcra_string, interval.clone()),
        ("plain token bucket", include_str!("../../lua/token_bucket.lua"), per_second),
        ("plain gcra", gcra, interval.clone()),
        ("plain gcra, new keys", gcra, interval),
        ("plain fixed window", include_str!("../../lua/fixed_window.lua"), window.clone()),
        ("plain sliding counter", counter, window),
        ("plain sliding log", log, LOG_WINDOW_US.to_string()),
    ]
}

/// Our contestants and their limits.
fn our_limits() -> [(&'static str, Vec<Quota>); 8] {
    let rate = Rate::new(1, INTERVAL_US).unwrap();
    let token_bucket = Quota::token_bucket(COUNT, rate).unwrap();
    let gcra = Quota::gcra(COUNT, rate).unwrap();
    let fixed_window = Quota::fixed_window(COUNT, WINDOW_US).unwrap();
    let counter = Quota::sliding_window_counter(COUNT, WINDOW_US).unwrap();
    let log = Quota::sliding_window_log(COUNT, LOG_WINDOW_US).unwrap();
    [
        (ONE, vec![token_bucket]),
        ("gcra", vec![gcra]),
        ("gcra, new keys", vec![gcra]),
        ("fixed window", vec![fixed_window]),
        ("sliding counter", vec![counter]),
        ("sliding log", vec![log]),
        ("four token buckets", vec![token_bucket; 4]),
        ("four algorithms", vec![token_bucket, gcra, fixed_window, counter]),
    ]
}

/// A concurrency limit on one key, of which `held` permits are held.
pub(crate) struct Permits {
    store: RedisStore,
    quota: Quota,
    next: AtomicUsize,
}

impl Permits {
    pub(crate) async fn hold(port: u16, held: usize) -> Self {
        let store = open_store(port, 2, true).await;
        let quota = Quota::concurrency(COUNT, 60 * WINDOW_US).unwrap();
        let permits = Self { store, quota, next: AtomicUsize::new(0) };
        for _ in 0..held {
            permits.ask(held).await;
        }
        permits
    }

    /// Takes a permit and gives it back.
    pub(crate) async fn take_and_release(&self, held: usize) {
        let id = self.ask(held).await;
        let change = tollkeeper_core::Change::Release { id };
        let key = held.to_string();
        let amendment = tollkeeper_core::Amendment {
            limit: "permits",
            quota: &self.quota,
            key: &key,
            change,
            consistency: Consistency::Exact,
        };
        let amended = self.store.amend(&[amendment]).await;
        assert_eq!(amended[0], Ok(tollkeeper_core::Amended::Done { forgiven: 0 }));
    }

    async fn ask(&self, held: usize) -> u128 {
        let id = 1 + self.next.fetch_add(1, Ordering::Relaxed) as u128;
        let key = held.to_string();
        let check = Check::new("permits", &self.quota, &key, 1);
        let request = Request::new([check], Some(Ticket { id, reserve_for_us: None })).unwrap();
        assert!(self.store.decide(&[request]).await[0].as_ref().unwrap().allowed);
        id
    }
}

async fn open_store(port: u16, connections: usize, merge: bool) -> RedisStore {
    let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port, tls: false };
    let url = RedisUrl { address, ..RedisUrl::default() };
    let connect_patience = Duration::from_secs(5);
    let settings = Settings { connections, connect_patience, merge, ..Settings::default() };
    RedisStore::connect(&url, settings).await.unwrap()
}

/// Connections as the store has them: each multiplexed, taken in turn.
struct Links {
    links: Vec<MultiplexedConnection>,
    next: AtomicUsize,
}

impl Links {
    async fn open(port: u16, connections: usize) -> Self {
        let address = ConnectionAddr::Tcp("127.0.0.1".to_owned(), port);
        let info = address.into_connection_info().unwrap();
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = redis::Client::open(info).unwrap();
        let config =
            AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(256);
        let mut links = Vec::new();
        for _ in 0..connections {
            let link = client.get_multiplexed_async_connection_with_config(&config).await;
            links.push(link.unwrap());
        }
        Self { links, next: AtomicUsize::new(0) }
    }

    async fn call(&self, command: &Cmd) -> redis::Value {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        let mut link = self.links[nth % self.links.len()].clone();
        link.req_packed_command(command).await.unwrap()
    }

    /// Loads a script; its hash.
    async fn load(&self, text: &str) -> String {
        let loaded = self.call(redis::cmd("SCRIPT").arg("LOAD").arg(text)).await;
        redis::from_redis_value(loaded).unwrap()
    }
}
