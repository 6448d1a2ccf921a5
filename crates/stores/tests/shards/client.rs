//! A process that asks for many users at once, and counts what it is told. It is started by the
//! test, and obeys its orders.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::{Instant, interval};
use tollkeeper_core::Store;
use tollkeeper_engine::{Judgement, Source};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::{Attributes, Policy};
use tollkeeper_stores::{StoreEngine, engine};

use crate::workers::{role, serve};

/// Users and networks that are counted, spread over the servers.
pub(crate) const USERS: usize = 48;
pub(crate) const NETWORKS: usize = 12;

/// Callers of each process, and how often each of them asks.
const CALLERS: usize = 4;
const PACE: Duration = Duration::from_millis(4);

type App = StoreEngine<SystemClock>;

/// What became of what was asked.
#[derive(Debug, Default)]
struct Tally {
    /// Admitted, for each user.
    admitted: HashMap<String, u64>,
    /// Limits that were decided without the store, by the server that their key lies on.
    without: HashMap<usize, u64>,
    asked: u64,
    slowest: Duration,
    /// By how much the machine itself was late at worst.
    late: Duration,
}

/// Obeys: `open TIMEOUT NODES LIMIT URL…`, `load MILLISECONDS`, and questions.
#[test]
fn a_client() {
    let Some((nth, _)) = role() else { return };
    // Every other process asks the server for each check by itself.
    let plain = !nth.is_multiple_of(2);
    let runtime = Runtime::new().unwrap();
    let mut app: Option<Arc<App>> = None;
    let mut tally = Tally::default();
    serve(|order| {
        let words: Vec<&str> = order.split(' ').collect();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        match words.as_slice() {
            ["open", timeout, nodes, limit, urls @ ..] => {
                let opened = runtime.block_on(open(timeout, nodes, limit, plain, urls));
                app = Some(Arc::new(opened));
                0
            }
            ["load", time_ms] => {
                let time = Duration::from_millis(time_ms.parse().unwrap());
                let told = runtime.block_on(load(Arc::clone(app.as_ref().unwrap()), time));
                tally.add(told);
                tally.asked
            }
            ["admitted", user] => tally.admitted.get(*user).copied().unwrap_or(0),
            ["without", shard] => tally.without.get(&shard.parse().unwrap()).copied().unwrap_or(0),
            ["slowest"] => ms(tally.slowest.saturating_sub(tally.late)),
            _ => panic!("{order}"),
        }
    });
}

async fn open(timeout: &str, nodes: &str, limit: &str, plain: bool, urls: &[&str]) -> App {
    let urls: Vec<String> = urls.iter().map(|url| format!("\"{url}\"")).collect();
    let way = if plain { "merge: false, denied_cache: 0" } else { "merge: true, denied_cache: 1s" };
    let text = format!(
        "store: {{ url: [{}], timeout: {timeout}, nodes: {nodes}, {way} }}
rules:
  per-user: {{ key: attribute:user, token_bucket: {{ capacity: {limit}, refill_rate: 1/day }} }}
  per-network: {{ key: attribute:network, limit: 1000000/s }}",
        urls.join(", ")
    );
    let app = engine(Policy::parse(&text, &|_| None).unwrap(), SystemClock::new()).unwrap();
    // A server that is down at the start is no reason not to start.
    let _ = app.store().opened().await;
    app
}

async fn load(app: Arc<App>, time: Duration) -> Vec<Tally> {
    let until = Instant::now() + time;
    let callers = (0..CALLERS).map(|caller| tokio::spawn(call(Arc::clone(&app), caller, until)));
    let mut tasks: Vec<_> = callers.collect();
    tasks.push(tokio::spawn(lateness(until)));
    let mut told = Vec::new();
    for task in tasks {
        told.push(task.await.unwrap());
    }
    told
}

async fn call(app: Arc<App>, caller: usize, until: Instant) -> Tally {
    let mut tally = Tally::default();
    let mut pace = interval(PACE);
    for nth in caller * 7.. {
        pace.tick().await;
        if Instant::now() >= until {
            break;
        }
        let user = format!("user-{}", nth % USERS);
        let network = format!("network-{}", nth % NETWORKS);
        let pairs = [("user", user.as_str()), ("network", network.as_str())];
        let encounter = app.meet(&Attributes::from_pairs(pairs).unwrap());
        let began = Instant::now();
        let judged = app.judge(encounter).await.unwrap();
        tally.slowest = tally.slowest.max(began.elapsed());
        let Judgement::Decided(verdict) = judged else { panic!("{judged:?}") };
        tally.asked += 1;
        *tally.admitted.entry(user.clone()).or_default() += u64::from(verdict.allowed());
        for (limit, key) in verdict.limits().zip([&user, &network]) {
            let shard = app.store().part(key).shard;
            let without = u64::from(limit.source() == Source::Fallback);
            *tally.without.entry(shard).or_default() += without;
        }
    }
    tally
}

/// Nobody can be more punctual than the machine.
async fn lateness(until: Instant) -> Tally {
    let mut tally = Tally::default();
    while Instant::now() < until {
        let at = Instant::now() + Duration::from_millis(2);
        tokio::time::sleep_until(at).await;
        tally.late = tally.late.max(at.elapsed());
    }
    tally
}

impl Tally {
    fn add(&mut self, others: Vec<Self>) {
        for other in others {
            for (user, admitted) in other.admitted {
                *self.admitted.entry(user).or_default() += admitted;
            }
            for (shard, without) in other.without {
                *self.without.entry(shard).or_default() += without;
            }
            self.asked += other.asked;
            self.slowest = self.slowest.max(other.slowest);
            self.late = self.late.max(other.late);
        }
    }
}
