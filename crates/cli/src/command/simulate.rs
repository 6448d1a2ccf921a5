//! `tollkeeper simulate`: a trace through the policy, in virtual time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use tollkeeper_core::ManualClock;
use tollkeeper_engine::{Ask, Engine, EngineError, Target, Verdict};
use tollkeeper_stores::AnyStore;

use super::block_on;
use crate::args::{Out, SimulateArgs};
use crate::config::{load, store_url};
use crate::output::{Failure, bulk, human, progress, say, table, warn};
use crate::trace::{Row, Trace};

pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    let policy = load(args.config.as_deref())?.policy()?;
    let policy = policy.stored_at(store_url(&args.store)?.unwrap_or_default());
    let name = args.trace.display().to_string();
    let (reader, bytes) = open(&args.trace)?;
    let simulation = block_on(async {
        let clock = ManualClock::default();
        let prefix = own_prefix()?;
        let opening = AnyStore::simulated(policy.store(), &prefix, clock.clone());
        let store = opening.await.map_err(Failure::told)?;
        let engine = Engine::new(policy, store);
        let mut simulation = Simulation { engine, clock, name, summary: Summary::default() };
        let replayed = simulation.replay(reader, bytes, args.out).await;
        // The run's keys go, whatever became of it.
        let cleared = simulation.engine.reset(None, None).await.map_err(Failure::told);
        replayed.and(cleared)?;
        Ok(simulation)
    })?;
    let evicted = simulation.engine.store().stats().map_or(0, |stats| stats.evicted);
    if evicted > 0 {
        warn(&format!("{evicted} keys were forgotten for want of room: raise `store.max_keys`"));
    }
    if args.out == Out::Summary {
        let summary = simulation.summary;
        let told = if args.json {
            format!("{:#}", summary.to_json())
        } else {
            summary.told(&simulation.name)
        };
        say(&told)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A prefix for the keys of this run alone.
fn own_prefix() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(Failure::told)?;
    Ok(format!("rl-simulate-{:016x}", u64::from_ne_bytes(bytes)))
}

type Reader = Box<dyn BufRead + Send>;

fn open(path: &Path) -> Result<(Reader, Option<u64>), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::new(io::stdin())), None));
    }
    let file = File::open(path);
    let file =
        file.map_err(|error| Failure::told(format!("cannot read {}: {error}", path.display())))?;
    let bytes = file.metadata().ok().map(|metadata| metadata.len());
    Ok((Box::new(BufReader::with_capacity(1 << 16, file)), bytes))
}

struct Simulation {
    engine: Engine<AnyStore<ManualClock>>,
    clock: ManualClock,
    name: String,
    summary: Summary,
}

impl Simulation {
    async fn replay(
        &mut self,
        reader: Reader,
        bytes: Option<u64>,
        out: Out,
    ) -> Result<(), Failure> {
        let name = self.name.clone();
        let wrong = |error: &dyn ToString| Failure::told(format!("{name}: {}", error.to_string()));
        let bar = progress(bytes);
        let mut trace = Trace::new(bar.wrap_read(reader)).map_err(|error| wrong(&error))?;
        let mut writer = bulk();
        loop {
            let row = match trace.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => {
                    writer.flush()?;
                    return Err(wrong(&error));
                }
            };
            let verdict = match self.decide(&row).await {
                Ok(verdict) => verdict,
                Err(error) => {
                    writer.flush()?;
                    return Err(wrong(&trace.error(error.to_string())));
                }
            };
            match out {
                Out::Jsonl => write_line(&mut writer, &row, &verdict)?,
                Out::Summary => self.summary.count(&row, &verdict),
            }
        }
        bar.finish_and_clear();
        Ok(writer.flush()?)
    }

    async fn decide(&self, row: &Row) -> Result<Verdict, EngineError> {
        self.clock.set(row.time_us);
        let target = match row.rule.as_str() {
            "" => Target::EveryRule,
            name => Target::Rule(name),
        };
        self.engine.check(Ask { target, key: Some(&row.key), cost: row.cost }).await
    }
}

fn write_line(writer: &mut impl Write, row: &Row, verdict: &Verdict) -> Result<(), Failure> {
    let decision = verdict.decision();
    let text = |text: &str| serde_json::to_string(text).map_err(Failure::told);
    write!(
        writer,
        "{{\"time_us\":{},\"rule\":{},\"key\":{},\"cost\":{},\"allowed\":{},\"limit\":{},\"remaining\":{}",
        row.time_us,
        text(&row.rule)?,
        text(&row.key)?,
        row.cost,
        decision.allowed,
        decision.limit,
        decision.remaining,
    )?;
    match decision.retry_after_us {
        Some(us) => write!(writer, ",\"retry_after_us\":{us}")?,
        None => write!(writer, ",\"retry_after_us\":null")?,
    }
    let (reset_us, delay_us) = (decision.reset_after_us, decision.delay_us);
    Ok(writeln!(writer, ",\"reset_after_us\":{reset_us},\"delay_us\":{delay_us}}}")?)
}

/// What each rule of the trace let through.
#[derive(Default)]
struct Summary {
    rules: BTreeMap<String, Counts>,
    first_us: Option<u64>,
    last_us: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    rows: u64,
    allowed: u64,
    denied: u64,
    never: u64,
    shadow_denied: u64,
    units: u64,
    units_allowed: u64,
    longest_retry_us: u64,
    longest_delay_us: u64,
}

impl Summary {
    fn count(&mut self, row: &Row, verdict: &Verdict) {
        let decision = verdict.decision();
        self.first_us.get_or_insert(row.time_us);
        self.last_us = row.time_us;
        if !self.rules.contains_key(&row.rule) {
            self.rules.insert(row.rule.clone(), Counts::default());
        }
        let Some(counts) = self.rules.get_mut(&row.rule) else { return };
        counts.rows += 1;
        counts.units = counts.units.saturating_add(row.cost);
        if decision.allowed {
            counts.allowed += 1;
            counts.units_allowed = counts.units_allowed.saturating_add(row.cost);
        } else {
            counts.denied += 1;
            counts.never += u64::from(decision.retry_after_us.is_none());
        }
        let would_deny =
            verdict.limits().filter(|limit| limit.outcome.shadow && !limit.outcome.allowed);
        counts.shadow_denied += u64::from(would_deny.count() > 0);
        let retry_us = decision.retry_after_us.unwrap_or(0);
        counts.longest_retry_us = counts.longest_retry_us.max(retry_us);
        counts.longest_delay_us = counts.longest_delay_us.max(decision.delay_us);
    }

    fn span_us(&self) -> u64 {
        self.last_us - self.first_us.unwrap_or(self.last_us)
    }

    fn told(&self, name: &str) -> String {
        let rows: u64 = self.rules.values().map(|counts| counts.rows).sum();
        let each = self.rules.iter().map(|(rule, counts)| {
            let share = 100.0 * ratio(counts.allowed, counts.rows);
            vec![
                if rule.is_empty() { "(every rule)".to_owned() } else { rule.clone() },
                counts.rows.to_string(),
                counts.allowed.to_string(),
                counts.denied.to_string(),
                format!("{share:.1} %"),
                counts.never.to_string(),
                counts.shadow_denied.to_string(),
                format!("{}/{}", counts.units_allowed, counts.units),
                human(counts.longest_retry_us),
                human(counts.longest_delay_us),
            ]
        });
        let header = [
            "rule",
            "rows",
            "allowed",
            "denied",
            "share",
            "never",
            "shadow would deny",
            "units",
            "longest retry",
            "longest delay",
        ];
        let table = table(&header, each);
        format!("{name}: {rows} rows over {}\n\n{}", human(self.span_us()), table.trim_end())
    }

    fn to_json(&self) -> Value {
        let rules: Vec<Value> = self
            .rules
            .iter()
            .map(|(rule, counts)| {
                json!({
                    "rule": rule,
                    "rows": counts.rows,
                    "allowed": counts.allowed,
                    "denied": counts.denied,
                    "never": counts.never,
                    "shadow_denied": counts.shadow_denied,
                    "units": counts.units,
                    "units_allowed": counts.units_allowed,
                    "longest_retry_us": counts.longest_retry_us,
                    "longest_delay_us": counts.longest_delay_us,
                })
            })
            .collect();
        json!({ "span_us": self.span_us(), "rules": rules })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share that is shown with one digit")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
