//! The Redis store beside plain scripts for one algorithm each, on a server of its own.
//!
//! What a check costs is the processor time of the server and of the client, and the time that the
//! caller waits. The plain scripts go over the same client library and as many connections.

mod contestants;
mod deep;
mod hot;
mod load;
mod room;
mod rounds;

use std::sync::Arc;

use contestants::{ALONE, Contestant, MERGED, PLAIN, Permits};
use load::{Cost, Sample};
use rounds::Rounds;
use tokio::runtime::{Builder, Runtime};
use tollkeeper_testkit::redis_server::RedisServer;

use crate::cpu;
use crate::progress::progress;
use crate::spread::Spread;
use crate::table::{Table, bar_shown, least_shown};

const ROUNDS: u64 = 5;

/// Calls of everybody in a round; fewer where one caller alone waits for every answer.
const CALLS: u64 = 20_480;
const CALLS_OF_ONE: u64 = 3_000;

/// The slices of a round, in which everybody has a turn. Short ones compare more fairly, in long ones
/// callers meet as they would for ever.
const SHORT: u64 = 40;
const LONG: u64 = 10;

/// Calls of everybody before the first round: every key is in use.
const WARM_UP: u64 = 20 * contestants::KEYS;

/// A connection for each caller: no call shares a read or a write of the server's with another.
const UNMERGED: u64 = 64;

/// As the store comes.
const CONNECTIONS: usize = 2;

/// The most that a check may cost the server, in terms of the plain script of its algorithm, and four
/// limits in terms of one.
const BAR_OF_ONE: f64 = 1.25;
const BAR_OF_FOUR: f64 = 2.0;

/// What merging must be worth, and what it may cost.
const BAR_OF_MANY: f64 = 1.6;
const BAR_OF_MERGED: f64 = 0.65;
const BAR_OF_ALONE: f64 = 1.05;

/// Rounds at half of the load, and those that are not gone on with because of the machine: so late is
/// who asks nobody, in microseconds, and so many there are at most.
const HALF_ROUNDS: usize = 30;
const DISTURBED_US: f64 = 2_000.0;
const MOST_DISTURBED: u64 = 90;

/// How long a caller may wait at half of the load that saturates.
const BAR_P50_US: f64 = 1_000.0;
const BAR_P99_US: f64 = 5_000.0;

pub(crate) fn run() -> Vec<Table> {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    // INCR gives its keys no end.
    server.holds_others();
    let mut tables = Vec::new();
    let all_cores = Runtime::new().unwrap();
    let most_per_second = all_cores.block_on(async {
        tables.extend([unmerged(&server).await, deep::run(&server).await, merged(&server).await]);
        by_callers(&server, &mut tables).await
    });
    // Half of the load leaves time; with one thread the server has a core of its own, and what is
    // measured is not how the system shares two among three.
    let one_core = Builder::new_current_thread().enable_all().build().unwrap();
    tables.push(one_core.block_on(half_load(&server, most_per_second)));
    tables.push(one_core.block_on(alone(&server)));
    tables.push(hot::run(&server, &all_cores));
    tables.push(all_cores.block_on(room::run(&server)));
    tables.push(all_cores.block_on(permits(&server)));
    tables
}

/// Rounds of everything, in turns.
async fn measure(
    server: &RedisServer,
    contestants: &[Arc<Contestant>],
    callers: u64,
    slices: u64,
    calls: u64,
) -> Rounds {
    let bar = progress(ROUNDS * slices * contestants.len() as u64);
    let mut rounds = Rounds::new(contestants.iter().map(|contestant| contestant.name));
    for _ in 0..ROUNDS {
        let mut costs = vec![Cost::default(); contestants.len()];
        for _ in 0..slices {
            for (contestant, cost) in contestants.iter().zip(&mut costs) {
                bar.set_message(format!("{callers} callers: {}", contestant.name));
                cost.add(load::closed(contestant, server.pid(), callers, calls / slices).await);
                bar.inc(1);
            }
        }
        rounds.push(costs.into_iter().map(Cost::of_one));
    }
    bar.finish_and_clear();
    rounds
}

/// What a check costs the server when it comes alone, and what is demanded of it.
async fn unmerged(server: &RedisServer) -> Table {
    let connections = usize::try_from(UNMERGED).unwrap();
    let contestants = contestants::all(server.port(), connections, false).await;
    let bar = progress(contestants.len() as u64);
    for contestant in &contestants {
        bar.set_message(format!("warming up: {}", contestant.name));
        load::closed(contestant, server.pid(), UNMERGED, WARM_UP).await;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let rounds = measure(server, &contestants, UNMERGED, SHORT, CALLS).await;
    let title =
        format!("µs of the Redis server for a check: {UNMERGED} callers, each with a connection");
    let mut table = Table::new(title, &["", "µs", "ratio", "to", "bar"]);
    for name in rounds.names() {
        let cost = rounds.of(name, |sample| sample.server_us).shown(1);
        let (ratio, to, bar) = match rounds.ratio_to_plain(name) {
            Some(ratio) => (ratio, "plain", BAR_OF_ONE),
            None if name.starts_with("four") => {
                (rounds.ratio(name, contestants::ONE), contestants::ONE, BAR_OF_FOUR)
            }
            None => {
                table.row(&[name, &cost]);
                continue;
            }
        };
        let met = bar_shown(ratio.median, bar, &format!("{bar:.2}"));
        table.row(&[name, &cost, &ratio.shown(2), to, &met]);
    }
    let keys = contestants::KEYS;
    table.note(format!("{ROUNDS} rounds of {CALLS} checks on {keys} keys, here and below."));
    table
}

/// What it is worth that checks go together.
async fn merged(server: &RedisServer) -> Table {
    let contestants = contestants::merging(server.port(), CONNECTIONS).await;
    let many = measure(server, &contestants, 256, LONG, CALLS).await;
    let title = "Checks that go together, GCRA on Redis over 2 connections";
    let mut table = Table::new(title, &["", "ratio", "bar"]);
    let to_plain = |number: fn(&Sample) -> f64| many.ratio_of(MERGED, PLAIN, number);
    let per_second = to_plain(|sample| sample.per_second);
    let (cpu, p99) = (to_plain(|sample| sample.server_us), to_plain(|sample| sample.p99_us));
    for (what, ratio, met) in [
        (
            "256 callers: checks/s, to the plain script",
            per_second,
            least_shown(per_second.median, BAR_OF_MANY, "1.6"),
        ),
        ("256 callers: p99, to the plain script", p99, bar_shown(p99.median, 1.0, "1")),
        (
            "256 callers: the server's CPU, to the plain script",
            cpu,
            bar_shown(cpu.median, BAR_OF_MERGED, "0.65"),
        ),
    ] {
        table.row(&[what, &ratio.shown(2), &met]);
    }
    table
}

/// What merging costs who comes alone. The client has one thread: with several it is chance which of them wakes
/// for an answer, and that takes longer than all that is compared.
async fn alone(server: &RedisServer) -> Table {
    let contestants = contestants::merging(server.port(), CONNECTIONS).await;
    let rounds = measure(server, &contestants, 1, SHORT, CALLS_OF_ONE).await;
    let title = "One caller at a time, GCRA on Redis, the client in one thread";
    let mut table = Table::new(title, &["", "p50 µs", "to each by itself", "bar"]);
    for name in rounds.names() {
        let p50 = rounds.of(name, |sample| sample.p50_us).shown(1);
        let ratio = rounds.ratio_of(name, ALONE, |sample| sample.p50_us);
        let bar = match name {
            MERGED => bar_shown(ratio.median, BAR_OF_ALONE, "1.05"),
            _ => String::new(),
        };
        table.row(&[name, &p50, &ratio.shown(2), &bar]);
    }
    table
}

/// What a check costs over few connections, on which calls meet. Returns what saturates.
async fn by_callers(server: &RedisServer, tables: &mut Vec<Table>) -> f64 {
    let contestants = contestants::all(server.port(), CONNECTIONS, true).await;
    let mut most_per_second = 0.0;
    for (callers, calls) in [(1, CALLS_OF_ONE), (64, CALLS), (256, CALLS)] {
        let rounds = measure(server, &contestants, callers, LONG, calls).await;
        let header =
            ["", "server µs", "client µs", "checks/s", "p50 µs", "p99 µs", "server to plain"];
        let title = format!("A check on Redis, {callers} callers over {CONNECTIONS} connections");
        let mut table = Table::new(title, &header);
        for name in rounds.names() {
            let shown = |number: fn(&Sample) -> f64, digits| rounds.of(name, number).shown(digits);
            table.row(&[
                name,
                &shown(|sample| sample.server_us, 1),
                &shown(|sample| sample.client_us, 1),
                &shown(|sample| sample.per_second, 0),
                &shown(|sample| sample.p50_us, 0),
                &shown(|sample| sample.p99_us, 0),
                &rounds.ratio_to_plain(name).map_or_else(String::new, |ratio| ratio.shown(2)),
            ]);
        }
        tables.push(table);
        most_per_second = rounds.of("gcra", |sample| sample.per_second).median;
    }
    most_per_second
}

/// How long callers wait when they come at half of the rate that saturates, and how long they would
/// for less: what the machine itself is late by is in all of them.
async fn half_load(server: &RedisServer, most_per_second: f64) -> Table {
    const ASKED: [&str; 4] = ["nobody", "INCR", "plain gcra", "gcra"];
    let mut contestants = contestants::all(server.port(), CONNECTIONS, true).await;
    contestants.push(contestants::nobody());
    let asked = ASKED.map(|name| contestants.iter().find(|one| one.name == name).unwrap());
    let per_second = most_per_second / 2.0;
    let bar = progress(HALF_ROUNDS as u64);
    bar.set_message(format!("{per_second:.0} checks a second"));
    let mut samples = [const { Vec::new() }; ASKED.len()];
    let mut disturbed = 0;
    while samples[0].len() < HALF_ROUNDS {
        let mut round = Vec::new();
        for one in asked {
            round.push(load::open(one, server.pid(), per_second, CALLS).await.of_one());
            // Who asks nobody comes first.
            if round[0].p99_us > DISTURBED_US && disturbed < MOST_DISTURBED {
                break;
            }
        }
        if round.len() < ASKED.len() {
            disturbed += 1;
            continue;
        }
        samples.iter_mut().zip(round).for_each(|(samples, sample)| samples.push(sample));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let title = format!("Half of that load, {per_second:.0} checks/s from one thread: µs waited");
    let mut table = Table::new(title, &["", "p50", "bar", "p99", "bar"]);
    for (name, samples) in ASKED.iter().zip(&samples) {
        let p50 = Spread::of(samples.iter().map(|sample| sample.p50_us));
        let p99 = Spread::of(samples.iter().map(|sample| sample.p99_us));
        let bars = match *name {
            "gcra" => [(p50, BAR_P50_US, "1 ms"), (p99, BAR_P99_US, "5 ms")]
                .map(|(spread, bar, shown)| bar_shown(spread.median, bar, shown)),
            _ => [String::new(), String::new()],
        };
        table.row(&[*name, &p50.shown(0), &bars[0], &p99.shown(0), &bars[1]]);
    }
    let ms = DISTURBED_US / 1_000.0;
    table.note(format!(
        "{HALF_ROUNDS} rounds. A round in which who asks nobody waits for more than {ms} ms (p99) tells of the machine \
         and is not gone on with: there were {disturbed} of these, and {MOST_DISTURBED} are left out at most."
    ));
    table
}

/// What a permit costs by how many are held already.
async fn permits(server: &RedisServer) -> Table {
    let title = "Concurrency: µs of the Redis server to take a permit and give it back";
    let mut table = Table::new(title, &["permits held", "µs"]);
    for held in [10, 1_000, 10_000] {
        let bar = progress(ROUNDS);
        bar.set_message(format!("{held} permits held"));
        let permits = Permits::hold(server.port(), held).await;
        let mut costs = Vec::new();
        for _ in 0..ROUNDS {
            let before_us = cpu::used_us(server.pid());
            for _ in 0..CALLS_OF_ONE {
                permits.take_and_release(held).await;
            }
            costs.push((cpu::used_us(server.pid()) - before_us) / CALLS_OF_ONE as f64);
            bar.inc(1);
        }
        bar.finish_and_clear();
        table.row(&[held.to_string(), Spread::of(costs.into_iter()).shown(1)]);
    }
    table
}
