//! Four processes that share one key on one Redis, asked for more than ten times its limit: who
//! decides, how fast, and what is admitted.

mod node;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

pub(crate) use node::{NODE, serve};
use tollkeeper_core::{Bucket, Quota, ShortLimit};
use tollkeeper_testkit::fleet::judge;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::cpu;
use crate::progress::progress;
use crate::table::{Table, bar_shown, least_shown};

const NODES: usize = 4;

/// Of one key, in a second and at once.
const LIMIT: u64 = 250_000;

/// How long they run before anything counts: until all have heard of all, and what was saved up is
/// spent.
const WARM_UP_US: u64 = 6_000_000;
const MEASURED_US: u64 = 6_000_000;

/// Admissions are told by tenths of a millisecond.
const SLOT_US: u64 = 100;

/// What a rule says, and how it is called here.
const WAYS: [(&str, &str); 4] = [
    ("exact", ""),
    ("lease", ", consistency: lease"),
    ("sync", ", consistency: sync"),
    ("share", ", consistency: share"),
];

const BAR_FASTER: f64 = 20.0;
const BAR_USED: f64 = 0.97;
const BAR_P99_US: f64 = 50.0;
const BAR_REDIS: f64 = 5.0;

/// What one process tells at its end.
#[derive(Debug, Default)]
struct Told {
    decisions: u64,
    /// How many were not asked of the store.
    here: u64,
    waits_ns: Vec<u64>,
    /// Units admitted, by the slot.
    admitted: Vec<(u64, u64)>,
}

/// What a fleet did.
struct Run {
    per_second: f64,
    here: f64,
    used: f64,
    over: u64,
    p50_us: f64,
    p99_us: f64,
    redis_percent: f64,
}

pub(crate) fn run() -> Vec<Table> {
    let runs: Vec<(&str, Run)> = {
        let bar = progress(WAYS.len() as u64);
        let one = |(name, rule)| {
            bar.set_message(name);
            let run = fleet(rule);
            bar.inc(1);
            (name, run)
        };
        let runs = WAYS.into_iter().map(one).collect();
        bar.finish_and_clear();
        runs
    };
    let exact = runs[0].1.per_second;
    let title = format!(
        "One key of {LIMIT}/s in {NODES} processes on one Redis, asked as fast as they can; the denied \
         cache is off"
    );
    let header = [
        "",
        "decisions/s",
        "to exact",
        "of the limit used",
        "units over it in any interval",
        "decided here",
        "p50 µs",
        "p99 µs",
        "Redis, % of a core",
    ];
    let mut table = Table::new(title, &header);
    for (name, run) in &runs {
        table.row(&[
            (*name).to_owned(),
            format!("{:.0}", run.per_second),
            format!("{:.1}", run.per_second / exact),
            format!("{:.3}", run.used),
            run.over.to_string(),
            format!("{:.4}", run.here),
            format!("{:.2}", run.p50_us),
            format!("{:.2}", run.p99_us),
            format!("{:.1}", run.redis_percent),
        ]);
    }
    table.note(
        "Units over it are by when their askers heard of them, to a tenth of a millisecond. Answers of the store that \
         come closer together than they were decided may seem too many by it: at most what is decided in a round trip.",
    );
    let lease = &runs[1].1;
    let faster = lease.per_second / exact;
    let mut bars = Table::new("Leases, by their bars", &["", "measured", "bar"]);
    let asked = lease.per_second / LIMIT as f64;
    bars.row(&["asked for, to the limit".to_owned(), format!("{asked:.1}"), String::new()]);
    bars.row(&[
        "decisions/s, to exact".to_owned(),
        format!("{faster:.1}"),
        least_shown(faster, BAR_FASTER, "20"),
    ]);
    bars.row(&[
        "of the limit used".to_owned(),
        format!("{:.3}", lease.used),
        least_shown(lease.used, BAR_USED, "0.97"),
    ]);
    bars.row(&[
        "units over it in any interval".to_owned(),
        lease.over.to_string(),
        bar_shown(lease.over as f64, 0.0, "0"),
    ]);
    bars.row(&[
        "p99 of a decision, µs".to_owned(),
        format!("{:.2}", lease.p99_us),
        bar_shown(lease.p99_us, BAR_P99_US, "50"),
    ]);
    bars.row(&[
        "Redis, % of a core".to_owned(),
        format!("{:.1}", lease.redis_percent),
        bar_shown(lease.redis_percent, BAR_REDIS, "5"),
    ]);
    vec![table, bars]
}

/// Lets a fleet run by a rule.
fn fleet(rule: &str) -> Run {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let begins_us = now_us() + 500_000;
    let nodes: Vec<Child> = (0..NODES).map(|_| start(&server, rule, begins_us)).collect();
    let until = |at_us: u64| thread::sleep(Duration::from_micros(at_us.saturating_sub(now_us())));
    let from_us = begins_us + WARM_UP_US;
    let to_us = from_us + MEASURED_US;
    until(from_us);
    let before_us = cpu::used_us(server.pid());
    until(to_us);
    let redis_us = cpu::used_us(server.pid()) - before_us;
    let told: Vec<Told> = nodes.into_iter().map(Told::of).collect();
    let decisions: u64 = told.iter().map(|told| told.decisions).sum();
    let here: u64 = told.iter().map(|told| told.here).sum();
    let mut admitted: Vec<(u64, u64)> =
        told.iter().flat_map(|told| told.admitted.iter().copied()).collect();
    admitted.sort_unstable();
    let measured = (from_us / SLOT_US)..(to_us / SLOT_US);
    let used: u64 =
        admitted.iter().filter(|(slot, _)| measured.contains(slot)).map(|(_, units)| units).sum();
    let in_us: Vec<(u64, u64)> =
        admitted.iter().map(|(slot, units)| (slot * SLOT_US, *units)).collect();
    let mut waits_ns: Vec<u64> = told.into_iter().flat_map(|told| told.waits_ns).collect();
    waits_ns.sort_unstable();
    let quantile = |percent: usize| waits_ns[waits_ns.len() * percent / 100] as f64 / 1e3;
    let seconds = MEASURED_US as f64 / 1e6;
    Run {
        per_second: decisions as f64 / seconds,
        here: here as f64 / decisions as f64,
        used: used as f64 / (LIMIT as f64 * seconds),
        over: judge::over_bucket(&bucket(), &in_us),
        p50_us: quantile(50),
        p99_us: quantile(99),
        redis_percent: redis_us / MEASURED_US as f64 * 100.0,
    }
}

/// The limit. What came within a slot counts as if it had come at its beginning, so it may be as
/// much larger.
fn bucket() -> Bucket {
    let capacity = LIMIT + LIMIT * SLOT_US / 1_000_000;
    let limit: ShortLimit = format!("{LIMIT}/s burst {capacity}").parse().unwrap();
    match limit.quota(None).unwrap() {
        Quota::TokenBucket(bucket) => bucket,
        other => unreachable!("{other:?}"),
    }
}

fn start(server: &RedisServer, rule: &str, begins_us: u64) -> Child {
    let nodes = if rule.contains("lease") { format!(", nodes: {NODES}") } else { String::new() };
    let policy = format!(
        "{{ store: {{ url: '{}', denied_cache: 0s, timeout: 1s{nodes} }}, \
         rules: {{ hot: {{ limit: {LIMIT}/s{rule} }} }} }}",
        server.url()
    );
    let from_us = begins_us + WARM_UP_US;
    let to_us = from_us + MEASURED_US;
    Command::new(std::env::current_exe().unwrap())
        .args([NODE, &policy])
        .args([begins_us, from_us, to_us].map(|us| us.to_string()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

impl Told {
    /// Waits for a process, and hears what it tells.
    fn of(mut child: Child) -> Self {
        let mut told = Self::default();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let (what, numbers) = line.split_once(' ').unwrap();
            let mut numbers = numbers.split(' ').map(|number| number.parse::<u64>().unwrap());
            let mut next = || numbers.next().unwrap();
            match what {
                "decided" => (told.decisions, told.here) = (next(), next()),
                "waited" => told.waits_ns.push(next()),
                _ => told.admitted.push((next(), next())),
            }
        }
        assert!(child.wait().unwrap().success());
        told
    }
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since.as_micros().try_into().unwrap()
}
