//! Random stories with and without the cache of denials: nobody is decided otherwise for it.

use tollkeeper_engine::{Ask, Judgement, Source, Target, Verdict};
use tollkeeper_policy::Attributes;
use tollkeeper_testkit::dice::Dice;

use crate::kit::{Bench, ready};

/// Every algorithm but `concurrency`, which keeps no denial.
const RULES: [&str; 6] = ["bucket", "gcra", "queue", "window", "log", "counter"];

const KEYS: [&str; 2] = ["alice", "bob"];

fn policy(dice: &mut Dice, denied_cache: &str) -> String {
    let mut limits = RULES.map(|_| (dice.between(1, 6), dice.pick(&["100ms", "1s", "7s", "1h"])));
    let [bucket, gcra, queue, window, log, counter] = &mut limits;
    let rate = |(count, period): (u64, &str)| format!("{count} per {period}");
    let delay = dice.pick(&["", ", max_delay: 300ms", ", mode: meter"]);
    let shadow = dice.pick(&RULES);
    let rules = [
        format!("token_bucket: {{ capacity: {}, refill_rate: {} }}", bucket.0 + 2, rate(*bucket)),
        format!("gcra: {{ burst: {}, rate: {} }}", gcra.0 + 2, rate(*gcra)),
        format!(
            "leaking_bucket: {{ queue_capacity: {}, leak_rate: {}{delay} }}",
            queue.0,
            rate(*queue)
        ),
        format!("fixed_window: {{ max_requests: {}, window_size: {} }}", window.0, window.1),
        format!("sliding_window_log: {{ max_requests: {}, window_size: {} }}", log.0, log.1),
        format!(
            "sliding_window_counter: {{ max_requests: {}, window_size: {} }}",
            counter.0, counter.1
        ),
    ];
    let rules = RULES.iter().zip(rules).map(|(name, block)| {
        let shadow = if *name == shadow { "shadow: true, " } else { "" };
        let cost = "cost: { attribute: units, max: 10, default: 1 }";
        format!("  {name}: {{ key: attribute:{name}, {shadow}{cost}, {block} }}\n")
    });
    let store = format!("store: {{ url: redis://127.0.0.1:1, denied_cache: {denied_cache} }}\n");
    format!("{store}rules:\n{}", rules.collect::<String>())
}

/// One engine that keeps denials and one that does not, each with a store and a clock of its own.
struct Two {
    plain: Bench,
    caching: Bench,
    told_again: usize,
    denied: usize,
}

impl Two {
    fn new(seed: u64) -> Self {
        let [plain, caching] =
            ["0", "1s"].map(|cache| Bench::new(&policy(&mut Dice::new(seed), cache)));
        Self { plain, caching, told_again: 0, denied: 0 }
    }

    fn pass(&self, us: u64) {
        for bench in [&self.plain, &self.caching] {
            bench.clock.advance(us);
            bench.timer.advance(us);
        }
    }

    /// Does the same to both, which must be told the same.
    fn both(&mut self, decide: impl Fn(&Bench) -> Verdict) -> [Verdict; 2] {
        let both = [decide(&self.plain), decide(&self.caching)];
        let [plain, caching] = &both;
        assert_eq!(plain.allowed(), caching.allowed(), "{plain:?}\n{caching:?}");
        self.denied += usize::from(!plain.allowed());
        self.told_again += usize::from(caching.source() == Source::Cache);
        both
    }
}

fn ask<'a>(rule: &'a str, key: &'a str, cost: u64) -> Ask<'a> {
    Ask { target: Target::Rule(rule), key: Some(key), cost }
}

/// A request that meets several rules.
fn judge(bench: &Bench, met: &[(&str, &str)], units: &str) -> Verdict {
    let pairs = met.iter().copied().chain([("units", units)]);
    let attributes = Attributes::from_pairs(pairs).unwrap();
    match ready(bench.engine.judge(bench.engine.meet(&attributes))).unwrap() {
        Judgement::Decided(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

/// How long until the next step: nothing, or as long as hurts.
fn step_us(dice: &mut Dice, last: Option<&Verdict>) -> u64 {
    let retry_us = last.and_then(|verdict| verdict.decision().retry_after_us).unwrap_or(0);
    let retry_us = retry_us.min(10_000_000);
    match dice.below(8) {
        0..=3 => 0,
        4 => dice.below(retry_us + 2),
        5 => retry_us,
        6 => retry_us.saturating_sub(dice.pick(&[1, retry_us / 1_000])),
        _ => dice.below(400_000),
    }
}

#[test]
fn whoever_is_told_a_denial_again_would_have_been_denied() {
    let (mut told_again, mut denied) = (0, 0);
    for seed in 0..150 {
        let (mut two, mut dice) = (Two::new(seed), Dice::new(seed));
        let (mut last, mut reserved) = (None, Vec::new());
        // Few, so that a denial is met again while it holds.
        let rules = [dice.pick(&RULES), dice.pick(&RULES)];
        for _ in 0..300 {
            two.pass(step_us(&mut dice, last.as_ref()));
            let (rule, key) = (dice.pick(&rules), dice.pick(&KEYS));
            let cost = dice.pick(&[0, 1, 1, 1, 2, 3, 8]);
            match dice.below(30) {
                0 => {
                    let at_us = last.as_ref().map(|last: &Verdict| last.decision().charged_at_us);
                    let at_us = at_us.flatten().filter(|_| dice.one_in(2));
                    for bench in [&two.plain, &two.caching] {
                        ready(bench.engine.refund(ask(rule, key, cost), at_us)).unwrap();
                    }
                }
                1 => {
                    let asked = ask(rule, key, cost.max(1));
                    let both = two.both(|bench| ready(bench.engine.reserve(asked, None)).unwrap());
                    reserved.push(both);
                }
                2 => {
                    let Some([plain, caching]) = reserved.pop() else { continue };
                    for (bench, verdict) in [(&two.plain, plain), (&two.caching, caching)] {
                        let Some(handle) = verdict.handle() else { continue };
                        ready(bench.engine.settle(handle, cost)).unwrap();
                    }
                }
                3 if dice.one_in(10) => {
                    for bench in [&two.plain, &two.caching] {
                        ready(bench.engine.reset(None, Some(key))).unwrap();
                    }
                }
                4..=9 => {
                    let met = [(rule, key), (dice.pick(&rules), dice.pick(&KEYS))];
                    let met = if met[0].0 == met[1].0 { &met[..1] } else { &met[..] };
                    let [plain, _] = two.both(|bench| judge(bench, met, &cost.to_string()));
                    last = Some(plain);
                }
                _ => {
                    let asked = ask(rule, key, cost);
                    let [plain, _] = two.both(|bench| ready(bench.engine.check(asked)).unwrap());
                    last = Some(plain);
                }
            }
        }
        told_again += two.told_again;
        denied += two.denied;
    }
    // Or nothing would have been tried.
    assert!(told_again * 5 > denied, "{told_again} of {denied} denials were told again");
}
