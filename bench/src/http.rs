//! The service beside a bare hyper server and the servers of others, each in a process of its own,
//! and the middleware beside the same axum app without it and with that of others, in this one.

mod load;
mod middleware;
mod peers;
mod servers;

use crate::progress::progress;
use crate::spread::Spread;
use crate::table::{Table, bar_shown};
use load::{Ask, Load};
use servers::Process;
pub(crate) use servers::{BARE, SERVICE, serve_bare, serve_service};

const ROUNDS: usize = 7;

/// Requests of everybody in a round, and the slices in which everybody has a turn.
const REQUESTS: u64 = 64_000;
const SLICES: u64 = 10;

const CONNECTIONS: u64 = 64;
const KEYS: u64 = 10_000;

/// The most that a check may cost in terms of a bare answer.
const BAR_OF_CHECK: f64 = 1.3;

/// The most that the middleware may add to a request.
const BAR_OF_MIDDLEWARE_NS: f64 = 1_000.0;

/// The name of ours, of which something is demanded.
const OURS: &str = "tollkeeper, /v1/check";

/// A server under load.
struct Contestant {
    name: &'static str,
    server: Process,
    load: Load,
    /// In each round, what a request cost the server, and what 99 % of the callers waited at most.
    costs_us: Vec<f64>,
    waits_us: Vec<f64>,
}

pub(crate) fn run() -> Vec<Table> {
    vec![service(), middleware()]
}

fn service() -> Table {
    let servers = [
        ("bare hyper", Ask::Check, Ok(Process::start(BARE))),
        (OURS, Ask::Check, Ok(Process::start(SERVICE))),
        ("throttlecrab-server, HTTP", Ask::Throttle, peers::throttlecrab()),
        ("nginx, limit_req", Ask::Get, peers::nginx()),
    ];
    let mut absent = Vec::new();
    let mut contestants = Vec::new();
    for (name, ask, server) in servers {
        match server {
            Ok(server) => contestants.push(Contestant::new(name, ask, server)),
            Err(why) => absent.push((name, why)),
        }
    }
    measure(&mut contestants);
    let title =
        format!("Server CPU for a request over HTTP: {CONNECTIONS} connections, {KEYS} keys");
    let mut table = Table::new(title, &["", "µs", "to bare hyper", "p99 µs", "bar"]);
    for contestant in &contestants {
        let pairs = contestant.costs_us.iter().zip(&contestants[0].costs_us);
        let ratio = Spread::of(pairs.map(|(cost, bare)| cost / bare));
        let bar = match contestant.name {
            OURS => bar_shown(ratio.median, BAR_OF_CHECK, "1.3"),
            _ => String::new(),
        };
        let shown = |numbers: &[f64], digits| Spread::of(numbers.iter().copied()).shown(digits);
        let (cost, wait) = (shown(&contestant.costs_us, 2), shown(&contestant.waits_us, 0));
        table.row(&[contestant.name, &cost, &ratio.shown(2), &wait, &bar]);
    }
    for (name, why) in absent {
        table.row(&[name, "not installed"]);
        table.note(format!("{name}: {why}"));
    }
    table.note(format!(
        "{ROUNDS} rounds of {REQUESTS} requests each, always allowed. Bare hyper reads the body and \
         answers with as many bytes as a check has; nginx gives a file of that size."
    ));
    table
}

/// Rounds of everybody, in turns.
fn measure(contestants: &mut [Contestant]) {
    let bar = progress(ROUNDS as u64 * SLICES);
    // The first round warms up.
    for round in 0..=ROUNDS {
        let mut used_us = vec![0.0; contestants.len()];
        let mut waited = vec![Vec::new(); contestants.len()];
        for _ in 0..SLICES {
            for (nth, contestant) in contestants.iter().enumerate() {
                let before_us = contestant.server.used_us();
                waited[nth].extend(contestant.load.run(REQUESTS / SLICES));
                used_us[nth] += contestant.server.used_us() - before_us;
            }
            bar.inc(u64::from(round > 0));
        }
        if round == 0 {
            continue;
        }
        for ((contestant, used_us), mut waited) in contestants.iter_mut().zip(used_us).zip(waited) {
            contestant.costs_us.push(used_us / REQUESTS as f64);
            waited.sort_unstable();
            contestant.waits_us.push(waited[waited.len() * 99 / 100].as_secs_f64() * 1e6);
        }
    }
    bar.finish_and_clear();
}

impl Contestant {
    fn new(name: &'static str, ask: Ask, server: Process) -> Self {
        let load = Load::connect(server.address(), ask, CONNECTIONS, KEYS);
        Self { name, server, load, costs_us: Vec::new(), waits_us: Vec::new() }
    }
}

fn middleware() -> Table {
    let title = "Middleware: ns for a request to an axum handler, one thread, no socket";
    let mut table = Table::new(title, &["", "ns", "added", "bar"]);
    let bar = progress(ROUNDS as u64);
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(middleware::round(KEYS));
        bar.inc(1);
    }
    bar.finish_and_clear();
    for (nth, name) in middleware::NAMES.into_iter().enumerate() {
        let cost = Spread::of(rounds.iter().map(|round| round[nth]));
        let added = Spread::of(rounds.iter().map(|round| round[nth] - round[0]));
        let bar = match name {
            middleware::OURS => bar_shown(added.median, BAR_OF_MIDDLEWARE_NS, "1 µs"),
            _ => String::new(),
        };
        let added = if nth == 0 { String::new() } else { added.shown(0) };
        table.row(&[name, &cost.shown(0), &added, &bar]);
    }
    table.note(format!(
        "{ROUNDS} rounds; {KEYS} keys, which are a header of the request. Of tower_governor's two, the \
         first tells nobody what is left, the second writes it into headers as tollkeeper does."
    ));
    table
}
