//! Owns [`Report`]: what became of every request, and the bounds that are asserted of it.

use std::time::Duration;

use tollkeeper_engine::StoreChange;
use tollkeeper_policy::OnFailure;

use crate::field::{Party, SPENT};

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

    /// Nobody was told later than the deadline and a little.
    pub(crate) fn assert_punctual(&self, deadline: Duration) {
        let late = |share: f64| self.late_us[rank(self.late_us.len(), share)];
        let mut took: Vec<u64> = self.samples().map(|sample| sample.took_us).collect();
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
                    // Its limiter is warm: what was used up stays used up.
                    OnFailure::Static => (sample.rule == "busy", false),
                };
                assert_eq!(told, expected, "{} told {sample:?}", choice.name());
            }
        }
    }

    /// The store and the warm limiters together admitted what is allowed, `times` over: once, and
    /// once more for each time that the server has lost what it held. `refilled` came back.
    pub(crate) fn assert_admitted(&self, times: u64, refilled: u64) {
        for (choice, samples, _) in &self.parties {
            let counted = |sample: &&Sample| {
                // Failing open is not counting.
                sample.rule == "spent" && (sample.by_store || *choice == OnFailure::Static)
            };
            let admitted = samples.iter().filter(counted).filter(|sample| sample.allowed).count();
            let most = usize::try_from(SPENT * times + refilled).unwrap();
            assert!(admitted <= most, "{} admitted {admitted} of {most}", choice.name());
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
