//! One key that is asked for a hundred times as often as its limit allows: what of that the server
//! hears.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tollkeeper_engine::{Judgement, Source};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::{Attributes, Policy};
use tollkeeper_stores::{StoreEngine, engine};
use tollkeeper_testkit::redis_server::RedisServer;

use crate::progress::progress;
use crate::table::{Table, bar_shown};

/// How many times the limit is asked for.
const TIMES: u64 = 100;

/// A limit, whom it meets, and how many engines are asked in turns, each with what it knows.
struct Case {
    title: &'static str,
    per_second: u64,
    rules: &'static str,
    users: u64,
    nodes: usize,
}

const CASES: [Case; 7] = [
    Case::of_one("10/s", 10, "all: { limit: 10/s }"),
    Case::of_one("100/s", 100, "all: { limit: 100/s }"),
    Case::of_one("1000/s", 1_000, "all: { limit: 1000/s }"),
    Case { nodes: 4, ..Case::of_one("100/s", 100, "all: { limit: 100/s }") },
    Case::of_one("100/s, window", 100, "all: { algorithm: fixed_window, limit: 100/s }"),
    Case::of_one("100/s, log", 100, "all: { algorithm: sliding_window_log, limit: 100/s }"),
    Case {
        users: 1_000,
        ..Case::of_one(
            "1000/s, and one for each of 1000 users",
            1_000,
            "all: { limit: 1000/s }, one: { limit: 100/s, key: attribute:user }",
        )
    },
];

impl Case {
    const fn of_one(title: &'static str, per_second: u64, rules: &'static str) -> Self {
        Self { title, per_second, rules, users: 1, nodes: 1 }
    }
}

/// Until what was saved up is spent; then it counts.
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(5);

/// The most of the requests that may reach the server, in per cent: this, and one for each engine.
const BAR_PERCENT: f64 = 1.1;

/// How many requests were decided, and by whom.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u64,
    admitted: u64,
    /// How many were asked of the server, and in how many calls.
    asked: u64,
    called: u64,
    /// How many were decided without it.
    without: u64,
}

pub(crate) fn run(server: &RedisServer, runtime: &Runtime) -> Table {
    let title = format!("One key at {TIMES} times its limit");
    let header = [
        "limit",
        "nodes",
        "requests/s",
        "admitted, % of the limit",
        "requests that reach Redis, %",
        "bar",
        "calls of Redis, % of requests",
        "decided without it, %",
    ];
    let mut table = Table::new(title, &header);
    let bar = progress(CASES.len() as u64);
    for case in CASES {
        let Case { title, per_second, rules, nodes, .. } = case;
        bar.set_message(format!("{title}, {nodes} nodes"));
        let url = format!("redis://127.0.0.1:{}", server.port());
        let file = format!("store: {{ url: \"{url}\" }}\nrules: {{ {rules} }}");
        let guard = runtime.enter();
        let node = |_| {
            let policy = Policy::parse(&file, &|_| None).unwrap();
            Arc::new(engine(policy, SystemClock::new()).unwrap())
        };
        let engines: Vec<_> = (0..nodes).map(node).collect();
        let Count { requests, admitted, asked, called, without } =
            ask(&case, &engines, server, runtime);
        drop(guard);
        server.command(&["FLUSHALL"]).unwrap();
        let percent = |part: u64, whole: f64| 100.0 * part as f64 / whole;
        let reached = percent(asked, requests as f64);
        let most = BAR_PERCENT + nodes as f64;
        table.row(&[
            title.to_owned(),
            nodes.to_string(),
            format!("{:.0}", requests as f64 / MEASURED.as_secs_f64()),
            format!("{:.1}", percent(admitted, per_second as f64 * MEASURED.as_secs_f64())),
            format!("{reached:.2}"),
            bar_shown(reached, most, &format!("{most:.1} %")),
            format!("{:.2}", percent(called, requests as f64)),
            format!("{:.2}", percent(without, requests as f64)),
        ]);
        bar.inc(1);
    }
    bar.finish_and_clear();
    table
}

/// How often the server has run a script.
fn calls(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap().to_string();
    let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    lines.filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok()).sum()
}

/// Asks at an even pace, whether there were answers or not.
fn ask(
    case: &Case,
    engines: &[Arc<StoreEngine<SystemClock>>],
    server: &RedisServer,
    runtime: &Runtime,
) -> Count {
    let mut running = JoinSet::new();
    let started = Instant::now();
    let (mut asked, mut before) = (0u64, None);
    while started.elapsed() < WARM_UP + MEASURED {
        let passed = started.elapsed();
        let counts = passed >= WARM_UP;
        if counts && before.is_none() {
            before = Some(calls(server));
        }
        let due = passed.as_secs_f64() * (case.per_second * TIMES) as f64;
        while (asked as f64) < due {
            let engine = Arc::clone(&engines[usize::try_from(asked).unwrap() % engines.len()]);
            let user = (asked % case.users).to_string();
            let asking = async move {
                let attributes = Attributes::from_pairs([("user", user.as_str())]).unwrap();
                let judged = engine.judge(engine.meet(&attributes)).await.unwrap();
                let Judgement::Decided(verdict) = judged else { unreachable!("rules are met") };
                counts.then(|| (verdict.allowed(), verdict.source()))
            };
            running.spawn_on(asking, runtime.handle());
            asked += 1;
        }
        thread::sleep(Duration::from_micros(20));
    }
    let mut count = Count { called: calls(server) - before.unwrap(), ..Count::default() };
    for (allowed, source) in runtime.block_on(running.join_all()).into_iter().flatten() {
        count.requests += 1;
        count.admitted += u64::from(allowed);
        count.asked += u64::from(source != Source::Cache);
        count.without += u64::from(source == Source::Fallback);
    }
    count
}
