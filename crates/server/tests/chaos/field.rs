//! Owns [`Field`]: six engines on one server, and the callers that keep asking them.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::{RwLock, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tollkeeper_core::{Filter, Store};
use tollkeeper_engine::{Ask, BreakerState, Observer, SystemTimer, Target, Timer};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::{OnFailure, Policy};
use tollkeeper_server::engine_and_metrics;
use tollkeeper_stores::StoreEngine;
use tollkeeper_testkit::moment;

use crate::heard::Heard;
use crate::metrics::Told;
use crate::report::{Cause, Phase, Report, Sample};

/// Callers of each engine.
const CALLERS: usize = 4;

/// How often each of them asks.
const PACE: Duration = Duration::from_millis(3);

/// How long anything may take that is waited for, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(40);

/// Units of the rule that is used up before anything fails. Hardly any come back during a test.
pub(crate) const SPENT: u64 = 50;

/// Units of the rule of which some are left when something fails, and how many are used by then.
pub(crate) const HALF: u64 = 200;
pub(crate) const USED: u64 = 50;

/// Until each engine knows what its rules have left, nobody runs out of time.
const AMPLE: &str = "5s";

type App = StoreEngine<SystemClock>;

/// A service's engine with its choice, its callers, and what became of their requests.
pub(crate) struct Party {
    pub(crate) choice: OnFailure,
    plain: bool,
    url: String,
    pub(crate) engine: Arc<App>,
    pub(crate) samples: Arc<Mutex<Vec<Sample>>>,
    pub(crate) heard: Arc<Heard>,
    metrics: Box<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>,
    /// Its metrics have told that the store was down.
    pub(crate) told_down: AtomicBool,
}

impl Party {
    /// One that asks the server for every check by itself is `plain`; others tell denials again, and
    /// let checks go together. How patient connections are goes by `timeout`; decisions have ample time
    /// for now.
    fn new(url: &str, timeout: &str, choice: OnFailure, plain: bool) -> Self {
        let mut heard = None;
        let hears = |metrics| {
            Arc::clone(heard.insert(Arc::new(Heard::before(metrics)))) as Arc<dyn Observer>
        };
        let policy_of = |timeout| policy(url, choice, plain, timeout);
        let (engine, metrics) = engine_and_metrics(policy_of(timeout), hears).unwrap();
        engine.reload(policy_of(AMPLE)).unwrap();
        Self {
            choice,
            plain,
            url: url.to_owned(),
            engine,
            samples: Arc::default(),
            heard: heard.unwrap(),
            metrics,
            told_down: AtomicBool::new(false),
        }
    }

    /// From here on no decision waits for longer than this.
    fn hurry(&self, timeout: &str) {
        self.engine.reload(policy(&self.url, self.choice, self.plain, timeout)).unwrap();
    }

    fn count(&self, what: impl Fn(&Sample) -> bool) -> usize {
        self.samples.lock().unwrap().iter().filter(|sample| what(sample)).count()
    }

    pub(crate) fn is_well(&self) -> bool {
        self.engine.health().breaker == BreakerState::Closed
    }

    /// What `/metrics` says now.
    pub(crate) fn told(&self) -> Told {
        Told::parse(&(self.metrics)().unwrap())
    }

    /// Looks whether its metrics tell that the store is down, until they have done so once.
    fn watch(&self) {
        let is_down = || self.engine.health().down_for_us > 0;
        if !self.told_down.load(Ordering::SeqCst) && is_down() {
            self.told_down.store(self.told().is_down(), Ordering::SeqCst);
        }
    }
}

fn policy(url: &str, choice: OnFailure, plain: bool, timeout: &str) -> Policy {
    let denied_cache = if plain { "0" } else { "1s" };
    let policy = format!(
        "store:
  url: \"{url}\"
  on_failure: {}
  timeout: {timeout}
  denied_cache: {denied_cache}
  merge: {}
rules:
  spent: {{ token_bucket: {{ capacity: {SPENT}, refill_rate: {SPENT}/day }} }}
  half: {{ token_bucket: {{ capacity: {HALF}, refill_rate: {HALF}/day }} }}
  busy: {{ token_bucket: {{ capacity: 1000000, refill_rate: 1000000/s }} }}",
        choice.name(),
        !plain
    );
    Policy::parse(&policy, &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The engines, their callers, and the time.
pub(crate) struct Field {
    pub(crate) parties: Vec<Party>,
    timer: Arc<SystemTimer>,
    phase: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
    /// Held by whoever asks.
    asking: Arc<RwLock<()>>,
    asked: watch::Sender<u64>,
    tasks: Vec<JoinHandle<()>>,
    control: thread::JoinHandle<Vec<u64>>,
}

impl Field {
    /// Begins to ask engines on the server at `url`. Returns when all of them are well, one limited rule is
    /// used up and another one in part; from then on decisions wait for `timeout` at most.
    pub(crate) async fn begin(url: &str, timeout: &str) -> Self {
        let each = OnFailure::ALL.into_iter().flat_map(|choice| [(choice, false), (choice, true)]);
        let parties: Vec<Party> =
            each.map(|(choice, plain)| Party::new(url, timeout, choice, plain)).collect();
        for party in &parties {
            party.engine.store().opened().await.unwrap();
        }
        let timer = Arc::new(SystemTimer::new());
        let stop = Arc::new(AtomicBool::new(false));
        let (by, until) = (Arc::clone(&timer), Arc::clone(&stop));
        let control = thread::spawn(move || lateness(&by, &until));
        let mut field = Self {
            parties,
            timer,
            phase: Arc::new(AtomicU8::new(Phase::Before as u8)),
            stop,
            asking: Arc::default(),
            asked: watch::Sender::new(0),
            tasks: Vec::new(),
            control,
        };
        for party in 0..field.parties.len() {
            for _ in 0..CALLERS {
                field.tasks.push(field.caller(party));
            }
        }
        let is_used = |party: &Party| {
            party.count(|sample| sample.rule == "spent" && !sample.allowed) > 10
                && party.count(|sample| sample.rule == "half" && sample.allowed) as u64 >= USED
        };
        field.until("its limited rules are used", is_used).await;
        // While nobody asks: who has begun keeps the time that he had.
        let nobody_asks = field.asking.write().await;
        field.parties.iter().for_each(|party| party.hurry(timeout));
        drop(nobody_asks);
        field
    }

    fn caller(&self, party: usize) -> JoinHandle<()> {
        let Party { engine, samples, choice, plain, .. } = &self.parties[party];
        let (engine, samples) = (Arc::clone(engine), Arc::clone(samples));
        let (timer, phase) = (Arc::clone(&self.timer), Arc::clone(&self.phase));
        let (stop, asked) = (Arc::clone(&self.stop), self.asked.clone());
        let asking = Arc::clone(&self.asking);
        let key = format!("{}{}", choice.name(), if *plain { ", plain" } else { "" });
        tokio::spawn(async move {
            let mut pace = interval(PACE);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for rule in ["spent", "busy", "half", "busy"].into_iter().cycle() {
                pace.tick().await;
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let _asking = asking.read().await;
                let phase = Phase::of(phase.load(Ordering::SeqCst));
                let began_us = timer.now_us();
                let ask = Ask { target: Target::Rule(rule), key: Some(&key), cost: 1 };
                let verdict = engine.check(ask).await.unwrap();
                let took_us = timer.now_us() - began_us;
                samples.lock().unwrap().push(Sample {
                    rule,
                    phase,
                    took_us,
                    allowed: verdict.allowed(),
                    source: verdict.source(),
                    failed_closed: verdict.failed_closed(),
                });
                asked.send_modify(|count| *count += 1);
            }
        })
    }

    /// What is asked from here on counts as asked in `phase`.
    pub(crate) fn phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Waits until `holds` of every engine.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Party) -> bool) {
        let mut asked = self.asked.subscribe();
        let waiting = async {
            loop {
                self.parties.iter().for_each(Party::watch);
                if self.parties.iter().all(&holds) {
                    return;
                }
                asked.changed().await.unwrap();
            }
        };
        if timeout(PATIENCE, waiting).await.is_err() {
            let late = self.parties.iter().find(|party| !holds(party)).unwrap();
            let health = late.engine.health();
            panic!("{} is not so: {what}; {health:?}", late.choice.name());
        }
    }

    /// Waits until each engine has told so many callers something without the store.
    pub(crate) async fn until_told_without_store(&self, times: usize) {
        let what = format!("{times} requests were decided without the store");
        let without = |sample: &Sample| sample.phase == Phase::Outage && !sample.by_store();
        self.until(&what, |party| party.count(without) >= times).await;
    }

    /// Waits until whoever asks the store itself, past the breaker, is refused as `cause` says.
    pub(crate) async fn until_refused(&self, cause: &Cause) {
        let Some(refusal) = cause.refusal else { return };
        for party in &self.parties {
            let mut asked = self.asked.subscribe();
            let mut told = String::new();
            let refused = async {
                while !told.contains(refusal) {
                    asked.changed().await.unwrap();
                    let shown = party.engine.store().inspect(Filter::default(), 1).await;
                    told = format!("{shown:?}");
                }
            };
            let in_time = timeout(PATIENCE, refused).await;
            assert!(in_time.is_ok(), "{} is not told {refusal}: {told}", party.choice.name());
        }
    }

    /// Goes on for a while.
    pub(crate) async fn go_on_for(&self, time: Duration) {
        let until_us = self.timer.now_us() + u64::try_from(time.as_micros()).unwrap();
        self.until("time passes", |_| self.timer.now_us() >= until_us).await;
    }

    /// Waits until every engine is well again; how long that took in the slowest.
    pub(crate) async fn recover(&self) -> Duration {
        self.phase(Phase::After);
        let began_us = self.timer.now_us();
        let by_store = |sample: &Sample| sample.phase == Phase::After && sample.by_store();
        self.until("it is well again", |party| party.is_well() && party.count(by_store) > 0).await;
        Duration::from_micros(self.timer.now_us() - began_us)
    }

    /// Lets every engine be asked some more, ends the callers, and tells what became of it all.
    pub(crate) async fn end(self) -> Report {
        let after = |sample: &Sample| sample.phase == Phase::After;
        // The store gives all that it has, or nobody would see it give too much.
        let no_more = |sample: &Sample| {
            after(sample) && sample.rule == "half" && sample.by_store() && !sample.allowed
        };
        // A machine that does much else may make it seem sick once more.
        let is_done =
            |party: &Party| party.count(after) > 100 && party.count(no_more) > 0 && party.is_well();
        self.until("it is asked some more", is_done).await;
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        let late = tokio::task::block_in_place(|| self.control.join()).unwrap();
        Report::new(self.parties, late)
    }
}

/// How late the machine itself is, again and again: nobody can be more punctual than that. It is a thread of its
/// own that looks: whoever holds up those of the engines must not be excused by that.
fn lateness(timer: &SystemTimer, stop: &Arc<AtomicBool>) -> Vec<u64> {
    let mut late = Vec::new();
    // A test that fails leaves nobody who could stop it.
    while !stop.load(Ordering::SeqCst) && Arc::strong_count(stop) > 1 {
        let at_us = timer.now_us() + 2_000;
        moment::pass(Duration::from_micros(2_000));
        late.push(timer.now_us().saturating_sub(at_us));
    }
    late
}
