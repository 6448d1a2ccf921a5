//! Owns [`Report`]: what became of the calls of a phase, as workers tell it; and [`Field`]: the
//! workers, and all that they have told.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::Instant;
use tollkeeper_core::{Check, Request, Store};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::moment::pass;

use crate::load::{CAPACITY, DEADLINE, PER_SECOND, quota, url_of};
use crate::workers::Workers;

/// How much later than the deadline anybody may be told.
const LATE_US: u64 = 100_000;

/// How long is looked before all is called well.
const WELL: Duration = Duration::from_millis(300);

/// What became of the calls of one limit and key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    /// Failed, and surely did not run.
    pub(crate) not_run: u64,
    /// Failed, and may have run.
    pub(crate) unknown: u64,
}

impl Counts {
    pub(crate) fn failed(&self) -> u64 {
        self.not_run + self.unknown
    }

    fn add(&mut self, other: &Self) {
        self.admitted += other.admitted;
        self.denied += other.denied;
        self.not_run += other.not_run;
        self.unknown += other.unknown;
    }
}

/// What became of the calls of a phase, by limit and key.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) counts: BTreeMap<String, Counts>,
    /// How long the longest call took.
    pub(crate) longest_us: u64,
    /// How late the machine itself was.
    pub(crate) machine_us: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.longest_us, self.machine_us)?;
        for (name, Counts { admitted, denied, not_run, unknown }) in &self.counts {
            write!(f, " {name} {admitted} {denied} {not_run} {unknown}")?;
        }
        Ok(())
    }
}

impl Report {
    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |nth: usize| words[nth].parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
        let counts = (2..words.len()).step_by(5).map(|at| {
            let [admitted, denied, not_run, unknown] = [1, 2, 3, 4].map(|nth| number(at + nth));
            (words[at].to_owned(), Counts { admitted, denied, not_run, unknown })
        });
        Self { longest_us: number(0), machine_us: number(1), counts: counts.collect() }
    }

    fn add(&mut self, other: &Self) {
        self.longest_us = self.longest_us.max(other.longest_us);
        self.machine_us = self.machine_us.max(other.machine_us);
        for (name, counts) in &other.counts {
            self.counts.entry(name.clone()).or_default().add(counts);
        }
    }

    /// All calls that failed, of keys that are meant.
    pub(crate) fn failed(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let meant = self.each().filter(|(_, key, _)| is_meant(key));
        meant.map(|(.., counts)| counts.failed()).sum()
    }

    /// What was counted, with limit and key.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&str, &str, Counts)> {
        self.counts.iter().map(|(name, counts)| {
            let (limit, key) = name.split_once('/').unwrap();
            (limit, key, *counts)
        })
    }

    fn assert_punctual(&self) {
        let most_us = u64::try_from(DEADLINE.as_micros()).unwrap() + LATE_US + self.machine_us;
        assert!(self.longest_us <= most_us, "somebody waited {} µs: {self}", self.longest_us);
    }
}

/// Workers that ask for keys, and all that they have told.
pub(crate) struct Field {
    workers: Workers,
    place: String,
    runtime: Runtime,
    begun: Instant,
    pub(crate) all: Report,
}

impl Field {
    /// Begins to ask for `keys` at `place`.
    pub(crate) fn begin(place: &str, keys: &[String]) -> Self {
        let mut field = Self {
            workers: Workers::start("a_worker", place),
            place: place.to_owned(),
            runtime: Runtime::new().unwrap(),
            begun: Instant::now(),
            all: Report::default(),
        };
        // Some are answered by then. Not counted, they would look like calls that were charged twice.
        field.told(&format!("keys {}", keys.join(" ")));
        field
    }

    /// What has become of all calls since the last time.
    pub(crate) fn phase(&mut self) -> Report {
        self.told("phase")
    }

    fn told(&mut self, order: &str) -> Report {
        let mut phase = Report::default();
        for said in self.workers.tell(order) {
            phase.add(&Report::read(&said));
        }
        phase.assert_punctual();
        self.all.add(&phase);
        phase
    }

    /// Nothing fails for a while, and something is asked.
    pub(crate) fn assert_well(&mut self) {
        self.phase();
        pass(WELL);
        let phase = self.phase();
        assert_eq!(phase.failed(|_| true), 0, "{phase}");
        assert!(phase.counts.values().all(|counts| counts.admitted + counts.denied > 0), "{phase}");
    }

    /// Waits until all is well, for no longer than `patience`.
    pub(crate) fn until_well(&mut self, patience: Duration) {
        let looks = patience.as_millis() / WELL.as_millis() + 1;
        let mut last = self.phase();
        for _ in 0..looks {
            pass(WELL);
            last = self.phase();
            if last.failed(|_| true) == 0 {
                return;
            }
        }
        panic!("not well within {patience:?}: {last}");
    }

    /// Stops asking, and compares what was told with what is stored.
    pub(crate) fn end(mut self) -> Balance {
        self.told("end");
        let store = self.runtime.block_on(async {
            RedisStore::connect(&url_of(&self.place), Settings::default()).await.unwrap()
        });
        let used = |name: &String| {
            let (limit, key) = name.split_once('/').unwrap();
            let quota = quota(limit);
            let check = Check::new(limit, &quota, key, 0);
            let request = Request::new([check], None).unwrap();
            let answer = self.runtime.block_on(store.decide(&[request])).remove(0).unwrap();
            (name.clone(), quota.limit() - answer.outcomes()[0].remaining)
        };
        let used = self.all.counts.keys().map(used).collect();
        Balance { all: self.all, used, lasted: self.begun.elapsed() }
    }
}

/// What was told of each limit and key, and what is stored.
pub(crate) struct Balance {
    pub(crate) all: Report,
    used: BTreeMap<String, u64>,
    /// How long it was asked.
    lasted: Duration,
}

impl Balance {
    /// Limit, key, what was told, and what is used of limits that give nothing back.
    fn kept(&self) -> impl Iterator<Item = (&str, &str, Counts, u64)> {
        let all = self.all.each().zip(self.used.values());
        let all = all.map(|((limit, key, counts), used)| (limit, key, counts, *used));
        all.filter(|(limit, ..)| *limit != "bucket")
    }

    /// Nothing was charged twice: no more is used than was admitted or may have been.
    pub(crate) fn assert_charged_once(&self) {
        for (limit, key, counts, used) in self.kept() {
            let most = counts.admitted + counts.unknown;
            assert!(used <= most, "{limit} of {key}: {used} used, {counts:?}");
        }
    }

    /// Nothing was lost of these keys: as much is used as was admitted.
    pub(crate) fn assert_kept(&self, is_meant: impl Fn(&str) -> bool) {
        for (limit, key, counts, used) in self.kept().filter(|(_, key, ..)| is_meant(key)) {
            assert!(used >= counts.admitted, "{limit} of {key}: {used} used, {counts:?}");
        }
    }

    /// No key was admitted more than its limit, and once more a capacity and what came back in the
    /// time that was lost, if anything was.
    pub(crate) fn assert_bounded(&self, lost: Option<Duration>) {
        for (limit, key, counts) in self.all.each() {
            let (capacity, per_second) = match limit {
                "bucket" => (CAPACITY, PER_SECOND),
                limit => (quota(limit).limit(), 0),
            };
            let over = |time: Duration| {
                let us = u64::try_from(time.as_micros()).unwrap();
                capacity + (per_second * us).div_ceil(1_000_000)
            };
            let most = over(self.lasted) + lost.map_or(0, over);
            assert!(counts.admitted <= most, "{limit} of {key}: {most} at most, {counts:?}");
        }
    }

    /// The limit of this name is used up for every key, and was admitted exactly.
    pub(crate) fn assert_exact(&self, name: &str) {
        let mut seen = 0;
        for (limit, key, counts, used) in self.kept().filter(|(limit, ..)| *limit == name) {
            let most = quota(limit).limit();
            assert_eq!(used, most, "{limit} of {key}: {counts:?}");
            // Whoever was not told may have been the one.
            let told = most - counts.unknown.min(most)..=most;
            assert!(told.contains(&counts.admitted), "{limit} of {key}: {counts:?}");
            seen += 1;
        }
        assert!(seen > 0, "there is no limit {name}");
    }
}
