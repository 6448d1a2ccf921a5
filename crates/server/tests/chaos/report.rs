//! Owns [`Report`]: what became of every request, and the bounds that are asserted of it.

use std::time::Duration;

use tollkeeper_engine::StoreChange;
use tollkeeper_policy::OnFailure;

use crate::field::{HALF, Party, SPENT, USED};

/// When a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Before,
    Outage,
    After,
}

impl Phase {
    pub(crate) fn of(number: u8) -> Self {
        [Self::Before, Self::Outage, Self::After][usize::from(number)]
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) rule: &'static str,
    pub(crate) phase: Phase,
    pub(crate) took_us: u64,
    pub(crate) allowed: bool,
    pub(crate) by_store: bool,
    pub(crate) failed_closed: bool,
}

/// Everything that was seen.
pub(crate) struct Report {
    parties: Vec<(OnFailure, Vec<Sample>, Vec<StoreChange>)>,
    /// How late the machine itself was, sorted.
    late_us: Vec<u64>,
}

impl Report {
    pub(crate) fn new(parties: Vec<Party>, mut late_us: Vec<u64>) -> Self {
        late_us.sort_unstable();
        let seen = |party: Party| {
            let samples = std::mem::take(&mut *party.samples.lock().unwrap());
            let heard = std::mem::take(&mut *party.heard.0.lock().unwrap());
            (party.choice, samples, heard)
        };
        Self { parties: parties.into_iter().map(seen).collect(), late_us }
    }

    fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.parties.iter().flat_map(|(_, samples, _)| samples)
    }

    /// Nobody was told later than the deadline and a little: during the outage, and from then on.
    pub(crate) fn assert_punctual(&self, deadline: Duration) {
        let hurried = |sample: &&Sample| sample.phase != Phase::Before;
        self.assert_of(self.samples().filter(hurried), deadline);
        self.assert_of(self.samples().filter(|sample| sample.phase == Phase::Outage), deadline);
    }

    fn assert_of<'a>(&self, samples: impl Iterator<Item = &'a Sample>, deadline: Duration) {
        let late = |share: f64| self.late_us[rank(self.late_us.len(), share)];
        let mut took: Vec<u64> = samples.map(|sample| sample.took_us).collect();
        took.sort_unstable();
        let deadline_us = u64::try_from(deadline.as_micros()).unwrap();
        let p99_us = took[rank(took.len(), 0.99)];
        let most_us = took[took.len() - 1];
        let (late_p99, late_most) = (late(0.99), late(1.0));
        assert!(
            p99_us <= deadline_us + 5_000 + late_p99,
            "p99 of {} requests is {p99_us} µs (the machine: {late_p99} µs late)",
            took.len()
        );
        assert!(
            most_us <= deadline_us + 100_000 + late_most,
            "the last of {} requests waited {most_us} µs (the machine: {late_most} µs late)",
            took.len()
        );
    }

    /// Without the store each engine did what it was told to do.
    pub(crate) fn assert_choices(&self) {
        for (choice, samples, _) in &self.parties {
            for sample in samples.iter().filter(|sample| !sample.by_store) {
                let told = (sample.allowed, sample.failed_closed);
                let expected = match choice {
                    OnFailure::Open => (true, false),
                    OnFailure::Closed => (false, true),
                    // How much of it is left is told by how much was admitted.
                    OnFailure::Static if sample.rule == "half" => (sample.allowed, false),
                    // Its limiter is warm: what was used up stays used up.
                    OnFailure::Static => (sample.rule == "busy", false),
                };
                assert_eq!(told, expected, "{} told {sample:?}", choice.name());
            }
        }
    }

    /// The store and the warm limiters together admitted what is allowed, `times` over: once, and
    /// once more for each time that the server has lost what it held. Its clock has gone forward by some
    /// hours of the day in which all comes back.
    ///
    /// A warm limiter admits at most what was left when it last heard of the store. The store, which does
    /// not hear of that, may admit it once more.
    pub(crate) fn assert_admitted(&self, times: u64, hours: u64) {
        for (choice, samples, _) in &self.parties {
            let admitted = |rule: &str, counts: &dyn Fn(&Sample) -> bool| {
                // Failing open is not counting.
                let counted = |sample: &&Sample| sample.by_store || *choice == OnFailure::Static;
                let admitted = samples.iter().filter(counted).filter(|sample| sample.allowed);
                admitted.filter(|sample| sample.rule == rule && counts(sample)).count() as u64
            };
            let check = |what: &str, admitted: u64, limit: u64, times: u64| {
                let most = limit * times + limit * hours / 24 + hours.min(1);
                let choice = choice.name();
                assert!(admitted <= most, "{choice} admitted {admitted} of {most}: {what}");
            };
            check("what was used up", admitted("spent", &|_| true), SPENT, times);
            check(
                "what was left, here",
                admitted("half", &|sample| !sample.by_store),
                HALF - USED,
                1,
            );
            check("what was left", admitted("half", &|_| true), HALF, times + 1);
        }
    }

    /// Everybody heard that the store went, and each time that it came back.
    pub(crate) fn assert_heard(&self) {
        for (choice, _, heard) in &self.parties {
            assert!(!heard.is_empty(), "{} heard nothing", choice.name());
            for (nth, change) in heard.iter().enumerate() {
                let down = matches!(change, StoreChange::Down { .. });
                assert_eq!(down, nth % 2 == 0, "{} heard {heard:?}", choice.name());
            }
            assert_eq!(heard.len() % 2, 0, "{} heard {heard:?}", choice.name());
        }
    }

    /// The first thing that anybody heard of what is wrong.
    pub(crate) fn reason(&self) -> &str {
        match self.parties.iter().find_map(|(_, _, heard)| heard.first()) {
            Some(StoreChange::Down { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// A limit that nobody comes near denied nobody.
    pub(crate) fn assert_never_locked(&self) {
        for sample in self.samples().filter(|sample| sample.rule == "busy") {
            assert!(sample.allowed, "{sample:?}");
        }
    }

    /// All of it was decided by the store.
    pub(crate) fn assert_all_by_store(&self) {
        for (choice, samples, heard) in &self.parties {
            assert_eq!(heard, &[], "{}", choice.name());
            assert!(samples.iter().all(|sample| sample.by_store), "{}", choice.name());
        }
    }
}

fn rank(count: usize, share: f64) -> usize {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a few thousand"
    )]
    let rank = (count as f64 * share).ceil() as usize;
    rank.clamp(1, count) - 1
}
