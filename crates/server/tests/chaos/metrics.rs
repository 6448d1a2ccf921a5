//! Owns [`Told`]: what `/metrics` said, and what it must say of the requests that there were.

use tollkeeper_engine::Source;
use tollkeeper_policy::OnFailure;

use crate::report::Sample;

/// The lines of one reading: a series with its labels, and its number.
#[derive(Debug)]
pub(crate) struct Told(Vec<(String, f64)>);

impl Told {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = |line: &str| {
            let (name, number) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), number.parse().unwrap())
        };
        Self(lines.map(series).collect())
    }

    /// The numbers of every series of a metric whose labels have this among them.
    fn all(&self, metric: &str, label: &str) -> impl Iterator<Item = f64> {
        let is_meant = move |series: &str| {
            let labels =
                series.strip_prefix("tollkeeper_").and_then(|rest| rest.strip_prefix(metric));
            labels.is_some_and(|labels| {
                (labels.is_empty() || labels.starts_with('{')) && labels.contains(label)
            })
        };
        self.0.iter().filter(move |(series, _)| is_meant(series)).map(|(_, number)| *number)
    }

    /// The only number of a metric.
    fn one(&self, metric: &str) -> f64 {
        let numbers: Vec<f64> = self.all(metric, "").collect();
        assert_eq!(numbers.len(), 1, "{metric}: {self:?}");
        numbers[0]
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and small")]
    fn sum(&self, metric: &str, label: &str) -> usize {
        self.all(metric, label).sum::<f64>() as usize
    }

    /// The store is down, and the breaker not closed.
    pub(crate) fn is_down(&self) -> bool {
        self.one("store_down_seconds") > 0.0 && self.one("breaker_state") > 0.5
    }

    /// Whoever was told anything is counted once and as what he was told, and all is well now.
    pub(crate) fn assert_counts(&self, samples: &[Sample], choice: OnFailure) {
        let count = |what: &dyn Fn(&Sample) -> bool| samples.iter().filter(|it| what(it)).count();
        let without = count(&|sample| !sample.by_store());
        for each in OnFailure::ALL {
            let failed = self.sum(&format!("fail_{}_total", each.name()), "");
            let expected = if each == choice { without } else { 0 };
            assert_eq!(failed, expected, "fail_{} of {}", each.name(), choice.name());
        }
        let allowed = count(&|sample| sample.allowed);
        for (label, expected) in [
            ("", samples.len()),
            ("source=\"fallback\"", without),
            ("result=\"allowed\"", allowed),
            ("result=\"denied\"", samples.len() - allowed),
        ] {
            let decisions = self.sum("decisions_total", label);
            assert_eq!(decisions, expected, "decisions of {} with {label}", choice.name());
        }
        // Who was told by the store has asked it, and nobody has asked it twice.
        let (calls, answered) =
            (self.sum("store_seconds_count", ""), count(&|sample| sample.source == Source::Store));
        assert!(
            calls >= answered.max(1) && calls <= samples.len(),
            "{calls} calls, {answered} answers"
        );
        let health = (self.one("breaker_state"), self.one("store_down_seconds"));
        assert_eq!(health, (0.0, 0.0), "{}", choice.name());
    }
}
