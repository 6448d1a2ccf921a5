//! Asks contestants as many callers do at once, and measures what that costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tollkeeper_testkit::dice::Dice;

use super::contestants::Contestant;
use crate::cpu;

/// How often an open loop asks.
const TICK: Duration = Duration::from_micros(250);

/// What some calls cost, all together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    server_us: f64,
    client_us: f64,
    took: Duration,
    /// How long the caller of each waited.
    waits: Vec<Duration>,
}

/// What a call costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) server_us: f64,
    pub(crate) client_us: f64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Cost {
    /// Adds what further calls cost.
    pub(crate) fn add(&mut self, other: Self) {
        self.server_us += other.server_us;
        self.client_us += other.client_us;
        self.took += other.took;
        self.waits.extend(other.waits);
    }

    /// The cost of one of them.
    pub(crate) fn of_one(mut self) -> Sample {
        let calls = self.waits.len() as f64;
        self.waits.sort_unstable();
        let quantile = |per_cent: usize| {
            let at = (self.waits.len() * per_cent / 100).min(self.waits.len() - 1);
            self.waits[at].as_secs_f64() * 1e6
        };
        Sample {
            server_us: self.server_us / calls,
            client_us: self.client_us / calls,
            per_second: calls / self.took.as_secs_f64(),
            p50_us: quantile(50),
            p99_us: quantile(99),
        }
    }
}

/// `callers` callers ask `calls` times in all, each again as soon as it has an answer.
pub(crate) async fn closed(
    contestant: &Arc<Contestant>,
    server: u32,
    callers: u64,
    calls: u64,
) -> Cost {
    let before = Before::now(server);
    let mut running = JoinSet::new();
    for _ in 0..callers {
        let contestant = Arc::clone(contestant);
        running.spawn(async move {
            let mut dice = new_dice();
            let mut waits = Vec::new();
            for _ in 0..calls / callers {
                let asked = Instant::now();
                contestant.ask(&mut dice).await;
                waits.push(asked.elapsed());
            }
            waits
        });
    }
    let waits = running.join_all().await.concat();
    before.cost(server, waits)
}

/// Asks `per_second` times a second, whether there were answers or not: at every tick as often as
/// is due then. A call that is late by our own fault counts from when it was due.
pub(crate) async fn open(
    contestant: &Arc<Contestant>,
    server: u32,
    per_second: f64,
    calls: u64,
) -> Cost {
    let before = Before::now(server);
    let (runtime, contestant) = (Handle::current(), Arc::clone(contestant));
    // The runtime's own timers are as coarse as what is measured here.
    let pacing = tokio::task::spawn_blocking(move || {
        let mut running = JoinSet::new();
        let started = Instant::now();
        let (mut due, mut asked) = (started, 0);
        while asked < calls {
            due += TICK;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            while asked < calls && (asked as f64) < (due - started).as_secs_f64() * per_second {
                let (contestant, mut dice) = (Arc::clone(&contestant), new_dice());
                let asking = async move {
                    contestant.ask(&mut dice).await;
                    due.elapsed()
                };
                running.spawn_on(asking, &runtime);
                asked += 1;
            }
        }
        running
    });
    let waits = pacing.await.unwrap().join_all().await;
    before.cost(server, waits)
}

/// Dice that nobody has rolled before.
fn new_dice() -> Dice {
    static SEED: AtomicU64 = AtomicU64::new(0);
    Dice::new(SEED.fetch_add(1, Ordering::Relaxed))
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

    fn cost(&self, server: u32, waits: Vec<Duration>) -> Cost {
        Cost {
            took: self.at.elapsed(),
            server_us: cpu::used_us(server) - self.server_us,
            client_us: cpu::used_us(std::process::id()) - self.client_us,
            waits,
        }
    }
}
