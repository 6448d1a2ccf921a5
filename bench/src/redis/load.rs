//! Asks contestants as many callers do at once, and measures what that costs.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tollkeeper_testkit::dice::Dice;

use super::contestants::Contestant;
use super::cpu;

/// How many keys there are.
const KEYS: u64 = 10_000;

/// What one round of one contestant cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) server_us: f64,
    pub(crate) client_us: f64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// `callers` callers ask `calls` times in all, each again as soon as it has an answer.
pub(crate) async fn closed(
    contestant: &Arc<Contestant>,
    server: u32,
    callers: u64,
    calls: u64,
    seed: u64,
) -> Sample {
    let before = Before::now(server);
    let mut running = JoinSet::new();
    for caller in 0..callers {
        let contestant = Arc::clone(contestant);
        running.spawn(async move {
            let mut dice = Dice::new(seed * callers + caller);
            let mut times = Vec::new();
            for _ in 0..calls / callers {
                let asked = Instant::now();
                contestant.ask(dice.below(KEYS)).await;
                times.push(asked.elapsed());
            }
            times
        });
    }
    let times = running.join_all().await.concat();
    before.sample(server, times)
}

/// Asks `per_second` times a second, whether there was an answer or not. A call that is late by our
/// own fault counts from when it was due.
pub(crate) async fn open(
    contestant: &Arc<Contestant>,
    server: u32,
    per_second: f64,
    calls: u32,
    seed: u64,
) -> Sample {
    let before = Before::now(server);
    let (runtime, contestant) = (Handle::current(), Arc::clone(contestant));
    let pacing = thread::spawn(move || {
        let mut dice = Dice::new(seed);
        let mut running = JoinSet::new();
        let started = Instant::now();
        for nth in 0..calls {
            let due = started + Duration::from_secs_f64(f64::from(nth) / per_second);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let (contestant, key) = (Arc::clone(&contestant), dice.below(KEYS));
            let asking = async move {
                contestant.ask(key).await;
                due.elapsed()
            };
            running.spawn_on(asking, &runtime);
        }
        running
    });
    let paced = tokio::task::spawn_blocking(|| pacing.join().unwrap());
    let times = paced.await.unwrap().join_all().await;
    before.sample(server, times)
}

/// Where the counters stood.
struct Before {
    at: Instant,
    server_us: f64,
    client_us: f64,
}

impl Before {
    fn now(server: u32) -> Self {
        let (server_us, client_us) = (cpu::used_us(server), cpu::used_us(std::process::id()));
        Self { at: Instant::now(), server_us, client_us }
    }

    fn sample(&self, server: u32, mut times: Vec<Duration>) -> Sample {
        let took = self.at.elapsed();
        let (server_us, client_us) = (cpu::used_us(server), cpu::used_us(std::process::id()));
        let calls = times.len() as f64;
        times.sort_unstable();
        let quantile = |per_cent: usize| {
            times[(times.len() * per_cent / 100).min(times.len() - 1)].as_secs_f64() * 1e6
        };
        Sample {
            server_us: (server_us - self.server_us) / calls,
            client_us: (client_us - self.client_us) / calls,
            per_second: calls / took.as_secs_f64(),
            p50_us: quantile(50),
            p99_us: quantile(99),
        }
    }
}
