//! `simulate` against the exact model: every field of every row, on random policies.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::Value;
use tollkeeper_testkit::dice::Dice;
use tollkeeper_testkit::model::{Limit, Model, RateSpec, Spec};
use tollkeeper_testkit::random::random_spec;
use tollkeeper_testkit::redis_server::RedisServer;

use crate::kit::{Folder, run, text};

/// A duration in one of its spellings.
fn spell_us(dice: &mut Dice, us: u64) -> String {
    match dice.below(3) {
        0 if us.is_multiple_of(1_000_000) => format!("{}", us / 1_000_000),
        1 if us.is_multiple_of(60_000_000) => format!("{}m", us / 60_000_000),
        2 if us.is_multiple_of(1_000) => format!("{}ms", us / 1_000),
        _ => format!("{us}us"),
    }
}

fn spell_rate(dice: &mut Dice, rate: &RateSpec) -> String {
    let RateSpec { count_numerator, count_denominator, period_us } = *rate;
    let count = match count_denominator {
        1 => count_numerator.to_string(),
        _ => format!("{}.{}", count_numerator / 10, count_numerator % 10),
    };
    match (period_us, dice.below(3)) {
        (1_000_000, 0) => count,
        (1_000_000, 1) => format!("{count}/s"),
        (us, 2) if us.is_multiple_of(1_000_000) => format!("{count} per {} s", us / 1_000_000),
        (us, _) => format!("{count}/{us}us"),
    }
}

fn block(dice: &mut Dice, spec: &Spec) -> String {
    match spec {
        Spec::TokenBucket { capacity, rate } => {
            format!(
                "token_bucket: {{ capacity: {capacity}, refill_rate: {} }}",
                spell_rate(dice, rate)
            )
        }
        Spec::Gcra { capacity, rate } => {
            format!("gcra: {{ burst: {capacity}, rate: {} }}", spell_rate(dice, rate))
        }
        Spec::LeakingBucket { capacity, rate, shape, max_delay_us } => {
            let mode = if *shape { "shape" } else { "meter" };
            let rate = spell_rate(dice, rate);
            let delay = max_delay_us.map_or(String::new(), |us| format!(", max_delay: {us}us"));
            format!(
                "leaking_bucket: {{ queue_capacity: {capacity}, leak_rate: {rate}, mode: {mode}{delay} }}"
            )
        }
        Spec::FixedWindow { max, window_us } => {
            let size = spell_us(dice, *window_us);
            format!("fixed_window: {{ max_requests: {max}, window_size: {size} }}")
        }
        Spec::SlidingWindowLog { max, window_us } => {
            let size = spell_us(dice, *window_us);
            format!("sliding_window_log: {{ max_requests: {max}, window_size: {size} }}")
        }
        Spec::SlidingWindowCounter { max, window_us } => {
            let size = spell_us(dice, *window_us);
            format!("sliding_window_counter: {{ max_requests: {max}, window_size: {size} }}")
        }
        Spec::Concurrency { max, lease_us } => {
            format!("concurrency: {{ max_in_flight: {max}, lease: {} }}", spell_us(dice, *lease_us))
        }
    }
}

/// A policy, a trace, and the lines that it must give.
fn story(seed: u64) -> (String, String, Vec<String>) {
    let mut dice = Dice::new(seed);
    let rules: Vec<Limit> = (0..dice.between(1, 4))
        .map(|nth| {
            let algorithm = if nth == 0 { seed % 7 } else { dice.below(7) };
            Limit { spec: random_spec(&mut dice, algorithm), shadow: dice.one_in(6) }
        })
        .collect();
    let mut policy = "rules:\n".to_owned();
    for (nth, rule) in rules.iter().enumerate() {
        let block = block(&mut dice, &rule.spec);
        let shadow = if rule.shadow { "\n    shadow: true" } else { "" };
        writeln!(policy, "  rule-{nth}:\n    {block}{shadow}").unwrap();
    }
    // Either every row meets every rule, or each names its own.
    let together = dice.one_in(3);
    let mut models: HashMap<(usize, u64), Model> = HashMap::new();
    let mut now_us = 1_700_000_000_000_000 + dice.below(86_400_000_000);
    let mut trace = "time_us,rule,key,cost\n".to_owned();
    let mut lines = Vec::new();
    let mut last: Option<(Option<u64>, u64)> = None;
    for _ in 0..200 {
        let retry_us = last.and_then(|(retry_us, _)| retry_us).unwrap_or(0);
        let reset_us = last.map_or(1, |(_, reset_us)| reset_us.max(1));
        now_us += match dice.below(6) {
            0 | 1 => 0,
            2 => retry_us,
            3 => retry_us.saturating_sub(1),
            4 => dice.below(reset_us),
            _ => dice.below(1_000_000),
        };
        let nth = usize::try_from(dice.below(rules.len() as u64)).unwrap();
        let (name, which) =
            if together { (String::new(), 0) } else { (format!("rule-{nth}"), nth) };
        let key = dice.below(3);
        let cost = match dice.below(8) {
            0 => dice.pick(&[0, 1_000, 1_000_000_000_000]),
            1 | 2 => dice.between(0, 5),
            _ => 1,
        };
        let model = models.entry((which, key)).or_insert_with(|| {
            Model::new(if together { rules.clone() } else { vec![rules[nth].clone()] })
        });
        let numbers = model.check(now_us, cost).folded;
        last = Some((numbers.retry_after_us, numbers.reset_after_us));
        writeln!(trace, "{now_us},{name},key-{key},{cost}").unwrap();
        let retry = numbers.retry_after_us.map_or("null".to_owned(), |us| us.to_string());
        lines.push(format!(
            "{{\"time_us\":{now_us},\"rule\":\"{name}\",\"key\":\"key-{key}\",\"cost\":{cost},\
             \"allowed\":{},\"limit\":{},\"remaining\":{},\"retry_after_us\":{retry},\
             \"reset_after_us\":{},\"delay_us\":{}}}",
            numbers.allowed,
            numbers.limit,
            numbers.remaining,
            numbers.reset_after_us,
            numbers.delay_us,
        ));
    }
    (policy, trace, lines)
}

#[test]
fn every_field_of_every_row_is_the_models() {
    let folder = Folder::new("simulate-oracle");
    for seed in 0..140 {
        let (policy, trace, lines) = story(seed);
        folder.write("p.yaml", &policy).write("t.csv", &trace);
        let args = ["simulate", "-c", "p.yaml", "--trace", "t.csv", "--out", "jsonl"];
        let output = run(&args, &folder);
        assert_eq!(output.status.code(), Some(0), "{policy}{}", text(&output.stderr));
        let out = text(&output.stdout);
        for (nth, (got, expected)) in out.lines().zip(&lines).enumerate() {
            assert_eq!(got, expected, "seed {seed}, row {nth}\n{policy}");
        }
        assert_eq!(out.lines().count(), lines.len());
        assert_eq!(run(&args, &folder).stdout, output.stdout, "the same bytes again");
    }
}

#[test]
fn a_run_on_redis_gives_the_same_bytes_and_leaves_nothing_behind() {
    let server = RedisServer::start("redis-server", &[]).unwrap();
    let folder = Folder::new("simulate-redis");
    for seed in 0..28 {
        let (policy, trace, _) = story(seed);
        folder.write("p.yaml", &policy).write("t.csv", &trace);
        let simulate = |store: &str| {
            let args =
                ["simulate", "-c", "p.yaml", "--trace", "t.csv", "--out", "jsonl", "--store"];
            run(&[&args[..], &[store]].concat(), &folder)
        };
        let (embedded, redis) = (simulate("memory://"), simulate(&server.url()));
        assert_eq!(redis.status.code(), Some(0), "{}", text(&redis.stderr));
        assert!(embedded.stdout == redis.stdout, "seed {seed}:\n{policy}");
    }
    let args = ["-p", server.url().rsplit(':').next().unwrap(), "dbsize"].map(str::to_owned);
    let left = std::process::Command::new("redis-cli").args(args).output().unwrap();
    assert_eq!(text(&left.stdout).trim(), "0");
}

#[test]
fn the_summary_counts_what_passed() {
    let folder = Folder::new("simulate-summary");
    folder.write(
        "tollkeeper.yaml",
        "rules: { api: { fixed_window: { max_requests: 2, window_size: 1s } } }",
    );
    folder.write("t.csv", "time_us,rule,key,cost\n0,api,a,1\n0,api,a,1\n0,api,a,1\n1000000,,a,3\n");
    let output = run(&["simulate", "--trace", "t.csv"], &folder);
    let told = text(&output.stdout);
    assert!(told.starts_with("t.csv: 4 rows over 1s\n"), "{told}");
    let json = run(&["simulate", "--trace", "t.csv", "--json"], &folder);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let rules = json["rules"].as_array().unwrap();
    assert_eq!((&rules[0]["rule"], &rules[0]["never"]), (&"".into(), &1.into()));
    assert_eq!((&rules[1]["allowed"], &rules[1]["denied"]), (&2.into(), &1.into()));
}

#[test]
fn a_broken_trace_is_told_with_its_line_and_exit_code_2() {
    let folder = Folder::new("simulate-broken");
    folder.write("tollkeeper.yaml", "rules: { api: { limit: 5/s } }");
    let header = "time_us,rule,key,cost\n";
    let long = format!("{header}1,api,{},1\n", "k".repeat(10_000_000));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".to_vec(), "t.csv: line 1: the trace is empty"),
        (format!("{header}1,api,a,1\n2,api,b").into(), "t.csv: line 3: the row has 3 fields"),
        (
            format!("{header}2,api,a,1\n1,api,a,1\n").into(),
            "t.csv: line 3: `time_us` is 1, before 2",
        ),
        (format!("{header}1,api,a,-1\n").into(), "t.csv: line 2: `cost` is `-1`"),
        (format!("{header}1,api,a,1{}\n", "0".repeat(30)).into(), "t.csv: line 2: `cost` is `1000"),
        (format!("{header}1,api,,1\n").into(), "t.csv: line 2: `key` is empty"),
        (
            format!("{header}1,apo,a,1\n").into(),
            "t.csv: line 2: `rule` is `apo`, which the policy does not have; did you mean `api`?",
        ),
        (long.into(), "t.csv: line 2: it is longer than 8192 bytes"),
        (
            [header.as_bytes(), b"1,api,\xff,1\n"].concat(),
            "t.csv: line 2: byte 7 is not valid UTF-8",
        ),
    ];
    for (trace, told) in cases {
        folder.write("t.csv", trace);
        let output = run(&["simulate", "--trace", "t.csv", "--out", "jsonl"], &folder);
        assert_eq!(output.status.code(), Some(2), "{told}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(told), "{told}: {stderr}");
    }
    assert_eq!(run(&["simulate", "--trace", "nowhere.csv"], &folder).status.code(), Some(2));
}
