//! Owns [`Metrics`]: what is counted, and how `/metrics` tells it. Nothing is counted per key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tollkeeper_core::{Clock, Store, StoreError};
use tollkeeper_engine::{BreakerState, Observer, Source, StoreChange, Verdict};
use tollkeeper_policy::{OnFailure, Policy};

use crate::hot::Hot;
use crate::telemetry;
use crate::wire::AppEngine;
use striped::Striped;

mod striped;

/// The rule's name of limits that came with requests.
pub(crate) const INLINE: &str = "inline";

const RESULTS: [&str; 3] = ["allowed", "denied", "shadow_denied"];
const SOURCES: [Source; 7] = [
    Source::Store,
    Source::Fallback,
    Source::Cache,
    Source::Lease,
    Source::Sync,
    Source::Share,
    Source::Policy,
];

/// What became of policies that were read.
const RELOADS: [&str; 2] = ["ok", "error"];

/// Counters of one rule: its decisions, then what it did without the store.
const DECISIONS: usize = RESULTS.len() * SOURCES.len();
const PER_RULE: usize = DECISIONS + OnFailure::ALL.len();

/// How many things are told of values that are not ours.
const MOST_STRANGE: usize = 64;

/// The counters of each rule, by its name.
type Rules = BTreeMap<String, Arc<Striped>>;

/// What is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Those of the policy of now, and one for limits that came with requests.
    rules: ArcSwap<Rules>,
    store_seconds: Histogram,
    states_failed: Striped,
    /// What was told of values that are not ours.
    strange: Mutex<BTreeSet<String>>,
    reloads: Striped,
    kept_charges: Striped,
    /// Who is asked for most. It is told to operators, and nothing of it here.
    hot: Hot,
    /// Where the store is, for what is told of it.
    store_place: String,
}

impl Metrics {
    /// Counts for the rules of `policy`, and what is recent by `clock`.
    pub(crate) fn new(policy: &Policy, clock: Arc<dyn Clock>) -> Self {
        let metrics = Self {
            rules: ArcSwap::default(),
            // From 50 µs to 1.6 s.
            store_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            states_failed: Striped::new(1),
            strange: Mutex::default(),
            reloads: Striped::new(RELOADS.len()),
            store_place: policy.store().url.place(),
            kept_charges: Striped::new(1),
            hot: Hot::new(clock),
        };
        metrics.loaded(policy);
        metrics
    }

    /// Counts for the rules of `policy` from here on. What was counted for a rule of the same name
    /// is kept.
    pub(crate) fn loaded(&self, policy: &Policy) {
        let old = self.rules.load();
        let names = policy.rules().iter().map(|rule| rule.name());
        let counters = |name: &str| {
            let known = old.get(name).map(Arc::clone);
            (name.to_owned(), known.unwrap_or_else(|| Arc::new(Striped::new(PER_RULE))))
        };
        self.rules.store(Arc::new(names.chain([INLINE]).map(counters).collect()));
        self.reloads.add(0);
    }

    /// Who is asked for most.
    pub(crate) fn hot(&self) -> &Hot {
        &self.hot
    }

    /// A policy could not take effect.
    pub(crate) fn load_failed(&self) {
        self.reloads.add(1);
    }

    fn count_decision(&self, rule: &str, result: usize, source: Source) {
        let source = SOURCES.iter().position(|known| *known == source).unwrap_or(0);
        self.count(rule, result * SOURCES.len() + source);
    }

    fn count_failure(&self, rule: &str, choice: OnFailure) {
        let choice = OnFailure::ALL.iter().position(|known| *known == choice).unwrap_or(0);
        self.count(rule, DECISIONS + choice);
    }

    /// A request that began before a reload may name a rule that is no more: it is not counted.
    fn count(&self, rule: &str, counter: usize) {
        if let Some(counters) = self.rules.load().get(rule) {
            counters.add(counter);
        }
    }

    fn is_strange_anew(&self, told: String) -> bool {
        let mut strange = self.strange.lock();
        strange.len() < MOST_STRANGE && strange.insert(told)
    }

    /// Where a server of the store is. A store of one server calls it 0.
    fn place_of<'a>(&'a self, shard: &'a str) -> &'a str {
        if shard == "0" { &self.store_place } else { shard }
    }

    /// Everything as text, with how `engine` is now.
    pub(crate) fn text(self: &Arc<Self>, engine: &Arc<AppEngine>) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("tollkeeper");
        let scrape = Scrape { metrics: Arc::clone(self), engine: Arc::clone(engine) };
        registry.register_collector(Box::new(scrape));
        let mut written = String::new();
        text::encode(&mut written, &registry)?;
        Ok(written)
    }
}

impl Observer for Metrics {
    fn decided(&self, verdict: &Verdict) {
        telemetry::decided(verdict);
        self.hot.decided(verdict);
        let binding = verdict.decision().binding;
        let mut last_failed = None;
        for (nth, limit) in verdict.limits().enumerate() {
            if nth == binding {
                self.count_decision(limit.rule, usize::from(!verdict.allowed()), verdict.source());
            }
            if limit.outcome.shadow && !limit.outcome.allowed {
                self.count_decision(limit.rule, 2, limit.source());
            }
            // A shadow denies nobody, also when the store fails.
            let Some(choice) = limit.on_failure.filter(|_| !limit.outcome.shadow) else { continue };
            // A rule of several limits counts once; its limits lie side by side.
            if last_failed != Some(limit.rule) {
                self.count_failure(limit.rule, choice);
                last_failed = Some(limit.rule);
            }
        }
    }

    fn lacked(&self, rule: &str, shadow: bool) {
        if !shadow {
            telemetry::lacked(rule);
        }
        self.count_decision(rule, if shadow { 2 } else { 1 }, Source::Policy);
    }

    fn store_called(&self, took_us: u64) {
        let seconds = std::time::Duration::from_micros(took_us).as_secs_f64();
        self.store_seconds.observe(seconds);
    }

    fn store_changed(&self, shard: &str, change: &StoreChange) {
        let store = self.place_of(shard);
        match change {
            StoreChange::Down { reason } => tracing::warn!(
                store,
                reason,
                "the store is down: rules decide by their on_failure until it is back"
            ),
            StoreChange::Up { after_us } => {
                let seconds = std::time::Duration::from_micros(*after_us).as_secs_f64();
                tracing::warn!(store, down_seconds = seconds, "the store is back");
            }
            _ => {}
        }
    }

    fn kept_charge(&self, shard: &str, error: &StoreError) {
        let store = self.place_of(shard);
        tracing::debug!(store, %error, "a charge of a denied request may not have come back");
        self.kept_charges.add(0);
    }

    fn state_failed(&self, error: &StoreError) {
        // Of each limit the first is told; a key that goes on failing must not fill the log.
        if self.is_strange_anew(error.to_string()) {
            tracing::warn!(
                store = self.store_place,
                %error,
                "a key cannot be used: its rules decide by their on_failure"
            );
        }
        self.states_failed.add(0);
    }
}

/// One reading of everything.
#[derive(Debug)]
struct Scrape {
    metrics: Arc<Metrics>,
    engine: Arc<AppEngine>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.decisions(&mut encoder)?;
        self.failures(&mut encoder)?;
        self.store(&mut encoder)?;
        self.local(&mut encoder)?;
        self.limits(&mut encoder)
    }
}

impl Scrape {
    fn decisions(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Decisions by the rule that bound, and what shadow rules would have denied";
        let mut family = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        for (name, counters) in self.metrics.rules.load().iter() {
            for (result, told) in RESULTS.iter().enumerate() {
                for (nth, source) in SOURCES.iter().enumerate() {
                    let count = counters.sum(result * SOURCES.len() + nth);
                    // What hardly anybody ever sees is told once it happened.
                    if count == 0 && (result == 2 || *source != Source::Store) {
                        continue;
                    }
                    let labels =
                        [("rule", name.as_str()), ("result", told), ("source", source.name())];
                    ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    fn failures(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let told = [
            ("fail_open", "Requests that a rule admitted because the store gave no answer"),
            ("fail_closed", "Requests that a rule denied because the store gave no answer"),
            ("fail_static", "Requests that a rule decided in this process without the store"),
        ];
        for (nth, (name, help)) in told.into_iter().enumerate() {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (label, counters) in self.metrics.rules.load().iter() {
                let labels = [("rule", label.as_str())];
                ConstCounter::new(counters.sum(DECISIONS + nth))
                    .encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn store(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "How long calls to the store took, answered or not";
        let seconds = &self.metrics.store_seconds;
        let family =
            encoder.encode_descriptor("store_seconds", help, None, seconds.metric_type())?;
        seconds.encode(family)?;

        let health = self.engine.health();
        let down = std::time::Duration::from_micros(health.down_for_us).as_secs_f64();
        let help = "How long the server has been down that is down longest; 0 while all are up";
        gauge(encoder, "store_down_seconds", help, ConstGauge::new(down))?;

        let help = "The breaker of each shard: 0 closed, 1 half-open, 2 open";
        let mut family =
            encoder.encode_descriptor("breaker_state", help, None, MetricType::Gauge)?;
        let store = self.engine.store();
        for shard in (0..store.shards()).filter(|shard| store.is_used(*shard)) {
            let state: i64 = match self.engine.shard_health(shard).breaker {
                BreakerState::Closed => 0,
                BreakerState::HalfOpen => 1,
                _ => 2,
            };
            let labels = [("shard", store.shard_name(shard))];
            ConstGauge::new(state).encode(family.encode_family(&labels)?)?;
        }

        let help = "Charges of denied requests that were given back without an answer in time";
        let kept = ConstCounter::new(self.metrics.kept_charges.sum(0));
        let family =
            encoder.encode_descriptor("unreturned_charges", help, None, kept.metric_type())?;
        kept.encode(family)?;

        let help = "Calls that failed because a key of ours holds a value that is not ours";
        let mut_count = ConstCounter::new(self.metrics.states_failed.sum(0));
        let family =
            encoder.encode_descriptor("unusable_states", help, None, mut_count.metric_type())?;
        mut_count.encode(family)
    }

    /// What is decided here with leave of a server.
    fn local(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(stats) = self.engine.store().local_stats() else { return Ok(()) };
        let help = "Keys that this process decides now by leave of the store";
        let mut family = encoder.encode_descriptor("local_keys", help, None, MetricType::Gauge)?;
        for (consistency, keys) in stats.keys {
            let keys = ConstGauge::new(i64::try_from(keys).unwrap_or(i64::MAX));
            keys.encode(family.encode_family(&[("consistency", consistency)])?)?;
        }
        let made = stats.calls.map(|calls| (calls.kind, calls.made));
        let failed = stats.calls.map(|calls| (calls.kind, calls.failed));
        for (name, help, counts) in [
            ("local_calls", "Calls to the store by which this process gets that leave", made),
            ("local_failed_calls", "Those of them without an answer, or with an error", failed),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (kind, count) in counts {
                ConstCounter::new(count).encode(family.encode_family(&[("kind", kind)])?)?;
            }
        }
        let Some(nodes) = stats.nodes else { return Ok(()) };
        let nodes = ConstGauge::new(i64::try_from(nodes).unwrap_or(i64::MAX));
        gauge(encoder, "nodes", "Processes that count each other through the store", nodes)
    }

    fn limits(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "How much each limit allows: its capacity, burst or count";
        let mut family = encoder.encode_descriptor("limit", help, None, MetricType::Gauge)?;
        for rule in self.engine.policy().rules() {
            for limit in rule.limits() {
                let labels = [("rule", rule.name()), ("limit", limit.name())];
                let most = i64::try_from(limit.quota().limit()).unwrap_or(i64::MAX);
                ConstGauge::new(most).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Policies that were read, the first one included";
        let mut family = encoder.encode_descriptor("reloads", help, None, MetricType::Counter)?;
        for (nth, result) in RELOADS.iter().enumerate() {
            let count = ConstCounter::new(self.metrics.reloads.sum(nth));
            count.encode(family.encode_family(&[("result", *result)])?)?;
        }

        let local = self.engine.local().map(tollkeeper_memory::MemoryStore::stats);
        let stats = self.engine.store().stats().or(local).unwrap_or_default();
        let keys = i64::try_from(stats.keys).unwrap_or(i64::MAX);
        let help = "Keys in the table of this process, some of which may have expired";
        gauge(encoder, "keys", help, ConstGauge::new(keys))?;
        let help = "New keys that found the table of this process full, by what was done with them";
        let mut family =
            encoder.encode_descriptor("full_table", help, None, MetricType::Counter)?;
        for (did, count) in
            [("evict", stats.evicted), ("deny", stats.denied_full), ("allow", stats.allowed_full)]
        {
            ConstCounter::new(count).encode(family.encode_family(&[("did", did)])?)?;
        }
        let swept = ConstCounter::new(stats.swept);
        let help = "Keys that had expired and were taken out of the table of this process";
        let family = encoder.encode_descriptor("swept_keys", help, None, swept.metric_type())?;
        swept.encode(family)?;
        let denials = i64::try_from(self.engine.denials()).unwrap_or(i64::MAX);
        let help = "Denials that are told again without the store, some of which may have passed";
        gauge(encoder, "denied_cache_entries", help, ConstGauge::new(denials))
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    gauge: impl EncodeMetric,
) -> Result<(), fmt::Error> {
    gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}
