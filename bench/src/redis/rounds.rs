//! The rounds of one table: medians, spreads, and ratios of what was measured side by side.

use super::load::Sample;
use crate::spread::Spread;

/// What every contestant gave in every round.
pub(crate) struct Rounds {
    names: Vec<&'static str>,
    /// For each contestant, its rounds.
    samples: Vec<Vec<Sample>>,
}

impl Rounds {
    pub(crate) fn new(names: impl Iterator<Item = &'static str>) -> Self {
        let names: Vec<_> = names.collect();
        let samples = names.iter().map(|_| Vec::new()).collect();
        Self { names, samples }
    }

    /// Adds a round: a sample of everybody.
    pub(crate) fn push(&mut self, round: impl Iterator<Item = Sample>) {
        self.samples.iter_mut().zip(round).for_each(|(samples, sample)| samples.push(sample));
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().copied()
    }

    /// One number of a contestant, over the rounds.
    pub(crate) fn of(&self, name: &str, number: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.rounds(name).iter().map(number))
    }

    /// The server's time of a contestant in terms of another's in the same round.
    pub(crate) fn ratio(&self, name: &str, to: &str) -> Spread {
        self.ratio_of(name, to, |sample| sample.server_us)
    }

    /// One number of a contestant in terms of another's in the same round.
    pub(crate) fn ratio_of(&self, name: &str, to: &str, number: impl Fn(&Sample) -> f64) -> Spread {
        let pairs = self.rounds(name).iter().zip(self.rounds(to));
        Spread::of(pairs.map(|(one, other)| number(one) / number(other)))
    }

    /// The same in terms of the plain script of its algorithm, if there is one.
    pub(crate) fn ratio_to_plain(&self, name: &str) -> Option<Spread> {
        let plain = format!("plain {name}");
        self.names.contains(&plain.as_str()).then(|| self.ratio(name, &plain))
    }

    fn rounds(&self, name: &str) -> &[Sample] {
        let at = self.names.iter().position(|known| *known == name).unwrap();
        &self.samples[at]
    }
}
