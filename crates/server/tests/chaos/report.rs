//! Owns [`Report`]: what became of every request, and the bounds that are asserted of it.

use std::time::Duration;

use tollkeeper_engine::{Source, StoreChange};
use tollkeeper_policy::OnFailure;

use crate::field::{HALF, Party, SPENT, USED};
use crate::metrics::Told;

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
    pub(crate) source: Source,
    pub(crate) failed_closed: bool,
}

impl Sample {
    /// Decided by the store, now or earlier.
    pub(crate) fn by_store(&self) -> bool {
        self.source != Source::Fallback
    }
}

/// What was seen of one engine.
struct Seen {
    choice: OnFailure,
    samples: Vec<Sample>,
    heard: Vec<StoreChange>,
    /// What its metrics say at the end, and whether they have told that the store was down.
    told: Told,
    told_down: bool,
}

/// Why the store is down.
pub(crate) struct Cause {
    /// What the calls say that fail first, which the log gives as the reason: one of these, or as further ones.
    pub(crate) reasons: &'static [&'static str],
    /// What further calls say, if they say anything.
    pub(crate) refusal: Option<&'static str>,
}

impl Cause {
    /// Nothing comes back.
    pub(crate) const SILENCE: Self =
        Self { reasons: &["the store gave no answer within 20ms"], refusal: None };

    /// Connections end, which is heard first, and further calls are told this.
    pub(crate) const fn ended(refusal: &'static str) -> Self {
        let reasons = &["the server closed the connection", "Connection reset", "Broken pipe"];
        Self { reasons, refusal: Some(refusal) }
    }
}

/// Everything that was seen.
pub(crate) struct Report {
    parties: Vec<Seen>,
    /// How late the machine itself was, sorted.
    late_us: Vec<u64>,
}

impl Report {
    pub(crate) fn new(parties: Vec<Party>, mut late_us: Vec<u64>) -> Self {
        late_us.sort_unstable();
        let seen = |party: Party| Seen {
            choice: party.choice,
            samples: std::mem::take(&mut *party.samples.lock().unwrap()),
            heard: std::mem::take(&mut *party.heard.changes.lock().unwrap()),
            told: party.told(),
            told_down: party.told_down.into_inner(),
        };
        Self { parties: parties.into_iter().map(seen).collect(), late_us }
    }

    fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.parties.iter().flat_map(|seen| &seen.samples)
    }

    /// Nobody was told later than the deadline and a little: during the outage, and from then on.
    pub(crate) fn assert_punctual(&self, deadline: Duration) {
        for phases in [&[Phase::Outage, Phase::After][..], &[Phase::Outage]] {
            self.assert_share(0.99, phases, deadline + Duration::from_millis(5));
            self.assert_share(1.0, phases, deadline + Duration::from_millis(100));
        }
    }

    /// Nearly nobody waited for longer than that and a little, though all had ample time.
    pub(crate) fn assert_swift(&self, within: Duration) {
        self.assert_share(0.99, &[Phase::After], within + Duration::from_millis(5));
    }

    /// It was well again within that time, and as much as the machine itself was late at most, for each of the
    /// steps that it takes: somebody looks, connects, signs in, examines, probes, and is answered.
    pub(crate) fn assert_recovered(&self, recovered: Duration, within: Duration) {
        const STEPS: u32 = 6;
        let late = Duration::from_micros(self.late_us.last().copied().unwrap_or(0));
        assert!(
            recovered <= within + STEPS * late,
            "well again only after {recovered:?} (the machine: {late:?} late)"
        );
    }

    /// Such a share was told within that time, and as much as such a share of the machine's own waits was late.
    fn assert_share(&self, share: f64, phases: &[Phase], within: Duration) {
        let samples = self.samples().filter(|sample| phases.contains(&sample.phase));
        let mut took: Vec<u64> = samples.map(|sample| sample.took_us).collect();
        took.sort_unstable();
        let took_us = took[rank(took.len(), share)];
        let late_us = self.late_us[rank(self.late_us.len(), share)];
        let within_us = u64::try_from(within.as_micros()).unwrap();
        assert!(
            took_us <= within_us + late_us,
            "{share} of {} requests took up to {took_us} µs (the machine: {late_us} µs late)",
            took.len()
        );
    }

    /// Without the store each engine did what it was told to do.
    pub(crate) fn assert_choices(&self) {
        for Seen { choice, samples, .. } in &self.parties {
            for sample in samples.iter().filter(|sample| !sample.by_store()) {
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
    /// not hear of that, may admit it once more: it admits the limit itself, whatever an engine does without it.
    pub(crate) fn assert_admitted(&self, times: u64, hours: u64) {
        for Seen { choice, samples, .. } in &self.parties {
            let admitted = |rule: &str, counts: &dyn Fn(&Sample) -> bool| {
                // Failing open is not counting.
                let counted = |sample: &&Sample| sample.by_store() || *choice == OnFailure::Static;
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
                admitted("half", &|sample| !sample.by_store()),
                HALF - USED,
                1,
            );
            check("what was left, there", admitted("half", &Sample::by_store), HALF, times);
        }
    }

    /// Everybody heard that the store went, and each time that it came back.
    pub(crate) fn assert_heard(&self) {
        for Seen { choice, heard, .. } in &self.parties {
            assert!(!heard.is_empty(), "{} heard nothing", choice.name());
            for (nth, change) in heard.iter().enumerate() {
                let down = matches!(change, StoreChange::Down { .. });
                assert_eq!(down, nth % 2 == 0, "{} heard {heard:?}", choice.name());
            }
            assert_eq!(heard.len() % 2, 0, "{} heard {heard:?}", choice.name());
        }
    }

    /// The metrics tell it all: who was told what, and that the store was down if it was.
    pub(crate) fn assert_metrics(&self, was_down: bool) {
        for Seen { choice, samples, told, told_down, .. } in &self.parties {
            told.assert_counts(samples, *choice);
            assert_eq!(*told_down, was_down, "{} told that it is down", choice.name());
        }
    }

    /// Everybody heard why it went, when it went first.
    pub(crate) fn assert_cause(&self, cause: &Cause) {
        for Seen { choice, heard, .. } in &self.parties {
            let Some(StoreChange::Down { reason }) = heard.first() else { panic!("{heard:?}") };
            let is_told = cause.reasons.iter().chain(&cause.refusal).any(|it| reason.contains(it));
            assert!(is_told, "{}: {reason}", choice.name());
        }
    }

    /// Nobody was ever told this.
    pub(crate) fn assert_never_told(&self, text: &str) {
        let told = format!("{:?}", self.parties.iter().map(|seen| &seen.heard).collect::<Vec<_>>());
        assert!(!told.contains(text), "{told}");
    }

    /// A limit that nobody comes near denied nobody.
    pub(crate) fn assert_never_locked(&self) {
        for sample in self.samples().filter(|sample| sample.rule == "busy") {
            assert!(sample.allowed, "{sample:?}");
        }
    }

    /// All of it was decided by the store.
    pub(crate) fn assert_all_by_store(&self) {
        for Seen { choice, samples, heard, .. } in &self.parties {
            assert_eq!(heard, &[], "{}", choice.name());
            assert!(samples.iter().all(Sample::by_store), "{}", choice.name());
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
