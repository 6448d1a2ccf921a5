//! One process of the fleet: the library on a policy, asked as fast as it can be.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tollkeeper_engine::{Ask, Source, Target, Verdict};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::Policy;
use tollkeeper_stores::{StoreEngine, engine};

use super::{SLOT_US, now_us};

/// The argument by which the benchmark starts itself as a process of the fleet.
pub(crate) const NODE: &str = "fleet-node";

/// Who waits for the store, waits with so many others.
const CALLERS: usize = 64;

/// One wait of so many is told.
const SAMPLED: u64 = 256;

const ASK: Ask<'_> = Ask { target: Target::Rule("hot"), key: Some("k"), cost: 1 };

/// What happened, and when.
struct Log {
    begun: Instant,
    begun_us: u64,
    from_us: u64,
    decisions: u64,
    here: u64,
    waits_ns: Vec<u64>,
    admitted: BTreeMap<u64, u64>,
}

impl Log {
    fn new(from_us: u64) -> Self {
        Self {
            begun: Instant::now(),
            begun_us: now_us(),
            from_us,
            decisions: 0,
            here: 0,
            waits_ns: Vec::new(),
            admitted: BTreeMap::new(),
        }
    }

    fn at_us(&self, at: Instant) -> u64 {
        self.begun_us + u64::try_from((at - self.begun).as_micros()).unwrap()
    }

    fn decided(&mut self, verdict: &Verdict, asked: Instant, told: Instant) {
        let at_us = self.at_us(told);
        if verdict.allowed() {
            *self.admitted.entry(at_us / SLOT_US).or_default() += 1;
        }
        if at_us < self.from_us {
            return;
        }
        self.decisions += 1;
        self.here +=
            u64::from(matches!(verdict.source(), Source::Lease | Source::Sync | Source::Share));
        if self.decisions.is_multiple_of(SAMPLED) {
            self.waits_ns.push((told - asked).as_nanos().try_into().unwrap());
        }
    }

    fn tell(&self) {
        let mut out = BufWriter::new(std::io::stdout().lock());
        writeln!(out, "decided {} {}", self.decisions, self.here).unwrap();
        self.waits_ns.iter().for_each(|ns| writeln!(out, "waited {ns}").unwrap());
        self.admitted
            .iter()
            .for_each(|(slot, units)| writeln!(out, "admitted {slot} {units}").unwrap());
        out.flush().unwrap();
    }
}

/// Runs as `fleet-node POLICY BEGINS_US FROM_US TO_US`.
pub(crate) fn serve() {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let policy = Policy::parse(&arguments[0], &|_| None).unwrap();
    let [begins_us, from_us, to_us] = [1, 2, 3].map(|nth| arguments[nth].parse::<u64>().unwrap());
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.enter();
    let is_here = arguments[0].contains("consistency");
    let engine = Arc::new(engine(policy, SystemClock::new()).unwrap());
    thread::sleep(Duration::from_micros(begins_us.saturating_sub(now_us())));
    let mut log = Log::new(from_us);
    match is_here {
        true => {
            let mut asked = Instant::now();
            while log.at_us(asked) < to_us {
                let verdict = match engine.check_at_once(ASK) {
                    Ok(decided) => decided,
                    Err(undecided) => runtime.block_on(engine.check_waiting(undecided)),
                };
                let told = Instant::now();
                log.decided(&verdict.unwrap(), asked, told);
                asked = told;
            }
        }
        false => log = runtime.block_on(crowd(engine, log, to_us)),
    }
    drop(guard);
    log.tell();
}

/// Many callers, each of whom waits for the store.
async fn crowd(engine: Arc<StoreEngine<SystemClock>>, log: Log, to_us: u64) -> Log {
    let log = Arc::new(std::sync::Mutex::new(log));
    let callers = (0..CALLERS).map(|_| {
        let (engine, log) = (Arc::clone(&engine), Arc::clone(&log));
        tokio::spawn(async move {
            loop {
                let asked = Instant::now();
                let verdict = engine.check(ASK).await.unwrap();
                let mut log = log.lock().unwrap();
                let told = Instant::now();
                log.decided(&verdict, asked, told);
                if log.at_us(told) >= to_us {
                    return;
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    Arc::into_inner(log).unwrap().into_inner().unwrap()
}
